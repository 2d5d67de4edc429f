// The spelling and the form of a text, as in tfmr/data/text.py. A test compares the results with
// Python's.

const SPACE = /[\p{White_Space}\u001c-\u001f\u200b]+/gu;
const REMOVED = /[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u2060\ufeff]/g;

/** The canonical spelling of one line of text; a character that was cut in half becomes U+FFFD. */
export const canonical = (text) =>
  text.toWellFormed().replace(REMOVED, "").replace(SPACE, " ").replace(/^ | $/g, "").normalize("NFC");

/** The words of a text. */
export const split = (text) => canonical(text).split(" ").filter((word) => word !== "");

/** Convert a text to the form of the corpus: in the pocket grammar, lower case and a separate full stop. */
export function toForm(text, form) {
  if (form === "plain") return canonical(text);
  const words = split(canonical(text.toLowerCase()).replace(/[. ]+$/, ""));
  return words.length > 0 ? [...words, "."].join(" ") : "";
}

/** Convert a text from the form of the corpus to ordinary spelling: "l' ours dort ." to "l'ours dort." */
export const fromForm = (text, form) =>
  form === "plain" ? text : text.replaceAll("' ", "'").replaceAll(" -", "").replaceAll(" .", ".");

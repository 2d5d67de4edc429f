// The form of a text, as in tfmr/data/text.py. A test compares the results with Python's.

// What Python's str.split() separates words at.
const SPACE = /[\p{White_Space}\u001c-\u001f]+/u;

/** The words of a text. */
export const split = (text) => text.split(SPACE).filter((word) => word !== "");

/** Unicode normal form C; a character that was cut in half becomes U+FFFD. */
export const canonical = (text) => text.toWellFormed().normalize("NFC");

/** Convert a text to the form of the corpus: in the pocket grammar, lower case and a separate full stop. */
export function toForm(text, form) {
  if (form === "plain") return canonical(text);
  const words = split(canonical(text.toLowerCase()).replace(/[. \t\r\n]+$/, ""));
  return words.length > 0 ? [...words, "."].join(" ") : "";
}

/** Convert a text from the form of the corpus to ordinary spelling: "l' ours dort ." to "l'ours dort." */
export const fromForm = (text, form) =>
  form === "plain" ? text : text.replaceAll("' ", "'").replaceAll(" -", "").replaceAll(" .", ".");

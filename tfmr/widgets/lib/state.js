// The state of a figure as text, for an address: &name=value for each trait that differs from the
// stored one. Texts stand there as they are, all other values as JSON.
//
// A kind describes the values that a reader can give a trait: `accepts(value)`, `expected` (words),
// and `isText`.

/** The longest state in characters; browsers and messengers accept addresses of this length. */
const LONGEST = 4000;

/** A whole number. */
export function whole(min, max) {
  const accepts = (value) => Number.isInteger(value) && value >= min && value <= max;
  return { accepts, expected: `a whole number from ${min} to ${max}` };
}

/** A number. */
export function number(min, max) {
  const accepts = (value) => typeof value === "number" && value >= min && value <= max;
  return { accepts, expected: `a number from ${min} to ${max}` };
}

/** One of a few values: texts or other values. */
export function oneOf(values) {
  const isText = values.every((value) => typeof value === "string");
  return { accepts: (value) => values.includes(value), expected: `one of ${values.join(", ")}`, isText };
}

/** True or false. */
export const flag = oneOf([true, false]);

/** Any text. */
export const anyText = { accepts: () => true, expected: "text", isText: true };

/** A list of the same length as `stored`, whose items are of a kind. */
export function listOf(kind, stored) {
  const accepts = (value) => Array.isArray(value) && value.length === stored.length && value.every(kind.accepts);
  return { accepts, expected: `a list of ${stored.length} items, each ${kind.expected}` };
}

/** A value of a kind, or null. */
export function optional(kind) {
  return { accepts: (value) => value === null || kind.accepts(value), expected: `null or ${kind.expected}` };
}

/** What an address contains of a text; messengers end an address at other characters. */
const encoded = (text) => encodeURIComponent(text.toWellFormed()).replace(/[!'()*~]|%2C/g, (each) =>
  (each === "%2C" ? "," : `%${each.charCodeAt(0).toString(16).toUpperCase()}`));

const shortened = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);

/** The state as text, "" if it is the stored one; undefined if it is too long for an address. */
export function writeState(kinds, stored, get) {
  const parts = Object.entries(kinds).map(([name, { isText }]) => {
    const value = isText ? get(name) : JSON.stringify(get(name));
    return value === (isText ? stored[name] : JSON.stringify(stored[name])) ? "" : `&${name}=${encoded(value)}`;
  });
  const text = parts.join("");
  return text.length <= LONGEST ? text : undefined;
}

/** The values of the traits in such a text. Throws an Error that says which part cannot be used. */
export function readState(kinds, text) {
  if (text.length > LONGEST) throw new Error(`it has ${text.length} characters; at most ${LONGEST} are allowed`);
  const values = {};
  for (const part of text.split("&").slice(1)) {
    const [, name, given] = /^([^=]*)=?(.*)$/s.exec(part);
    if (!Object.hasOwn(kinds, name)) throw new Error(`this figure has no “${shortened(name)}” that can be set`);
    if (Object.hasOwn(values, name)) throw new Error(`it sets “${name}” twice`);
    const { accepts, expected, isText } = kinds[name];
    const got = new Error(`“${name}” must be ${expected}, but is “${shortened(given)}”`);
    try {
      const decoded = decodeURIComponent(given);
      values[name] = isText ? decoded : JSON.parse(decoded);
    } catch {
      throw got;
    }
    if (!accepts(values[name])) throw got;
  }
  return values;
}

// Addresses of the book's pages.

import { writeState } from "./state.js";

/** The folder of the site, relative to this page; undefined outside the site, as in a notebook. */
function root() {
  return document.documentElement.dataset.content_root;
}

/** The address of a chapter, "04-self-attention.ipynb": its page, or the notebook beside this one. */
export function chapterAddress(file) {
  return root() === undefined ? file : root() + file.replace(".ipynb", ".html");
}

/** The page with the source of "tfmr.attention.MultiHeadAttention"; undefined outside the site. */
export function sourceAddress(name) {
  const parts = name.split(".");
  const object = parts.pop();
  return root() === undefined ? undefined : `${root()}_modules/${parts.join("/")}.html#${object}`;
}

/**
 * The address of the live figure `number` of a chapter, in which some traits have the given values;
 * undefined outside the site, and for values that are too long for an address.
 */
export function figureAddress(file, number, values) {
  const kinds = Object.entries(values).map(([name, value]) => [name, { isText: typeof value === "string" }]);
  const state = writeState(Object.fromEntries(kinds), {}, (name) => values[name]);
  if (root() === undefined || state === undefined) return undefined;
  return `${chapterAddress(file)}#live-${file.replace(".ipynb", "")}-${number}${state}`;
}

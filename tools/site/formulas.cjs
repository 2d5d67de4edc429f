// Sets formulas with KaTeX. Reads a list of {tex, display} as JSON and writes, for each, {html} or {error}.
// The HTML is for the eye; the MathML in it is for screen readers.

const { readFileSync } = require("node:fs");
const katex = require("katex");

const options = {
  output: "htmlAndMathml",
  // hues.py gives symbols the classes of their colours.
  trust: ({ command }) => command === "\\htmlClass",
  strict: (code) => (code === "htmlExtension" ? "ignore" : "error"),
};

function set({ tex, display }) {
  try {
    return { html: katex.renderToString(tex, { displayMode: display, ...options }) };
  } catch (problem) {
    return { error: problem.message };
  }
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(set)));

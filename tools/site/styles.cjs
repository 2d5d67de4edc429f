// Makes one style sheet for the site. Reads {css, words} as JSON: the style sheets, and every name in a page
// or a script. Writes {css}: the rules whose names occur, in short form.

const { readFileSync } = require("node:fs");
const { PurgeCSS } = require("purgecss");
const { transform } = require("lightningcss");

async function main() {
  const { css, words } = JSON.parse(readFileSync(0, "utf8"));
  const [{ css: used }] = await new PurgeCSS().purge({
    content: [{ raw: words.join(" "), extension: "html" }],
    css: [{ raw: css }],
    defaultExtractor: (content) => content.split(" "),
    keyframes: true,
    // Attributes and states that scripts and browsers set.
    dynamicAttributes: ["data-theme", "data-mode", "data-reading", "data-live", "open", "aria-expanded", "aria-current", "hidden"],
  });
  const { code } = transform({ filename: "site.css", code: Buffer.from(used), minify: true });
  process.stdout.write(JSON.stringify({ css: code.toString() }));
}

main().catch((problem) => {
  process.stderr.write(`${problem.message}\n`);
  process.exitCode = 1;
});

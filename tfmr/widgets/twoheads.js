// Two attention heads of a trained translator. tfmr/widgets/twoheads.py computes the weights, which the
// state has in hundredths.

import { html } from "./vendor/preact.js";
import { heat } from "./lib/colour.js";
import { Choice, Select } from "./lib/controls.js";
import { format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { Matrix } from "./lib/matrix.js";
import { live, useTrait } from "./lib/model.js";
import { partAt, useDrag } from "./lib/pointer.js";
import { oneOf, whole } from "./lib/state.js";

const HUES = ["orange", "blue"];
/** Pixels of a row, of the widest line, and between the lines of two heads. */
const [ROW, WIDEST, APART] = [44, 14, 12];

/** Lines from the query to the keys, whose width is the weight; the reader can point at a query. */
function Lines({ label, rows, query, onPick }) {
  const count = rows[0].length;
  const drag = useDrag(query, onPick, ({ y }) => partAt(y, count));
  const path = (head, key) => {
    const [from, to] = [query, key].map((token) => (token + 0.5) * ROW + (head - 0.5) * APART);
    return `M0 ${from}C50 ${from} 50 ${to} 100 ${to}`;
  };
  return html`<svg class="two-lines" height=${ROW * count} viewBox="0 0 100 ${ROW * count}" preserveAspectRatio="none"
    role="img" aria-label=${label} ...${drag}>
    ${rows.map((row, head) => row.map((weight, key) => weight > 0 && html`<path key="${head},${key}"
      d=${path(head, key)} style=${{ stroke: `var(--live-${HUES[head]})`, strokeWidth: WIDEST * weight }} />`))}
  </svg>`;
}

/** Where a head attends most, with ties, and what this means for a single row of weights. */
function describe(tokens, query, names, rows) {
  const most = rows.map((row) => ranking(row, 2)[0]);
  const largest = rows.map((row, head) => row[most[head][0]]);
  const parts = names.map((name, head) => `to ${listed(most[head].map((key) => `“${tokens[key]}”`))} (${
    format(largest[head])}${most[head].length > 1 ? " each" : ""}) in ${name}`);
  const sum = largest[0] + largest[1];
  const result = most[0].some((key) => most[1].includes(key))
    ? "Both heads give their largest weight to the same token."
    : `Together ${format(sum)}: one row, which sums to 1, ${sum > 1.001 ? "cannot" : "could"} contain both.`;
  return `“${tokens[query]}” attends most ${parts.join(" and ")}. ${result}`;
}

function TwoHeads({ model }) {
  const sentences = model.get("sentences");
  const names = model.get("names");
  const [played, setPlayed] = useTrait(model, "played");
  const [noun, setNoun] = useTrait(model, "noun");
  const [query, setQuery] = useTrait(model, "query");

  const sentence = sentences.find((each) => each.played === played && each.noun === noun);
  const tokens = sentence.tokens.split(" ");
  const rows = sentence.weights.map((map) => map.split("/")[query].split(" ").map((hundredths) => hundredths / 100));
  const words = (name) => [...new Set(sentences.map((each) => each[name]))].map((word) => [word, word]);
  const label = `Lines from “${tokens[query]}” to every token; the wider the line, the larger the weight. ${
    names.map((name, head) => `${name}: ${tokens.map((token, key) => `${token} ${format(rows[head][key])}`).join(", ")}`).join("; ")}.`;

  const controls = html`
    <${Select} label="Word 4" value=${played} onInput=${setPlayed} options=${words("played")} />
    <${Select} label="Word 7" value=${noun} onInput=${setNoun} options=${words("noun")} />
    <p class="two-translation" lang="en">→ ${sentence.translation}</p>`;

  return html`<${Frame} title="Two attention heads" controls=${controls} lines=${[2, 4]}
    task="select a query, then replace a word."
    shows=${html`The query is the token that attends; a line leads from it to each key, and its width is the attention
      weight. In each head, the weights of a query sum to 1, apart from rounding. The heads are two selected ones of the
      four in encoder block 2 of the translator of Chapter 11, which computed all numbers and the
      translation. Weights show what a head attends to in this sentence, not what it is for.`}
    status=${describe(tokens, query, names, rows)}>
    <div class="two-rows">
      <${Choice} label="Query" value=${query} onInput=${setQuery} options=${tokens.map((token, i) => [i, token])} />
      <${Lines} label=${label} rows=${rows} query=${query} onPick=${setQuery} />
      <${Matrix} label=${`Weights of “${tokens[query]}”`} corner="Key" rows=${tokens}
        columns=${names.map((name, head) => html`<span class="two-name" style=${{ borderColor: `var(--live-${HUES[head]})` }}>${name}</span>`)}
        values=${tokens.map((_, key) => rows.map((row) => row[key]))} colour=${(weight, _, head) => heat(weight, 1, HUES[head])} />
    </div>
  <//>`;
}

export const render = live(TwoHeads, (model) => {
  const known = (name) => oneOf([...new Set(model.get("sentences").map((each) => each[name]))]);
  return { played: known("played"), noun: known("noun"), query: whole(0, model.get("sentences")[0].tokens.split(" ").length - 1) };
});

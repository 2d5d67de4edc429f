// What a recurrent translator attends to at each word, and whether the word depends on it. The numbers
// are those of the record alignment.json, which benchmarks/alignment.py writes.

import { html, useMemo } from "./vendor/preact.js";
import { WeightMap, unpack } from "./weight_map.js";
import { heat } from "./lib/colour.js";
import { Select, Views } from "./lib/controls.js";
import { format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { oneOf, whole } from "./lib/state.js";

const QUANTITIES = ["weights", "effects"];

const three = (number) => format(number, 3);
const quoted = (name) => `“${name}”`;

/** A sentence of one model; see alignment.py. The last target word is the end-of-sentence token. */
function unpacked({ source, target, probability, weights, without }) {
  const words = source.split(" ");
  return {
    source: words, target: [...target.split(" "), "end"], probability,
    weights: unpack(weights, words.length), without: unpack(without, words.length),
  };
}

/** By how much the probability falls, 0 if it does not. */
const effects = ({ probability, without }) =>
  without.map((row, i) => row.map((each) => Math.max(0, probability[i] - each)));

/** The status line: the largest weight, what follows from masking it, and the largest effect. */
function describe({ source, target, probability, weights, without }, i) {
  const names = (group) => listed(group.map((j) => quoted(source[j])));
  const [most] = ranking([...weights[i]], 3);
  const least = ranking([...without[i]], 3).at(-1);
  const [now, lowest] = [three(probability[i]), three(without[i][least[0]])];
  const attends = `${quoted(target[i])}: largest weight on ${names(most)} (${three(weights[i][most[0]])}${
    most.length > 1 ? " each" : ""}).`;
  if (lowest >= now) return `${attends} Masking any single English word does not lower the probability, ${now}.`;
  if (most.length > 1) return `${attends} The probability is ${now}, and lowest without ${names(least)} (${lowest}).`;
  const after = three(without[i][most[0]]);
  const change = after < now ? `falls from ${now} to ${after}` : after > now ? `rises from ${now} to ${after}` : `remains ${now}`;
  const others = least.filter((j) => j !== most[0]);
  const effect = `${attends} Without it, the probability ${change}`;
  if (others.length === least.length) {
    const weight = least.length > 1 ? "" : ` (weight ${three(weights[i][least[0]])})`;
    return `${effect}; without ${names(least)}${weight} it falls to ${lowest}.`;
  }
  return `${effect}, ${others.length > 0 ? `as without ${names(others)}` : "the largest effect"}.`;
}

/** The weight of each source word, and the probability of the target word without it. */
function Words({ found: { source, target, probability, weights, without }, at }) {
  const lowest = three(Math.min(probability[at], ...without[at]));
  return html`<table class="tra-bars align-words">
    <caption>${quoted(target[at])}: probability ${three(probability[at])}</caption>
    <thead><tr><th scope="col">word</th><th scope="col">weight</th><th scope="col">without it</th></tr></thead>
    <tbody>${source.map((name, j) => html`<tr key=${j}>
      <th scope="row">${name}</th>
      <td><span class="tra-track"><span class="tra-bar" style=${{ inlineSize: `${100 * weights[at][j]}%` }}></span></span>
        <span class="tra-number">${three(weights[at][j])}</span></td>
      <td class=${three(without[at][j]) === lowest ? "align-lowest" : ""}>${three(without[at][j])}</td>
    </tr>`)}</tbody>
  </table>`;
}

function Alignment({ model }) {
  const rows = model.get("rows");
  const [sentence, setSentence] = useTrait(model, "sentence");
  const [seed, setSeed] = useTrait(model, "seed");
  const [word, setWord] = useTrait(model, "word");
  const [quantity, setQuantity] = useTrait(model, "quantity");

  const own = rows.filter((row) => row.seed === seed);
  const found = useMemo(() => unpacked(own[sentence]), [seed, sentence]);
  const { source, target } = found;
  const at = Math.min(word, target.length - 1);
  const status = describe(found, at);
  const seeds = [...new Set(rows.map((row) => row.seed))];

  const controls = html`
    <${Select} label="Sentence" value=${sentence} onInput=${setSentence} options=${own.map((row, i) => [i, row.source])} />
    <${Select} label="French word" value=${at} onInput=${setWord} options=${target.map((name, i) => [i, name])} />
    <${Select} label="Seed" value=${seed} onInput=${setSeed} options=${seeds.map((each) => [each, each])} />
    <${Select} label="Map" value=${quantity} onInput=${setQuantity} options=${QUANTITIES.map((name) => [name, name])} />`;
  const [caption, hue, squares] = quantity === "weights" ? ["Attention weights", "encoder", found.weights]
    : ["Decreases of the probability", "decoder", effects(found)];
  const map = html`<div class="align-map"><p class="align-caption">${caption}
    <span class="align-scale" aria-hidden="true">0<i style=${{ backgroundImage: `linear-gradient(to right, ${
      heat(0, 1, hue)}, ${heat(1, 1, hue)})` }}></i>1</span></p>
    <${WeightMap} queries=${target} keys=${source} selected=${at} onSelect=${setWord} weights=${squares} largest=${19} hue=${hue}
    label=${`Map of the ${quantity}: a row for each of ${target.length} French words, a column for each of ${
      source.length} English words. ${status}`} /></div>`;

  return html`<${Frame} title="Attention and its effect" controls=${controls} above=${true} lines=${[2, 4]}
    task=${html`select <i>ne</i>, then another seed.`}
    shows=${html`Recurrent translators with attention, trained in the same way with different seeds, translate sentences of the
      test set. A row of the map has the attention weights with which a French word is predicted. <i>Without it</i> is the
      probability of this word if the English word is masked at this one step; the other weights then grow in proportion.
      The <i>effect</i> of an English word is by how much the probability falls; a rise counts as 0. A weight states what enters the context vector,
      a large effect shows that the prediction depends on it at this step. The encoder output of a word also depends on the other words of
      the sentence. All models translate these sentences as in the reference, but not every sentence of the test set.`}
    status=${status}>
    <p class="align-target" lang="fr">${target.slice(0, -1).map((name, i) => html`${i > 0 && " "}${i === at ? html`<b key=${i}>${name}</b>` : name}`)}</p>
    <${Views} label="View" together=${true} views=${[["map", map], ["numbers", html`<${Words} found=${found} at=${at} />`]]} />
  <//>`;
}

export const render = live(Alignment, (model) => {
  const rows = model.get("rows");
  const seeds = [...new Set(rows.map((row) => row.seed))];
  return {
    sentence: whole(0, rows.length / seeds.length - 1),
    seed: oneOf(seeds),
    word: whole(0, Math.max(...rows.map((row) => row.probability.length)) - 1),
    quantity: oneOf(QUANTITIES),
  };
});

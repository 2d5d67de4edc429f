// Attention as a bench: edit vectors or dot products and see every step. tfmr/attention.py has the
// same arithmetic; tests/pages/test_attention_figure.py compares the numbers.

import { html, useState } from "./vendor/preact.js";
import { Check, Choice, Range, Select } from "./lib/controls.js";
import { format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { Matrix } from "./lib/matrix.js";
import { dot, softmax } from "./lib/math.js";
import { heat, signedHeat } from "./lib/colour.js";
import { live, useTrait } from "./lib/model.js";
import { flag, listOf, number, optional, whole } from "./lib/state.js";

const TRAITS = ["q", "k", "v", "dot_products", "causal", "scaled", "selected"];
/** The largest number that an address can set. */
const LARGEST = 100;

/** The steps for query i: dot products, scores, masked scores, weights, output. */
function attend({ q, k, v, dot_products: given, causal, scaled }, i) {
  const products = given ? given[i] : k.map((key) => dot(q[i], key));
  const divided = products.map((product) => (scaled ? product / Math.sqrt(q[i].length) : product));
  const masked = divided.map((score, j) => (causal && j > i ? -Infinity : score));
  const weights = softmax(masked);
  const output = v[0].map((_, c) => dot(weights, v.map((value) => value[c])));
  return { products, divided, masked, weights, output };
}

const two = (number) => format(number, 2);
const three = (number) => format(number, 3);
const factor = (number) => (number < 0 ? `(${two(number)})` : two(number));
const [PRODUCT, DIVIDED, MASKED, WEIGHT] = [0, 1, 2, 3];
const OUTPUT = "output";
const PRODUCTS = "dot products";

/** A sum of products in words: 0.50·1.20 + 1.00·(−0.30). */
function sumOfProducts(left, right, show = factor) {
  return left.map((each, c) => html`${c > 0 && " + "}<span class="att-left">${show(each)}</span>·<span
    class="att-right">${factor(right[c])}</span>`);
}

/** How the number in a cell is computed; `step` is a column of the table of steps, or OUTPUT. */
function Arithmetic({ state, steps, step, at }) {
  const { tokens, selected: i } = state;
  const { products, divided, masked, weights, output } = steps;
  const width = state.q[i].length;
  const pair = html`query “${tokens[i]}”, key “${tokens[at]}”`;
  const line = (name, formula, result) => html`<p class="att-arithmetic" data-step=${step}>
    <b>${name}</b><br /><span class="att-formula">${formula}</span> = <strong>${result}</strong>
  </p>`;
  if (step === PRODUCT) {
    if (state.dot_products) return line(html`Dot product, ${pair}`, "set by you", two(products[at]));
    return line(html`Dot product, ${pair}`, sumOfProducts(state.q[i], state.k[at]), two(products[at]));
  }
  if (step === DIVIDED) {
    if (!state.scaled) return line(html`Not scaled, ${pair}`, two(products[at]), two(divided[at]));
    return line(html`Score, ${pair}`,
      html`${two(products[at])} ÷ √${width} = ${two(products[at])} ÷ ${three(Math.sqrt(width))}`,
      two(divided[at]));
  }
  if (step === MASKED) {
    const hidden = masked[at] === -Infinity;
    return line(html`Mask, ${pair}`,
      hidden ? `key ${at + 1} comes after query ${i + 1}, so ${two(divided[at])} is replaced: masked score`
        : `key ${at + 1} is not masked, so ${two(divided[at])} is kept: masked score`, two(masked[at]));
  }
  if (step === WEIGHT) {
    const powers = masked.map(Math.exp);
    const total = powers.reduce((sum, each) => sum + each, 0);
    return line(html`Softmax, ${pair}`,
      html`exp(${two(masked[at])}) ÷ (${masked.map((score, j) => `${j ? " + " : ""}exp(${two(score)})`)})
        = ${three(powers[at])} ÷ ${three(total)}`, three(weights[at]));
  }
  return line(html`Output of “${tokens[i]}”, component ${at + 1}`,
    sumOfProducts(weights, state.v.map((value) => value[at]), three), two(output[at]));
}

/** The sentence of the status line; equal weights are a tie. */
function describe(tokens, i, weights) {
  const [first, second] = ranking(weights, 3);
  const named = (group) => listed(group.map((j) => `“${tokens[j]}”`));
  const part = (group) => `${three(weights[group[0]])}${group.length > 1 ? " each" : ""}`;
  const most = first.length === 1 ? "attends most to" : "attends equally to";
  const next = second && weights[second[0]] >= 0.0005 ? `, then to ${named(second)} (${part(second)})` : "";
  return `“${tokens[i]}” ${most} ${named(first)} (${part(first)})${next}. The ${tokens.length} weights sum to 1.`;
}

/** A slider for each component of a vector, or for the dot product with each key. */
function Editor({ state, set, choice }) {
  const { selected: i, dot_products: products } = state;
  if (products) {
    const change = (j, number) => set.dot_products(products.with(i, products[i].with(j, number)));
    return products[i].map((product, j) => html`<${Range} key=${j} label=${`“${state.tokens[j]}”`}
      value=${product} min=${-10} max=${10} step=${0.1} digits=${2} onInput=${(next) => change(j, next)} />`);
  }
  const matrix = choice[0];
  const row = matrix === "q" ? i : Number(choice.slice(1));
  const change = (c, number) =>
    set[matrix](state[matrix].map((line, j) => (j === row ? line.with(c, number) : line)));
  return state[matrix][row].map((number, c) => html`<${Range} key=${choice + c}
    label=${html`<i>${matrix}</i><sub>${c + 1}</sub>`} value=${number} min=${-4} max=${4} step=${0.1}
    digits=${2} onInput=${(next) => change(c, next)} />`);
}

function Bench({ model }) {
  const tokens = model.get("tokens");
  const state = { tokens };
  const set = {};
  for (const name of TRAITS) {
    [state[name], set[name]] = useTrait(model, name);
  }
  const [[step, at], pick] = useState([PRODUCT, 0]);
  const i = state.selected;
  const all = tokens.map((_, row) => attend(state, row));
  const steps = all[i];
  const largest = Math.max(1e-9, ...state.v.flat().map(Math.abs));
  const [choice, choose] = useState("q");
  const [isAll, showAll] = useState(false);
  const vectors = [["q", `query of “${tokens[i]}”`], ...tokens.map((token, j) => [`k${j}`, `key of “${token}”`]),
    ...tokens.map((token, j) => [`v${j}`, `value of “${token}”`])];
  const edit = (what) => {
    if (what !== PRODUCTS) choose(what);
    set.dot_products(what === PRODUCTS ? all.map(({ products }) => products) : null);
  };

  const controls = html`
    <${Choice} label="Query" value=${i} onInput=${set.selected} options=${tokens.map((token, j) => [j, token])} />
    <${Select} label="Change" value=${state.dot_products ? PRODUCTS : choice} onInput=${edit}
      options=${[...vectors, [PRODUCTS, PRODUCTS]]} />
    <div class="att-editor" role="group" aria-label=${state.dot_products ? `Dot product of “${tokens[i]}” with` : "Components"}>
      <${Editor} state=${state} set=${set} choice=${choice} /></div>
    <${Check} label=${html`÷ √<i>d</i><sub>k</sub>`} value=${state.scaled} onInput=${set.scaled} />
    <${Check} label="causal mask" value=${state.causal} onInput=${set.causal} />
    <span class="att-choose"><${Check} label="all queries" value=${isAll} onInput=${showAll} /></span>`;

  return html`<${Frame} title="Attention step by step" controls=${controls} above=${tokens.length > 6}
    task="select a number in the tables."
    shows=${html`A weight depends on all scores: raising one score lowers every other weight of that query. The
      output is a weighted average of the values. Select a number to see how it is computed. Change a vector, the scaling or the mask, or set the dot products
      yourself.`}
    status=${describe(tokens, i, steps.weights)}>
    <div class=${`att-views ${tokens.length > 6 ? "att-long" : ""} ${isAll ? "att-all" : ""}`}>
      <div class="att-one">
        <div class="att-steps"><${Matrix} label=${`Attention of “${tokens[i]}”, from dot products to weights`}
          corner="key" rows=${tokens} columns=${[html`<i>q</i> · <i>k</i>`, html`÷ √<i>d</i><sub>k</sub>`, "mask", "softmax"]}
          values=${tokens.map((_, j) => [steps.products[j], steps.divided[j], steps.masked[j], steps.weights[j]])}
          selected=${step === OUTPUT ? null : [at, step]} onSelect=${([j, column]) => pick([column, j])}
          text=${(value, _, column) => (column === WEIGHT ? three(value) : two(value))}
          colour=${(value, _, column) => (column === WEIGHT ? heat(value) : "var(--live-page)")}
          hidden=${(j, column) => column >= MASKED && steps.masked[j] === -Infinity} /></div>
        <div class="att-output"><${Matrix} label="Weighted sum of values" rows=${["output"]} columns=${[]}
          values=${[steps.output]} selected=${step === OUTPUT ? [0, at] : null} onSelect=${([, c]) => pick([OUTPUT, c])}
          colour=${(value) => signedHeat(value, largest)} /></div>
        <${Arithmetic} state=${state} steps=${steps} step=${step} at=${at} />
      </div>
      <div class="att-map"><${Matrix} label="Weights of all queries" rows=${tokens} columns=${tokens}
        corner="" values=${all.map(({ weights }) => weights)} selected=${step === WEIGHT ? [i, at] : null}
        hidden=${(row, j) => state.causal && j > row}
        onSelect=${([row, j]) => { set.selected(row); pick([WEIGHT, j]); }} /></div>
    </div>
  <//>`;
}

export const render = live(Bench, (model) => {
  const numbers = (name) => listOf(listOf(number(-LARGEST, LARGEST), model.get(name)[0]), model.get(name));
  const { length } = model.get("tokens");
  return {
    q: numbers("q"),
    k: numbers("k"),
    v: numbers("v"),
    dot_products: optional(listOf(listOf(number(-LARGEST, LARGEST), { length }), { length })),
    causal: flag,
    scaled: flag,
    selected: whole(0, length - 1),
  };
});

// What layers cost by the length of the sequence. The formulas are those of tfmr/widgets/costs.py.

import { html } from "./vendor/preact.js";
import { LineChart, Readings } from "./lib/chart.js";
import { Choice, Range } from "./lib/controls.js";
import { count } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { closest } from "./lib/math.js";
import { live, useTrait } from "./lib/model.js";
import { oneOf } from "./lib/state.js";
import { three } from "./lib/scientific.js";

const LOOKS = [
  { name: "self-attention", hue: "orange" },
  { name: "recurrent", hue: "blue" },
  { name: "convolution", hue: "green", dash: "7 3" },
  { name: "local", hue: "purple", dash: "2 3" },
];
const QUANTITIES = ["operations", "steps", "memory"];

/** The quantities of each layer, in the order of LOOKS, for n vectors of d components. */
function costs(n, d, kernel, radius) {
  const reach = Math.min(radius, n - 1);
  const pairs = n * (2 * reach + 1) - reach * (reach + 1);
  return [
    [4 * n * n * d, 4, n * d + n * n],
    [4 * n * d * d, 3 * n, 2 * n * d],
    [2 * kernel * n * d * d, 1, n * d],
    [4 * d * pairs, 5, n * d + pairs],
  ];
}

const short = (value) => (value < 1e5 ? count(value) : three(value, 3));
const ratio = (a, b) => (a === b ? "1 (equal)" : three(a / b, 3));

function Costs({ model }) {
  const lengths = model.get("lengths");
  const widths = model.get("widths");
  const [n, setN] = useTrait(model, "n");
  const [d, setD] = useTrait(model, "d");
  const [quantity, setQuantity] = useTrait(model, "quantity");

  const at = QUANTITIES.indexOf(quantity);
  const of = (length, width = d) => costs(length, width, model.get("kernel"), model.get("radius"));
  const now = of(n);
  const [attention, recurrent] = now;
  const steps = at === 1;

  // The width that is closest to the place at which the reader points.
  const pick = (x) => setD(closest(widths, (width) => Math.abs(Math.log10(width) - x), d));
  // The axis has room for all widths, so that the curves can be compared while the width changes.
  const ends = [of(lengths[0], widths[0]), of(lengths.at(-1), widths.at(-1))].map((rows) => rows.map((row) => row[at]));
  const chart = {
    x: { label: "length n (logarithmic axis)", min: Math.log10(lengths[0]), max: Math.log10(lengths.at(-1)),
      show: (power) => count(10 ** power) },
    y: { label: `${quantity} (logarithmic axis)`, min: Math.min(...ends[0]) / 1.5, max: Math.max(...ends[1]) * 1.5, log: true },
    lines: LOOKS.map((look, i) => ({ ...look, points: lengths.map((length) => [Math.log10(length), of(length)[i][at]]) })),
    marks: [
      ...(steps ? [] : [{ x: Math.log10(d), y: of(d)[0][at] }]),
      ...now.map((row) => ({ x: Math.log10(n), y: row[at] })),
    ],
  };
  const order = n < d ? "is below" : n > d ? "is above" : "equals";

  const controls = html`
    <${Choice} label="Quantity" value=${quantity} onInput=${setQuantity} options=${QUANTITIES.map((name) => [name, name])} />
    <${Range} label="Width d" value=${widths.indexOf(d)} min=${0} max=${widths.length - 1}
      onInput=${(i) => setD(widths[i])} show=${(i) => count(widths[i])} />
    <${Range} label="Length n" value=${lengths.indexOf(n)} min=${0} max=${lengths.length - 1}
      onInput=${(i) => setN(lengths[i])} show=${(i) => count(lengths[i])} />`;

  return html`<${Frame} title="Cost by length" controls=${controls} lines=${[2, 3]}
    task=${html`drag the crossing at <i>n</i> = <i>d</i>, then move <i>n</i> to it.`}
    shows=${html`Each layer maps <i>n</i> vectors of <i>d</i> components to as many vectors. <i>Operations</i> are the
      multiplications and additions of matrix multiplications. Self-attention needs 4<i>n</i>²<i>d</i> and the recurrent
      layer 4<i>nd</i>², equally many at <i>n</i> = <i>d</i>, where the lines cross. <i>Steps</i> are operations that must run
      one after another, a matrix multiplication being one; only in the recurrent layer does their number
      depend on <i>n</i>. <i>Memory</i> counts the numbers that the backward pass needs, without the parameters: the inputs, the states of the
      recurrent layer, and the attention weights of one head. As in Table 1 of the paper, attention is without projections;
      the recurrent layer includes the product with its inputs. The convolution has a kernel of ${model.get("kernel")}, and
      local attention a radius of ${model.get("radius")}.`}
    status=${`n = ${count(n)} ${order} d = ${count(d)}. Self-attention ÷ recurrent layer: ${
      QUANTITIES.map((name, i) => `${name} ${ratio(attention[i], recurrent[i])}`).join(", ")}.`}>
    <${LineChart} label=${`${quantity} against the length, d = ${count(d)}. At n = ${count(n)}: ${
      LOOKS.map(({ name }, i) => `${name} ${short(now[i][at])}`).join("; ")}.${
      steps ? "" : ` Self-attention and the recurrent layer are equal at n = ${count(d)}.`}`} ...${chart} onPick=${steps ? undefined : pick}
      legend=${false} height=${(width) => (width < 360 ? 170 : 230)} />
    <${Readings} caption=${`Costs at n = ${count(n)} and d = ${count(d)}`} columns=${["layer", ...QUANTITIES]}
      rows=${LOOKS.map((look, i) => ({ ...look, cells: now[i].map(short) }))} />
  <//>`;
}

export const render = live(Costs, (model) => ({
  n: oneOf(model.get("lengths")),
  d: oneOf(model.get("widths")),
  quantity: oneOf(QUANTITIES),
}));

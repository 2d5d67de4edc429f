// The gradient through time: the power of one factor, beside the norms of real cells, which
// tfmr/widgets/gradient.py measures.

import { html } from "./vendor/preact.js";
import { LineChart, Readings } from "./lib/chart.js";
import { Range } from "./lib/controls.js";
import { format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { closest } from "./lib/math.js";
import { live, useTrait } from "./lib/model.js";
import { number, oneOf } from "./lib/state.js";
import { exponent, three } from "./lib/scientific.js";

const HUES = ["orange", "blue", "green", "purple", "olive"];
const FORMULA = { name: "formula", hue: "ink", dash: "7 4" };
const GAP = [NaN, NaN];

/** The middle of a list of numbers. */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

const behaviour = (norm) => (norm < 0.01 ? "vanishes" : norm > 100 ? "explodes" : "is stable");

function Gradient({ model }) {
  const distances = model.get("distances");
  const radii = model.get("radii");
  const [radius, setRadius] = useTrait(model, "radius");
  const [slope, setSlope] = useTrait(model, "slope");
  const [length, setLength] = useTrait(model, "length");

  const factor = radius * slope;
  const isGated = model.get("networks").some(({ name }) => !name.startsWith("RNN"));
  const at = distances.indexOf(length);
  const scaled = model.get("scaled");
  const own = { name: `RNN, radius ${format(radius, 1)}`, curves: scaled[radii.indexOf(radius)] };
  const networks = [own, ...model.get("networks")].map(({ name, curves }, i) => {
    const norms = curves.map((curve) => curve.map((logarithm) => 10 ** logarithm));
    return { name, hue: HUES[i], norms, end: median(norms.map((each) => each[at])) };
  });
  const longest = distances.at(-1);
  const steps = Array.from({ length: longest + 1 }, (_, i) => i);
  const end = factor ** length;
  const formula = `(${format(radius, 1)} · ${format(slope, 2)})${exponent(length)}`;

  // The axes have room for all radii and lengths, so that curves can be compared and the length can be dragged.
  const all = [scaled, ...model.get("networks").map(({ curves }) => curves)].flat(3);
  const chart = {
    x: { label: "distance in steps", min: 0, max: longest, digits: 0, count: 6 },
    y: { label: "gradient norm (logarithmic axis)", log: true,
      min: 10 ** (Math.min(...all) - 0.02 * longest), max: radii.at(-1) ** longest },
    lines: [
      { ...FORMULA, points: steps.map((step) => [step, factor ** step]) },
      ...networks.map(({ name, hue, norms }) => ({ name, hue,
        points: norms.flatMap((each) => [GAP, ...each.map((norm, i) => [distances[i], norm])]) })),
    ],
    marks: [end, ...networks.map((network) => network.end)].map((y) => ({ x: length, y })),
  };
  const rows = [{ ...FORMULA, end }, ...networks];
  const ending = `after ${length} steps: ${rows.map((row) => `${row.name}: ${three(row.end)}`).join("; ")}.`;

  const controls = html`
    <${Range} label="Spectral radius" value=${radius} min=${radii[0]} max=${radii.at(-1)}
      step=${0.1} digits=${1} onInput=${(value) => setRadius(Math.round(value * 10) / 10)} />
    <${Range} label="Slope" value=${slope} min=${0.5} max=${1} step=${0.01} digits=${2} onInput=${setSlope} />
    <${Range} label="Length" value=${length} min=${2} max=${longest} step=${2}
      onInput=${setLength} show=${(value) => `${value} steps`} />`;

  return html`<${Frame} title="Gradient through time" controls=${controls} lines=${[2, 4]}
    task=${isGated ? "find the networks with a stable gradient." : "move the spectral radius from 0.9 to 1.1."}
    shows=${html`${isGated ? html`With gates, the gradient does not depend on one factor alone. Along the cell state of an LSTM, every step
      multiplies it by the forget gate: with a bias of 5, the gate is close to 1, and the gradient is stable for 60 steps. The gradient of the
      untrained GRU, whose gates are near one half, vanishes. The spectral radius concerns only the formula and the RNN of the second row. ` : ""}In a plain RNN, every step multiplies the gradient by about the same factor.
      Unless this factor is close to 1, the gradient vanishes (here: below 0.01) or explodes (above 100) over many steps.
      The formula (dashed) uses one slope of the tanh for all steps: lower the slope until the dashed line meets the
      orange curves. With noise as the input, the slope varies and is below 1, so the gradient of the measured RNN
      vanishes even at a radius of 1.1. At which radius is it stable (from 0.01 to 100)?
      Drag across the chart to change the length. Each curve is one seed. The RNN with the selected radius has 16 components, and its <i>W<sub>h</sub></i> is an
      orthogonal matrix times the radius.`}
    status=${`After ${length} steps, the formula gives ${formula} = ${three(end)}: the gradient ${behaviour(end)}. The median norm for “${
      own.name}” is ${three(networks[0].end)}: it ${behaviour(networks[0].end)}.`}>
    <${LineChart} label=${`Gradient norm against the distance, ${ending}`} ...${chart} legend=${false}
      onPick=${(x) => setLength(closest(distances.slice(1), (distance) => Math.abs(distance - x), length))}
      height=${(width) => (width < 360 ? 132 : 190)} />
    <${Readings} caption=${`Gradient norm after ${length} steps`} columns=${["network", "median norm", "mean\u00a0factor per\u00a0step"]}
      rows=${rows.map(({ name, hue, dash, end: norm }) => ({ name, hue, dash,
        cells: [three(norm), format(norm ** (1 / length), 3)] }))} />
  <//>`;
}

export const render = live(Gradient, (model) => ({
  radius: oneOf(model.get("radii")),
  slope: number(0.5, 1),
  length: oneOf(model.get("distances").filter((distance) => distance > 0)),
}));

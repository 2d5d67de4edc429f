// The gradient through time: the power of one factor, beside the norms of real cells, which
// tfmr/widgets/gradient.py measures.

import { html } from "./vendor/preact.js";
import { Drawing, LineChart } from "./lib/chart.js";
import { heat } from "./lib/colour.js";
import { Range } from "./lib/controls.js";
import { format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { scale } from "./lib/math.js";
import { live, useTrait } from "./lib/model.js";
import { number, oneOf } from "./lib/state.js";
import { exponent, three } from "./lib/scientific.js";

const HUES = ["orange", "blue", "green", "purple", "olive"];
const GAP = [NaN, NaN];

/** The middle of a list of numbers. */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

const behaviour = (norm) => (norm < 0.01 ? "vanishes" : norm > 100 ? "explodes" : "neither vanishes nor explodes");

/** A row of the strips: one field per step, whose depth is the norm up to 1; above 1 it is orange. */
function Strip({ name, norms, left, right, top }) {
  const x = scale([0, norms.length], [left, right]);
  return html`<g>
    <text x=${left} y=${top + 12}>${name}</text>
    ${norms.map((norm, i) => html`<rect key=${i} class="grad-field" x=${x(i)} y=${top + 18}
      width=${x(1) - x(0)} height="18" style=${{ fill: norm > 1.005 ? heat(1, 1, "orange") : heat(norm) }} />`)}
  </g>`;
}

function Gradient({ model }) {
  const distances = model.get("distances");
  const radii = model.get("radii");
  const [radius, setRadius] = useTrait(model, "radius");
  const [slope, setSlope] = useTrait(model, "slope");
  const [length, setLength] = useTrait(model, "length");

  const factor = radius * slope;
  const count = distances.indexOf(length) + 1;
  const scaled = model.get("scaled");
  const own = { name: `RNN, radius ${format(radius, 1)}`, curves: scaled[radii.indexOf(radius)] };
  const networks = [own, ...model.get("networks")].map(({ name, curves }, i) => {
    const upTo = curves.map((curve) => curve.slice(0, count).map((logarithm) => 10 ** logarithm));
    const ends = upTo.map((norms) => norms.at(-1));
    return { name, curves, hue: HUES[i], upTo, ends, end: median(ends),
      medians: upTo[0].map((_, at) => median(upTo.map((norms) => norms[at]))) };
  });
  const steps = Array.from({ length: length + 1 }, (_, i) => i);
  const end = factor ** length;
  const formula = `(${format(radius, 1)} · ${format(slope, 2)})${exponent(length)}`;

  // The axis has room for all radii, so that curves can be compared while the radius changes.
  const all = [...scaled, ...networks.map(({ curves }) => curves)].flatMap((curves) =>
    curves.flatMap((curve) => curve.slice(0, count)));
  const chart = {
    x: { label: "distance in steps", min: 0, max: length, digits: 0, count: 6 },
    y: { label: "gradient norm (logarithmic axis)", log: true,
      min: 10 ** (Math.min(...all) - 0.02 * length), max: radii.at(-1) ** length },
    lines: [
      { name: "formula", hue: "ink", dash: "7 4", points: steps.map((step) => [step, factor ** step]) },
      ...networks.map(({ name, hue, upTo }) => ({ name, hue,
        points: upTo.flatMap((norms) => [GAP, ...norms.map((norm, i) => [distances[i], norm])]) })),
    ],
    marks: [end, ...networks.map((network) => network.end)].map((y) => ({ x: length, y })),
  };
  const rows = [
    { name: "formula", hue: "ink", end, norms: steps.filter((step) => step % 2 === 0).map((step) => factor ** step) },
    ...networks.map((network) => ({ ...network, norms: network.medians })),
  ];
  const perStep = (norm) => format(norm ** (1 / length), 3);
  const range = (ends) => (ends.length > 1 ? `${three(Math.min(...ends))} to ${three(Math.max(...ends))}` : "one seed");
  const ending = `after ${length} steps: ${rows.map((row) => `${row.name}: ${three(row.end)}`).join("; ")}.`;

  const controls = html`
    <${Range} label="Length of the sequence" value=${length} min=${2} max=${distances.at(-1)} step=${2}
      onInput=${setLength} show=${(value) => `${value} steps`} />
    <${Range} label=${html`Spectral radius of <i>W<sub>h</sub></i>`} value=${radius} min=${radii[0]} max=${radii.at(-1)}
      step=${0.1} digits=${1} onInput=${(value) => setRadius(Math.round(value * 10) / 10)} />
    <${Range} label="Slope in the formula" value=${slope} min=${0.5} max=${1} step=${0.01} digits=${2}
      onInput=${setSlope} />`;

  return html`<${Frame} title="The gradient through time" controls=${controls}
    task=${html`move the spectral radius from 0.9 to 1.1, and compare the dashed line with the measured norms. Then lower
      the slope until the dashed line meets the orange curves. At which radius does the gradient of the orange RNN
      neither vanish nor explode?`}
    shows=${html`In a plain RNN, every step multiplies the gradient by about the same factor.
      Unless this factor is close to 1, the gradient vanishes (here: below 0.01) or explodes (above 100) over many steps. The formula takes one slope of the tanh for all steps. With noise as the
      input the slope varies and is below 1, so the gradient of the measured RNN vanishes even at a radius of 1.1.
      Each curve is one seed. The RNN with the selected radius has 16 components, and its <i>W<sub>h</sub></i> is an
      orthogonal matrix times the radius.`}
    status=${`After ${length} steps, the formula gives ${formula} = ${three(end)}: the gradient ${behaviour(end)}. The measured median of “${
      own.name}” is ${three(networks[0].end)}: the gradient ${behaviour(networks[0].end)}.`}>
    <${LineChart} label=${`Gradient norm against the distance, ${ending}`} ...${chart} />
    <div>
      <p class="live-axis-name">gradient norm (full blue: 1, orange: above 1)</p>
      <${Drawing} label=${`Gradient norm at every second step, as shades, ${ending}`} height=${rows.length * 42}>
        ${(width) => rows.map(({ name, norms }, i) => html`<${Strip} key=${name} name=${name} norms=${norms}
          left=${52} right=${width - 14} top=${i * 42} />`)}
      <//>
    </div>
    <table class="grad-table">
      <caption>Gradient norm after ${length} steps</caption>
      <thead><tr><th scope="col">network</th><th scope="col">median</th><th scope="col">smallest and largest</th>
        <th scope="col">factor per step</th></tr></thead>
      <tbody>${rows.map(({ name, hue, end: norm, ends }) => html`<tr key=${name}>
        <th scope="row" style=${{ "--hue": `var(--live-${hue})` }}>${name}</th>
        <td>${three(norm)}</td><td>${ends ? range(ends) : "–"}</td><td>${perStep(norm)}</td>
      </tr>`)}</tbody>
    </table>
  <//>`;
}

export const render = live(Gradient, (model) => ({
  radius: oneOf(model.get("radii")),
  slope: number(0.5, 1),
  length: oneOf(model.get("distances").filter((distance) => distance > 0)),
}));

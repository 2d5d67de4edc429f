// The residual stream of deep stacks, block by block, during training. The numbers are those of the
// record depth-stream.json, which benchmarks/stream.py writes.

import { html } from "./vendor/preact.js";
import { Check, Choice, Range, Select, Stepper } from "./lib/controls.js";
import { LineChart, Readings } from "./lib/chart.js";
import { format, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { flag, oneOf, whole } from "./lib/state.js";
import { three } from "./lib/scientific.js";

const LOOKS = {
  "pre-norm": { hue: "orange" },
  "post-norm": { hue: "blue", dash: "7 3" },
  "scaled residual": { hue: "green", dash: "2 3" },
  residual: { hue: "purple", dash: "9 3 2 3" },
};

const QUANTITIES = {
  stream: { name: "vector norm", axis: "mean vector norm of the stream", first: 0 },
  change: {
    name: "relative change",
    axis: "relative change of the stream by a block",
    first: 1,
  },
  gradient: { name: "gradient norm", axis: "gradient norm of the weights of a block", first: 1 },
};

const whenOf = (step) => (step === 0 ? "before training" : `after ${step} steps`);
const placeOf = (block) => (block === 0 ? "at the input" : `at block ${block}`);

function Stream({ model }) {
  const rows = model.get("rows");
  const chance = model.get("uniform_loss");
  const [blocks, setBlocks] = useTrait(model, "blocks");
  const [step, setStep] = useTrait(model, "step");
  const [quantity, setQuantity] = useTrait(model, "quantity");
  const [wanted, setBlock] = useTrait(model, "block");
  const [unnormalised, setUnnormalised] = useTrait(model, "unnormalised");

  const { name, axis, first } = QUANTITIES[quantity];
  const steps = [...new Set(rows.map((row) => row.step))];
  const depths = [...new Set(rows.map((row) => row.blocks))];
  const block = Math.min(Math.max(wanted, first), blocks);
  const isShown = ({ stack }) => stack in LOOKS && (unnormalised || stack !== "residual");
  const ofDepth = rows.filter((row) => row.blocks === blocks && isShown(row));
  const now = Object.keys(LOOKS).flatMap((stack) =>
    ofDepth.filter((row) => row.stack === stack && row.step === step));
  const at = (row) => row[quantity][block - first];

  // The axis has room for all steps, so that the curves can be compared while the steps change.
  const all = ofDepth.flatMap((row) => row[quantity]);
  const chart = {
    x: { label: "block", min: first, max: blocks, digits: 0, count: 6 },
    y: { label: axis, min: Math.min(...all) / 1.2, max: Math.max(...all) * 1.2, log: true },
    lines: now.map((row) => ({
      ...LOOKS[row.stack], name: row.stack, dots: true,
      points: row[quantity].map((value, i) => [i + first, value]),
    })),
    marks: now.map((row) => ({ x: block, y: at(row) })),
  };
  const setDepth = (depth) => {
    setBlocks(depth);
    setBlock(depth);
  };
  const values = now.map(at);
  const order = ranking(values.map(Math.log10), 3).map((group) => group.map((i) =>
    `${now[i].stack} ${three(values[i])}`).join(" = "));
  const label = `${axis}, stacks of ${blocks} blocks ${whenOf(step)}. ${now.map((row) =>
    `${row.stack}: from ${three(row[quantity][0])} to ${three(row[quantity].at(-1))}`).join("; ")}.`;

  const controls = html`
    <${Choice} label="Blocks" value=${blocks} onInput=${setDepth} options=${depths.map((depth) => [depth, depth])} />
    <${Select} label="Quantity" value=${quantity} onInput=${setQuantity}
      options=${Object.entries(QUANTITIES).map(([key, entry]) => [key, entry.name])} />
    <${Stepper} label="Training" value=${steps.indexOf(step)} max=${steps.length - 1}
      onInput=${(i) => setStep(steps[i])} show=${(i) => `step ${steps[i]}`} />
    <${Range} label="Block" value=${block} min=${first} max=${blocks} onInput=${setBlock} />
    <${Check} label=${html`also <i>residual</i>`} value=${unnormalised} onInput=${setUnnormalised} />`;

  return html`<${Frame} title="The residual stream" controls=${controls} lines=${[2, 3]}
    task=${html`select <i>gradient norm</i>, then step.`}
    shows=${html`Post-norm bounds the vector norm of the stream. With pre-norm, the vector norm grows with depth, so
      later blocks change the stream by a smaller fraction: select the <i>relative change</i>,
      the vector norm of the change by a block divided by the vector norm of its input. In the
      stack <i>residual</i>, without layer norms or scaling, the vector norm grows exponentially. In
      these training runs, the gradients of the first blocks vanish in the post-norm stacks of 12 and 24 blocks, and
      the loss stays near the loss of a uniform prediction, ${format(chance, 2)}. One seed, learning rate 0.001; the
      task is to predict the previous token.`}
    status=${`${name[0].toUpperCase()}${name.slice(1)} ${placeOf(block)}, ${whenOf(step)}: ${order.join(", ")}.`}>
    <${LineChart} label=${label} ...${chart} onPick=${(x) => setBlock(Math.round(x))} height=${(width) => (width < 360 ? 156 : 220)} legend=${false} />
    <${Readings} caption=${`${blocks} blocks, ${whenOf(step)}`} reserve=${Object.keys(LOOKS).length}
      columns=${["stack", placeOf(block), `block\u00a0${blocks}\u00a0÷ block\u00a0${first}`, "loss"]}
      rows=${now.map((row) => ({ ...LOOKS[row.stack], name: row.stack,
        cells: [at(row), row[quantity].at(-1) / row[quantity][0], row.loss].map((value) => three(value)) }))} />
  <//>`;
}

export const render = live(Stream, (model) => {
  const values = (name) => [...new Set(model.get("rows").map((row) => row[name]))];
  return {
    blocks: oneOf(values("blocks")),
    step: oneOf(values("step")),
    quantity: oneOf(Object.keys(QUANTITIES)),
    block: whole(0, Math.max(...values("blocks"))),
    unnormalised: flag,
  };
});

// A training replayed, step by step. The numbers are those of the record replay.json, which
// benchmarks/replay.py writes.

import { html } from "./vendor/preact.js";
import { WeightMap } from "./weight_map.js";
import { Select, Stepper, Views } from "./lib/controls.js";
import { LineChart } from "./lib/chart.js";
import { format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { closest } from "./lib/math.js";
import { live, useTrait } from "./lib/model.js";
import { oneOf, whole } from "./lib/state.js";

const LOSSES = {
  train_loss: { name: "training", hue: "blue" },
  valid_loss: { name: "validation", hue: "orange", dash: "7 3" },
};

const whenOf = (step) => (step === 0 ? "before training" : `after ${step} steps`);
const rate = (number) => format(number, 5);

/** The translation; tokens that are not those of the reference are underlined. */
function Translation({ output, target }) {
  const words = output.split(" ").filter(Boolean);
  return html`<p class="rep-translation"><span class="rep-name">Translation</span>
    <span lang="fr" tabindex="0" role="group" aria-label="Translation">${words.length > 0
      ? words.map((word, i) => html`${i > 0 && " "}<span key=${i} class=${word === target[i] ? "" : "rep-other"}>${word}</span>`) : "(no token)"}</span></p>`;
}

function Replay({ model }) {
  const rows = model.get("rows");
  const source = model.get("source");
  const target = model.get("target");
  const [step, setStep] = useTrait(model, "step");
  const [word, setWord] = useTrait(model, "word");

  const steps = rows.map((row) => row.step);
  const row = rows.find((each) => each.step === step);
  const reference = target.slice(0, -1).join(" ");
  const weights = row.weights[word];
  const [most] = ranking(weights, 2);
  const named = listed(most.map((j) => `“${source[j]}”`));
  const attends = most.length === source.length ? "attends equally to all source tokens"
    : `attends most to ${named}`;
  const part = `${attends} (${format(weights[most[0]], 2)}${most.length > 1 ? " each" : ""})`;
  const isRight = row.output === reference;
  const when = `${whenOf(step)[0].toUpperCase()}${whenOf(step).slice(1)}`;
  const pick = (at) => setStep(closest(steps, (each) => Math.abs(each - at), step));
  const x = { label: "step", min: 0, max: steps.at(-1), digits: 0, count: 6 };
  const largest = Math.max(...rows.flatMap((each) => [each.train_loss, each.valid_loss]));
  const peak = Math.max(...rows.map((each) => each.learning_rate));

  const controls = html`
    <${Stepper} label="Step" value=${steps.indexOf(step)} max=${steps.length - 1}
      onInput=${(i) => setStep(steps[i])} show=${(i) => String(steps[i])} />
    <${Select} label="Reference token" value=${word} onInput=${setWord}
      options=${target.map((name, i) => [i, name])} />`;
  const map = html`<div class="rep-map"><p class="rep-caption">Cross-attention: mean entropy ${format(row.entropy, 2)} nats</p>
    <${WeightMap} queries=${target} keys=${source} weights=${row.weights} selected=${word} onSelect=${setWord}
      largest=${15} hue="encoder" label=${`Map of the cross-attention of the first decoder block ${whenOf(step)}, averaged over its
        heads: a row for each of ${target.length} tokens of the reference, a column for each of ${source.length} source
        tokens. “${target[word]}” ${part}. Mean entropy ${format(row.entropy, 2)} nats.`} /></div>`;
  const losses = html`<${LineChart} height=${130} x=${{ ...x, label: "" }} y=${{ label: "loss in nats per token", min: 0, max: largest, digits: 0, count: 3 }} onPick=${pick}
    lines=${Object.entries(LOSSES).map(([key, look]) => ({
      ...look, dots: true, points: rows.map((each) => [each.step, each[key]]) }))}
    marks=${Object.keys(LOSSES).map((key) => ({ x: step, y: row[key] }))}
    label=${`Training loss from ${format(rows[0].train_loss, 2)} to ${format(rows.at(-1).train_loss, 2)} nats and
      validation loss from ${format(rows[0].valid_loss, 2)} to ${format(rows.at(-1).valid_loss, 2)} nats over
      ${steps.at(-1)} steps; ${whenOf(step)} ${format(row.train_loss, 2)} and ${format(row.valid_loss, 2)}.`} />`;
  const rates = html`<${LineChart} height=${130} x=${x} y=${{ label: "learning rate", min: 0, max: peak * 1.02, digits: 3, count: 3 }} onPick=${pick}
    lines=${[{ name: "learning rate", hue: "green", dots: true,
      points: rows.map((each) => [each.step, each.learning_rate]) }]}
    marks=${[{ x: step, y: row.learning_rate }]}
    label=${`Learning rate over ${steps.at(-1)} steps: at most ${rate(peak)}; ${whenOf(step)} ${
      rate(row.learning_rate)}.`} />`;

  return html`<${Frame} title="A training run" controls=${controls} lines=${[2, 5]}
    task=${html`step through the training. When does each French word appear?`}
    shows=${html`At first the map is nearly uniform and the translation repeats single tokens (underlined: tokens that
      differ from the reference). Frequent words such as${" "}<i>les</i>, <i>ne</i> and <i>pas</i> are generated before the
      nouns of the reference. The mean entropy of the map decreases from ${format(rows[0].entropy, 2)} to ${
      format(rows.at(-1).entropy, 2)} nats (uniform: ${format(Math.log(source.length), 2)}), and at the end the nouns
      and adjectives attend most to the words that they translate. The figure shows one run, with the parameters of each step, not their EMA; drag across a chart to select the step. The losses
      are computed without label smoothing, and the map with the reference as decoder input.`}
    status=${`${when}: training loss ${format(row.train_loss, 2)}, validation loss ${
      format(row.valid_loss, 2)}, learning rate ${rate(row.learning_rate)}. The translation ${
      isRight ? "equals" : "differs from"} the reference. “${target[word]}” ${part}.`}>
    <div class="rep-sentences">
      <p class="rep-source"><span class="rep-name">Source</span><span lang="en">${source.join(" ")}</span></p>
      <p class="rep-source"><span class="rep-name">Reference</span><span lang="fr">${reference}</span></p>
      <${Translation} output=${row.output} target=${target} />
    </div>
    <div class="rep-views"><${Views} label="View" together=${true} views=${[
      ["map", map], ["losses", losses], ["learning rate", rates]]} /></div>
  <//>`;
}

export const render = live(Replay, (model) => ({
  step: oneOf(model.get("rows").map((row) => row.step)),
  word: whole(0, model.get("target").length - 1),
}));

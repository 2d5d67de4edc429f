// The gates of a trained LSTM and a trained GRU, step by step. tfmr/recurrent.py has the same
// arithmetic; tests/pages/test_gates_figure.py compares the numbers.

import { html, useState } from "./vendor/preact.js";
import { heat, signedHeat } from "./lib/colour.js";
import { Choice, Select, Stepper } from "./lib/controls.js";
import { format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { dot, softmax } from "./lib/math.js";
import { live, useTrait } from "./lib/model.js";
import { listOf, oneOf, whole } from "./lib/state.js";

const sigmoid = (a) => 1 / (1 + Math.exp(-a));

// The columns of the weight matrices are in the order of `groups`; σ and tanh follow in `apply`.
const KINDS = {
  LSTM: {
    groups: ["i", "f", "g", "o"],
    names: { i: "input gate", f: "forget gate", g: "candidate", o: "output gate", c: "cell state", h: "hidden state" },
    step: lstmStep,
  },
  GRU: {
    groups: ["r", "z", "n"],
    names: { r: "reset gate", z: "update gate", n: "candidate", h: "hidden state" },
    step: gruStep,
  },
};
const GATES = ["i", "f", "o", "r", "z"];

/** Column `unit` of group `group`: the input weight of the token, the bias, and the weights of h. */
function column({ w_x, w_h, b }, token, group, unit) {
  const at = group * w_h.length + unit;
  return { x: w_x[token][at], b: b[at], w: w_h.map((row) => row[at]) };
}

/** Input projection and recurrent projection, each a list by group of lists by unit. */
function projections(weights, token, h, groups) {
  const each = (get) => groups.map((_, group) => h.map((_, unit) => get(column(weights, token, group, unit))));
  return { input: each(({ x, b }) => x + b), recurrent: each(({ w }) => dot(h, w)) };
}

/** tfmr.recurrent.LSTMCell: σ, σ, tanh, σ, then c = f ⊙ c + i ⊙ g and h = o ⊙ tanh(c). */
function lstmStep(weights, token, { h, c }) {
  const { input, recurrent } = projections(weights, token, h, KINDS.LSTM.groups);
  const sums = input.map((line, group) => line.map((x, unit) => x + recurrent[group][unit]));
  const [i, f, g, o] = sums.map((line, group) => line.map(group === 2 ? Math.tanh : sigmoid));
  const next = c.map((old, unit) => f[unit] * old + i[unit] * g[unit]);
  return { i, f, g, o, c: next, h: next.map((value, unit) => o[unit] * Math.tanh(value)) };
}

/** tfmr.recurrent.GRUCell with reset_after: h = (1 − z) ⊙ n + z ⊙ h. */
function gruStep(weights, token, { h }) {
  const { input, recurrent } = projections(weights, token, h, KINDS.GRU.groups);
  const [r, z] = [0, 1].map((group) => h.map((_, unit) => sigmoid(input[group][unit] + recurrent[group][unit])));
  const n = h.map((_, unit) => Math.tanh(input[2][unit] + r[unit] * (recurrent[2][unit] + weights.b_n[unit])));
  return { r, z, n, h: h.map((old, unit) => (1 - z[unit]) * n[unit] + z[unit] * old) };
}

/** All steps of a sequence: the values of each, with the state before it and the prediction. */
function run(weights, kind, tokens) {
  const zeros = weights.w_h.map(() => 0);
  let before = { h: zeros, c: zeros };
  return tokens.map((token) => {
    const values = KINDS[kind].step(weights, token, before);
    const logits = weights.b_o.map((b, j) => b + dot(values.h, weights.w_o.map((row) => row[j])));
    const step = { ...values, before, probabilities: softmax(logits) };
    before = values;
    return step;
  });
}

const two = (number) => format(number, 2);
const three = (number) => format(number, 3);
const factor = (number) => (number < 0 ? `(${two(number)})` : two(number));
const plus = (number) => (number < 0 ? ` − ${two(-number)}` : ` + ${two(number)}`);
const products = (h, w) => h.map((each, k) => `${factor(each)}·${factor(w[k])}`).join(" + ");

/** The formula of one value of a unit with its numbers, without the result. */
function formula(letter, { weights, token, groups, values, unit }) {
  const { before } = values;
  const at = (name) => values[name][unit];
  if (letter === "c") return `${two(at("f"))}·${factor(before.c[unit])} + ${two(at("i"))}·${factor(at("g"))}`;
  if (letter === "h" && "c" in values) return `${two(at("o"))} · tanh(${two(at("c"))})`;
  if (letter === "h") return `(1 − ${two(at("z"))})·${factor(at("n"))} + ${two(at("z"))}·${factor(before.h[unit])}`;
  const { x, b, w } = column(weights, token, groups.indexOf(letter), unit);
  if (letter === "n") {
    return `tanh(${two(x)}${plus(b)} + ${two(at("r"))}·(${products(before.h, w)}${plus(weights.b_n[unit])}))`;
  }
  return `${GATES.includes(letter) ? "σ" : "tanh"}(${two(x)}${plus(b)} + ${products(before.h, w)})`;
}

const SYMBOLS = {
  LSTM: { i: "σ(x + b + h·W)", f: "σ(x + b + h·W)", g: "tanh(x + b + h·W)", o: "σ(x + b + h·W)",
    c: "f · previous c + i · g", h: "o · tanh(c)" },
  GRU: { r: "σ(x + b + h·W)", z: "σ(x + b + h·W)", n: "tanh(x + b + r · (h·W + b′))", h: "(1 − z) · n + z · previous h" },
};

/** What is predicted, and whether it is the latest of the tokens that have a class. */
function outcome(classes, shown, probabilities) {
  const [first] = ranking(probabilities, 3);
  const latest = shown.findLast((token) => classes.includes(token));
  const value = three(probabilities[first[0]]);
  const prediction = first.length > 1 ? `a tie between ${listed(first.map((j) => `“${classes[j]}”`))} (${value} each)`
    : `“${classes[first[0]]}” (${value})`;
  if (latest === undefined) return `Prediction: ${prediction}; no letter so far.`;
  const right = first.length === 1 && classes[first[0]] === latest;
  return `Prediction: ${prediction}${right ? ", the latest letter" : `; the latest letter is “${latest}”`}.`;
}

/** What the selected unit keeps and writes. */
function update(kind, values, unit) {
  const at = (name) => values[name][unit];
  if (kind === "LSTM") {
    return `keeps ${two(at("f"))} of its cell state and writes ${two(at("i"))} · ${factor(at("g"))} = ${two(at("i") * at("g"))}`;
  }
  return `keeps ${two(at("z"))} of its hidden state and takes ${two(1 - at("z"))} of the candidate ${two(at("n"))}`;
}

/**
 * The values of a unit over the sequence as colours, up to the step `at`, whose numbers are in the
 * last column. rows: objects { name, values, colour, text, now }. A row or a step can be clicked; a
 * list and a slider do the same for the keyboard.
 */
function Time({ caption, sequence, at, rows, selected, onSelect }) {
  return html`<div class="gates-place"><table class="gates-time">
    <caption>${caption}</caption>
    <thead><tr><th scope="col">token</th>
      ${sequence.map((token, j) => html`<th key=${j} scope="col" aria-current=${j === at ? "step" : undefined}>${token}</th>`)}
      <th scope="col">now</th></tr></thead>
    <tbody>${rows.map(({ name, values, colour, text, now }, i) => html`<tr key=${name}
      aria-current=${i === selected ? "true" : undefined}>
      <th scope="row" onClick=${() => onSelect(i, at)}>${name}</th>
      ${values.map((value, j) => html`<td key=${j} class=${`live-cell ${j > at ? "live-hidden" : ""}`}
        style=${j > at ? {} : { background: colour(value) }} onClick=${() => onSelect(i, j)}>
        <span>${j > at ? "" : text(value, j)}</span></td>`)}
      <td class="gates-now">${now}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

function Gates({ model }) {
  const vocabulary = model.get("vocabulary");
  const [sequence, setSequence] = useTrait(model, "sequence");
  const [kind, setKind] = useTrait(model, "cell");
  const [step, setStep] = useTrait(model, "step");
  const [wanted, setUnit] = useTrait(model, "unit");
  const [row, setRow] = useState(1);
  const [quiet, setQuiet] = useState(false);

  const weights = model.get("weights")[kind];
  const { groups, names } = KINDS[kind];
  const letters = Object.keys(names);
  const selected = Math.min(row, letters.length - 1);
  const letter = letters[selected];
  const units = weights.w_h.map((_, unit) => unit);
  const unit = Math.min(wanted, units.length) - 1;
  const at = step - 1;
  const tokens = sequence.map((token) => vocabulary.indexOf(token));
  const steps = run(weights, kind, tokens);
  const values = steps[at];
  const classes = vocabulary.slice(0, weights.b_o.length);
  const limit = Math.max(1, ...steps.flatMap((each) => (each.c ?? each.h).map(Math.abs)));
  const largest = ({ probabilities }) => Math.max(...probabilities);
  const rows = letters.map((each) => ({
    name: `${names[each]} ${each}`, values: steps.map((one) => one[each][unit]), text: two, now: two(values[each][unit]),
    colour: (value) => (GATES.includes(each) ? heat(value) : signedHeat(value, each === "c" ? limit : 1)),
  }));
  rows.push({
    name: "prediction", values: steps.map(largest), colour: (value) => heat(value, 1, "green"), now: two(largest(values)),
    text: (value, j) => html`<b>${classes[steps[j].probabilities.indexOf(value)]}</b>`,
  });
  const select = (i, j) => {
    if (i < letters.length) setRow(i);
    setStep(j + 1);
  };

  const controls = html`
    <${Choice} label="Cell" value=${kind} onInput=${setKind} options=${Object.keys(KINDS).map((name) => [name, name])} />
    <${Choice} label="Unit" value=${unit + 1} onInput=${setUnit} options=${units.map((each) => [each + 1, each + 1])} />
    <${Stepper} label="Step" value=${at} max=${sequence.length - 1} onInput=${(value) => setStep(value + 1)}
      onPlaying=${setQuiet} show=${(value) => `${value + 1}: ${sequence[value]}`} />
    <${Select} label=${`Token of step ${step}`} value=${sequence[at]} options=${vocabulary.map((token) => [token, token])}
      onInput=${(token) => setSequence(sequence.with(at, token))} />
    <${Select} label="Arithmetic of" value=${selected} onInput=${setRow}
      options=${letters.map((each, i) => [i, `${names[each]} ${each}`])} />`;

  return html`<${Frame} title="Gates, step by step" controls=${controls} quiet=${quiet} lines=${[2, 4]}
    task=${html`press <i>Next</i>, and watch the forget gate.`}
    shows=${html`The networks are trained to predict the latest of the letters ${listed(classes)}; the other tokens are
      noise. At a letter, the gate that keeps the old state closes, and the letter is written to the state. At noise, the forget gate
      of the LSTM is open, so the cell state persists; compare the update gate of the GRU. Replace the token of a step by
      another letter. Select a row for its arithmetic: <i>x</i> is the input weight of the
      token, <i>b</i> and <i>b′</i> are biases, <i>W</i> the recurrent weights, <i>h</i> the hidden state of the previous step. Every number is computed
      from the weights of the trained network.`}
    status=${`Step ${step}, “${sequence[at]}”: unit ${unit + 1} ${update(kind, values, unit)}. ${
      outcome(classes, sequence.slice(0, step), values.probabilities)}`}>
    <${Time} caption=${`Unit ${unit + 1} of the ${kind}, up to step ${step}`} sequence=${sequence} at=${at} rows=${rows}
      selected=${selected} onSelect=${select} />
    <p class="gates-line" data-letter=${letter}><b>${names[letter]} ${letter}</b> = ${SYMBOLS[kind][letter]}<br />
      = ${formula(letter, { weights, token: tokens[at], groups, values, unit })} =${" "}
      <strong>${three(values[letter][unit])}</strong></p>
  <//>`;
}

export const render = live(Gates, (model) => ({
  sequence: listOf(oneOf(model.get("vocabulary")), model.get("sequence")),
  cell: oneOf(Object.keys(KINDS)),
  step: whole(1, model.get("sequence").length),
  unit: whole(1, Math.max(...Object.values(model.get("weights")).map(({ w_h }) => w_h.length))),
}));

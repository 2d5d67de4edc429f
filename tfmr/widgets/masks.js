// Masks, and a test for leaks: replace a token and see which outputs change.
// tfmr/widgets/masks.py computes the same with the masks of tfmr/attention.py.

import { html, useState } from "./vendor/preact.js";
import { Select } from "./lib/controls.js";
import { format, listed } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { Matrix } from "./lib/matrix.js";
import { dot, softmax } from "./lib/math.js";
import { heat } from "./lib/colour.js";
import { live, useTrait } from "./lib/model.js";
import { oneOf, whole } from "./lib/state.js";

const PAD = "<pad>";
const STACKS = ["encoder", "decoder"];

/** Whether the causal mask lets query i attend to key j. */
const CAUSAL = {
  none: () => true,
  causal: (i, j) => j <= i,
  "off by one": (i, j) => j <= i + 1,
  transposed: (i, j) => j >= i,
};

/** Whether the padding mask lets any query attend to a key, which is padding or not. */
const PADDING = {
  none: () => true,
  padding: (isPad) => !isPad,
  opposite: (isPad) => isPad,
};

/** What is computed from the state: mask, weights, and the distance that each output moves. */
function compute({ tokens, causal, padding, replaced, vectors }) {
  const n = tokens.length;
  const mask = tokens.map((_, i) =>
    tokens.map((token, j) => CAUSAL[causal](i, j) && PADDING[padding](token === PAD)));
  const attend = (replace) => {
    const row = (name, i) => vectors[name][replace && i === replaced ? n : i];
    const weights = mask.map((allowed, i) => softmax(allowed.map((may, j) =>
      may ? dot(row("q", i), row("k", j)) / Math.sqrt(row("q", i).length) : -Infinity)));
    const outputs = weights.map((line) =>
      row("v", 0).map((_, c) => dot(line, tokens.map((_, j) => row("v", j)[c]))));
    return { weights, outputs };
  };
  const before = attend(false);
  const after = attend(true);
  const changes = before.outputs.map((output, i) =>
    Math.hypot(...output.map((number, c) => after.outputs[i][c] - number)));
  return { mask, weights: before.weights, changes };
}

/** The verdict on each output. A change below a billionth is rounding. */
function judge({ tokens, stack, replaced }, changes) {
  return changes.map((change, i) => {
    const mayDepend = tokens[replaced] !== PAD && (stack === "encoder" || i >= replaced);
    if (Number.isNaN(change)) return "NaN";
    if (tokens[i] === PAD) return "ignored";
    if (change > 1e-9) return mayDepend ? "right" : "leak";
    return mayDepend ? "lost" : "right";
  });
}

const positions = (indices) => `${indices.length > 1 ? "positions" : "position"} ${listed(indices.map(String))}`;

/** The sentence of the status line. */
function describe({ tokens, replaced, stack }, changes, verdicts) {
  const at = (verdict) => verdicts.flatMap((each, i) => (each === verdict ? [i] : []));
  const changed = changes.flatMap((change, i) => (change > 1e-9 && tokens[i] !== PAD ? [i] : []));
  const parts = [`With another token at position ${replaced}, ${
    changed.length ? `the output changes at ${positions(changed)}` : "no output of a real token changes"}.`];
  if (at("leak").length) {
    const reason = tokens[replaced] === PAD ? "is padding" : "comes later";
    parts.push(`Leak at ${positions(at("leak"))}: the replaced token ${reason}.`);
  }
  if (at("lost").length) parts.push(`The replaced token is wrongly hidden from ${positions(at("lost"))}.`);
  if (at("NaN").length) parts.push(`Every key is hidden from ${positions(at("NaN"))}: the softmax divides 0 by 0.`);
  if (parts.length === 1) parts.push(`This is correct in ${stack === "encoder" ? "an encoder" : "a decoder"}.`);
  return parts.join(" ");
}

const VERDICTS = {
  right: "correct",
  leak: "leak",
  lost: "should change",
  ignored: "padding",
  NaN: "0 ÷ 0",
};

function Changes({ state, changes, verdicts }) {
  const largest = Math.max(1e-9, ...changes.filter(Number.isFinite));
  return html`<table class="masks-changes">
    <caption>Change of each output</caption>
    <thead><tr><th scope="col"><span>output</span></th><th scope="col">change</th></tr></thead>
    <tbody>${state.tokens.map((token, i) => html`<tr key=${i} data-verdict=${verdicts[i]}>
      <th scope="row"><span>${i} ${token}</span></th>
      <td class="live-cell"><span class="masks-bar live-moves"
        style=${{ inlineSize: `${(100 * (changes[i] || 0)) / largest}%` }}></span><span
        class="masks-number">${Number.isNaN(changes[i]) ? "NaN" : format(changes[i], 3)}</span>
        <span class="masks-verdict">${VERDICTS[verdicts[i]]}</span></td>
    </tr>`)}</tbody>
  </table>`;
}

function Masks({ model }) {
  const tokens = model.get("tokens");
  const state = { tokens, vectors: model.get("vectors") };
  const set = {};
  for (const name of ["stack", "causal", "padding", "replaced"]) {
    [state[name], set[name]] = useTrait(model, name);
  }
  const [[row, column], pick] = useState([0, 0]);
  const { mask, weights, changes } = compute(state);
  const verdicts = judge(state, changes);
  const reasons = [
    ["causal", CAUSAL[state.causal](row, column)],
    ["padding", PADDING[state.padding](tokens[column] === PAD)],
  ].flatMap(([name, allows]) => (allows ? [] : [`the ${name} mask`]));

  const named = (names) => names.map((name) => [name, name]);
  const controls = html`
    <${Select} label="Stack" value=${state.stack} onInput=${set.stack} options=${named(STACKS)} />
    <${Select} label="Causal mask" value=${state.causal} onInput=${set.causal} options=${named(Object.keys(CAUSAL))} />
    <${Select} label="Padding mask" value=${state.padding} onInput=${set.padding} options=${named(Object.keys(PADDING))} />
    <${Select} label="Replace the token" value=${state.replaced} onInput=${set.replaced}
      options=${tokens.map((token, i) => [i, `${i} ${token}`])} />`;

  return html`<${Frame} title="Masks and leaks" controls=${controls}
    lines=${[3, 7]}
    task=${html`switch the causal mask to <i>off by one</i>, then to <i>none</i>, and see which outputs change.`}
    shows=${html`An output may depend only on what its mask allows. To test a mask, replace an input and see which
      outputs change. Also replace a padding token and remove the padding mask, first in the decoder, then in the encoder. If the padding is at the end, the causal mask also hides it from every real token.`}
    status=${describe(state, changes, verdicts)}>
    <div class="masks-columns">
      <div class="masks-weights">
        <${Matrix} label="Weights (hatched: hidden)" rows=${tokens} columns=${tokens}
          values=${weights} selected=${[row, column]} onSelect=${pick} hidden=${(i, j) => !mask[i][j]}
          text=${(value, i, j) => (mask[i][j] ? format(value, 2) : Number.isNaN(value) ? "NaN" : "0")}
          colour=${(value) => heat(value)} />
      </div>
      <${Changes} state=${state} changes=${changes} verdicts=${verdicts} />
    </div>
    <p class="masks-cell">Query ${row} “${tokens[row]}”, key ${column} “${tokens[column]}”: ${
      reasons.length ? `hidden by ${listed(reasons)}.` : `allowed, weight ${format(weights[row][column], 3)}.`}</p>
  <//>`;
}

export const render = live(Masks, (model) => ({
  stack: oneOf(STACKS),
  causal: oneOf(Object.keys(CAUSAL)),
  padding: oneOf(Object.keys(PADDING)),
  replaced: whole(0, model.get("tokens").length - 1),
}));

// Temperature, top-k and top-p on next-token distributions of a trained model, and samples.
// tfmr/decode/sampling.py computes the same, in the same order.

import { html, useMemo, useState } from "./vendor/preact.js";
import { Button, Range, Select, Views } from "./lib/controls.js";
import { count, format, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { Matrix } from "./lib/matrix.js";
import { live, useTrait } from "./lib/model.js";
import { number, optional, whole } from "./lib/state.js";

const STEP = 0.01;
const MAX_DRAWS = 10000;
const TOP_K = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500, 1000, null];
const [MODEL, WARM, TOP, NUCLEUS, DRAWN] = [0, 1, 2, 3, 4];

const two = (number) => format(number, 2);
const three = (number) => format(number, 3);
const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

/** The log-probabilities of the whole vocabulary, the largest first. */
function unpack({ logs, first, counts }) {
  const rest = counts.split(" ").flatMap((times, i) => Array(Number(times)).fill(-STEP * (first + i)));
  return [...logs, ...rest];
}

/** exp((log − largest log) ÷ temperature) of each token; their sum makes them probabilities. */
function powersOf(logs, temperature) {
  return logs.map((log) => Math.exp((log - logs[0]) / temperature));
}

/** The distribution as the model has it, and after temperature, top-k and top-p, in this order. */
function filter(logs, temperature, topK, topP) {
  const powers = [powersOf(logs, 1), powersOf(logs, temperature)];
  const totals = powers.map(sum);
  const [model, warm] = powers.map((each, stage) => each.map((power) => power / totals[stage]));
  const keep = (probs, isKept) => {
    const kept = probs.map((prob, rank) => (isKept(rank) ? prob : 0));
    const total = sum(kept);
    return [kept.map((prob) => prob / total), total];
  };
  const [top, totalTop] = topK === null ? [warm, 1] : keep(warm, (rank) => rank < topK);
  // A token is in the nucleus if the total of the more probable ones is below p.
  const before = [0];
  top.forEach((prob, rank) => before.push(before[rank] + prob));
  const [nucleus, totalNucleus] = topP === 1 ? [top, 1] : keep(top, (rank) => before[rank] < topP);
  return { powers, totals, stages: [model, warm, top, nucleus], totalTop, before, totalNucleus };
}

/** Random numbers in [0, 1), by mulberry32; tfmr/widgets/sampling.py has the same. */
function uniforms(number, seed) {
  let state = seed;
  return Array.from({ length: number }, () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  });
}

/** The ranks drawn: for each random number the first token whose cumulative probability exceeds it. */
function draw(probs, randoms) {
  let total = 0;
  const cumulative = probs.map((prob) => (total += prob));
  return randoms.map((random) => {
    let [low, high] = [0, cumulative.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (cumulative[middle] > random * total) high = middle;
      else low = middle + 1;
    }
    return low;
  });
}

const entropy = (probs) => -sum(probs.map((prob) => (prob > 0 ? prob * Math.log(prob) : 0)));
const remaining = (probs) => probs.filter((prob) => prob > 0).length;

/** A background with a bar of a part of the width. */
function bar(part, hue = "blue") {
  const end = `${(100 * Math.min(1, part)).toFixed(2)}%`;
  return `linear-gradient(to right, color-mix(in srgb, var(--live-${hue}) 42%, var(--live-page)) ${end}, var(--live-page) ${end})`;
}

/** How the probabilities of a token are computed, stage by stage. */
function Arithmetic({ settings, result, row }) {
  const { powers, totals, stages, totalTop, before, totalNucleus } = result;
  const { temperature, topK, topP } = settings;
  const log = three(Math.log(powers[MODEL][row]));
  const value = (stage) => html`<strong>${three(stages[stage][row])}</strong>`;
  const share = (stage, total) => html`${three(stages[stage - 1][row])} ÷ ${three(total)} = ${value(stage)}`;
  const power = (stage) => html`${three(powers[stage][row])} ÷ ${three(totals[stage])} = ${value(stage)}`;
  const top = topK === null ? "not used" : row >= topK ? html`rank ${row + 1} > ${topK}: cut`
    : html`rank ${row + 1} ≤ ${topK}: kept; ${share(TOP, totalTop)}`;
  const nucleus = topP === 1 ? "not used" : stages[TOP][row] === 0 ? "already cut"
    : before[row] >= topP ? html`${three(before[row])} before it ≥ ${two(topP)}: cut`
      : html`${three(before[row])} before it ${"<"} ${two(topP)}: kept; ${share(NUCLEUS, totalNucleus)}`;
  const lines = [["model", html`exp(${log}) = ${power(MODEL)}`],
    [html`<i>T</i>`, html`exp(${log} ÷ ${two(temperature)}) = ${power(WARM)}`], [html`<i>k</i>`, top], [html`<i>p</i>`, nucleus]];
  return html`<div class="sam-arithmetic">${lines.map(([name, line], i) =>
    html`<p key=${i}><b>${name}</b><span>${line}</span></p>`)}</div>`;
}

function SamplingBench({ model }) {
  const prefixes = model.get("prefixes");
  const [selected, setSelected] = useTrait(model, "selected");
  const [temperature, setTemperature] = useTrait(model, "temperature");
  const [topK, setTopK] = useTrait(model, "top_k");
  const [topP, setTopP] = useTrait(model, "top_p");
  const [seed, setSeed] = useTrait(model, "seed");
  const [draws, setDraws] = useTrait(model, "draws");
  const [row, setRow] = useState(1);

  const all = useMemo(() => prefixes.map(unpack), [prefixes]);
  const perplexities = useMemo(
    () => all.map((logs) => Math.exp(entropy(filter(logs, 1, null, 1).stages[MODEL]))), [all]);
  const { source, prefix, tokens } = prefixes[selected];
  const result = useMemo(
    () => filter(all[selected], temperature, topK, topP), [all, selected, temperature, topK, topP]);
  const { stages } = result;
  const final = stages[NUCLEUS];
  const ranks = useMemo(() => draw(final, uniforms(draws, seed)), [final, draws, seed]);

  const named = tokens.length;
  const tail = (probs) => sum(probs.slice(named));
  const rows = [...tokens, "others", "tokens", "entropy", "perplexity"];
  const expected = [...final.slice(0, named), tail(final)].map((prob) => draws * prob);
  const drawn = expected.map((_, i) => ranks.filter((rank) => Math.min(rank, named) === i).length);
  const values = [
    ...tokens.map((_, rank) => [...stages.map((probs) => probs[rank]), drawn[rank]]),
    [...stages.map(tail), drawn[named]],
    ...[remaining, entropy, (probs) => Math.exp(entropy(probs))].map((measure) => [...stages.map(measure), null]),
  ];
  const largest = Math.max(...values.slice(0, named + 1).flatMap((line) => line.slice(0, DRAWN)));
  const most = Math.max(1, ...drawn, ...expected);
  const isCut = (i, column) => column < DRAWN && i <= named && values[i][column] === 0 && column >= TOP
    && (i < named || remaining(stages[column]) <= named);
  const text = (value, i, column) => {
    if (column === DRAWN) {
      return i > named || expected[i] === 0 ? "" : html`${count(value)}<i> (${format(expected[i], 1)})</i>`;
    }
    if (isCut(i, column)) return "cut";
    if (i === named + 1) return count(value);
    if (i > named) return value < 100 ? two(value) : count(value);
    return three(value);
  };
  const colour = (value, i, column) => {
    if (i > named) return "var(--live-page)";
    return column === DRAWN ? bar(value / most, "green") : bar(value / largest);
  };

  const order = ranking(final.slice(0, named), 3).slice(0, 2).map((group) => group
    .filter((rank) => final[rank] > 0).map((rank) => `“${tokens[rank]}” ${three(final[rank])}`).join(" = "));
  const leading = order.filter(Boolean).join(", then ");
  const left = remaining(final);
  const sampled = draws > 0 ? ` Of ${count(draws)} ${draws === 1 ? "sample" : "samples"}, ${count(drawn[0])} ${drawn[0] === 1 ? "is" : "are"} “${tokens[0]}” (${
    format(expected[0], 1)} expected).` : "";
  const status = `After “${prefix}”, ${count(left)} of ${count(final.length)} tokens ${
    left === 1 ? "remains" : "remain"}; most probable: ${leading}. The entropy is ${
    three(entropy(final))} nats.${sampled}`;

  const index = TOP_K.findIndex((each) => each === null || each >= (topK ?? Infinity));
  const showK = topK === null ? "all" : count(topK);
  const controls = html`
    <${Select} label="Next token after" value=${selected} onInput=${setSelected}
      options=${prefixes.map((each, i) => [i, `${each.prefix} … (perplexity ${format(perplexities[i], 1)})`])} />
    <${Range} label="Temperature" value=${temperature} min=${0.1} max=${2} step=${0.05} digits=${2} onInput=${setTemperature} />
    <${Range} label="Top-k" value=${index} min=${0} max=${TOP_K.length - 1} onInput=${(i) => setTopK(TOP_K[i])} show=${() => showK} />
    <${Range} label="Top-p" value=${topP} min=${0.05} max=${1} step=${0.01} onInput=${setTopP}
      show=${(value) => (value === 1 ? "all" : two(value))} />
    <${Select} label="Computation of" value=${row} onInput=${setRow} options=${tokens.map((token, i) => [i, token])} />
    <span class="live-buttons">
      <${Button} label="Draw 1" onClick=${() => setDraws(Math.min(MAX_DRAWS, draws + 1))} />
      <${Button} label="Draw 100" onClick=${() => setDraws(Math.min(MAX_DRAWS, draws + 100))} />
      <${Button} label="New seed" onClick=${() => setSeed(seed + 1)} />
    </span>`;

  return html`<${Frame} title="Sampling a token" controls=${controls} lines=${[3, 5]}
    task="set the temperature to 2, and compare what remains with top-p 0.9 and with top-k 5."
    shows=${html`The scores are divided by the temperature, then top-k and top-p cut the tail, and the remaining
      probabilities are divided by their sum. Top-k keeps the same number of tokens whether the distribution is peaked
      or flat; the nucleus of top-p adapts. Compare the sentences. Below the table, exp is applied to the log-probability of a token minus the largest one, and the divisor
      is the sum over all remaining tokens. The entropy is the sum of −<i>p</i> ln <i>p</i>, and exp(entropy) is the perplexity. The row <i>others</i> is the sum over the ${count(final.length - named)} tokens from rank ${named + 1} on;
      the computation uses the whole vocabulary. The stored probabilities of the
      tokens that are not named are accurate to within 1 %. The mark ▁ stands for the space before a word.`}
    status=${status}>
    <p class="sam-context"><span>${source}</span><b>→ ${prefix} …</b></p>
    <div class="sam-views"><${Views} label="View" together=${true} views=${[
      ["table", html`<div class="sam-table"><${Matrix} label="Probabilities and samples"
        corner="token" columns=${[html`<span>model</span>`, html`<i>T</i> ${two(temperature)}`, html`<i>k</i> ${showK}`,
          html`<i>p</i> ${topP === 1 ? "all" : two(topP)}`, html`<span>drawn</span>`]}
        rows=${rows} values=${values} text=${text} hidden=${isCut} colour=${colour} /></div>`],
      ["computation", html`<${Arithmetic} settings=${{ temperature, topK, topP }} result=${result} row=${row} />`],
    ]} /></div>
  <//>`;
}

export const render = live(SamplingBench, (model) => ({
  selected: whole(0, model.get("prefixes").length - 1),
  temperature: number(0.1, 2),
  top_k: optional(whole(1, TOP_K.at(-2))),
  top_p: number(0.05, 1),
  seed: whole(0, 2 ** 31),
  draws: whole(0, MAX_DRAWS),
}));

// Temperature, top-k and top-p on next-token distributions of a trained model, and samples.
// tfmr/decode/sampling.py computes the same, in the same order.

import { html, useMemo, useState } from "./vendor/preact.js";
import { Button, Range, Select } from "./lib/controls.js";
import { count, format, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { Matrix } from "./lib/matrix.js";
import { live, useTrait } from "./lib/model.js";
import { number, optional, whole } from "./lib/state.js";

const STEP = 0.01;
const MAX_DRAWS = 10000;
const TOP_K = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500, 1000, null];
const [MODEL, WARM, TOP, NUCLEUS] = [0, 1, 2, 3];

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

/** How the number in a cell is computed. */
function Arithmetic({ tokens, settings, result, row, stage }) {
  const { powers, totals, stages, totalTop, before, totalNucleus } = result;
  const { temperature, topK, topP } = settings;
  const [probs, named] = [stages[stage], tokens.length];
  const title = ["Model", "Temperature", "Top-k", "Top-p"][stage];
  const box = (name, text) => html`<p class="sam-arithmetic"><b>${title}, ${name}</b><br />${text}</p>`;
  const result3 = (number) => html`<strong>${three(number)}</strong>`;
  const left = remaining(probs);
  if (row === named + 1) return box("tokens", html`<strong>${count(left)}</strong> of ${
    count(probs.length)} tokens have a probability above 0.`);
  if (row === named + 2) return box("entropy", html`the sum of −<i>p</i> ln <i>p</i> over ${count(left)} ${
    left === 1 ? "token" : "tokens"} = ${result3(entropy(probs))} nats`);
  if (row === named + 3) return box("perplexity", html`exp(entropy) = exp(${three(entropy(probs))}) = ${
    result3(Math.exp(entropy(probs)))}`);
  if (row === named) return box("others", html`${count(remaining(probs.slice(named)))} of the ${
    count(probs.length - named)} tokens from rank ${named + 1} on remain; the sum of their probabilities is ${
    result3(sum(probs.slice(named)))}.`);
  const name = html`“${tokens[row]}”`;
  if (stage <= WARM) {
    const power = Math.log(powers[MODEL][row]);
    return box(name, html`exp(${three(power)}${stage === WARM && html` ÷ ${two(temperature)}`}) ÷ ${
      three(totals[stage])} = ${three(powers[stage][row])} ÷ ${three(totals[stage])} = ${result3(probs[row])}.${" "}
      Here ${three(power)} is the log-probability of the token minus the largest one, and
      ${" "}${three(totals[stage])} is the sum of these exponentials over all ${count(probs.length)} tokens.`);
  }
  if (stage === TOP) {
    if (topK === null) return box(name, html`no top-k: ${result3(probs[row])} as before`);
    if (row >= topK) return box(name, html`rank ${row + 1} is greater than <i>k</i> = ${topK}: cut`);
    return box(name, html`rank ${row + 1} is at most <i>k</i> = ${topK}: kept. ${three(stages[WARM][row])} ÷ ${
      three(totalTop)} = ${result3(probs[row])}, where ${three(totalTop)} is the sum of what is kept.`);
  }
  if (stages[TOP][row] === 0) return box(name, "cut by top-k");
  if (topP === 1) return box(name, html`no top-p: ${result3(probs[row])} as before`);
  const more = html`the more probable tokens have ${three(before[row])} in total, `;
  if (before[row] >= topP) return box(name, html`${more}not less than <i>p</i> = ${two(topP)}: cut`);
  return box(name, html`${more}less than <i>p</i> = ${two(topP)}: kept. ${three(stages[TOP][row])} ÷ ${
    three(totalNucleus)} = ${result3(probs[row])}, where ${three(totalNucleus)} is the sum of what is kept.`);
}

/** What was drawn, beside what is expected. */
function Samples({ tokens, probs, ranks }) {
  const named = tokens.length;
  const number = ranks.length;
  const rows = [...tokens.keys(), named].filter((row) => (row < named ? probs[row] > 0 : remaining(probs) > named));
  const counts = rows.map((row) => ranks.filter((rank) => Math.min(rank, named) === row).length);
  const expected = rows.map((row) => number * (row < named ? probs[row] : sum(probs.slice(named))));
  const largest = Math.max(...counts, ...expected, 1);
  return html`<p class="sam-last">${number === 0 ? "No samples yet." : html`Last samples: ${ranks.slice(-8).reverse()
      .map((rank) => tokens[rank] ?? `rank ${rank + 1}`).join(", ")}`}</p>
    <div class="sam-samples"><${Matrix} label=${`${count(number)} samples`} corner="token" columns=${["drawn", "expected"]}
      rows=${rows.map((row) => tokens[row] ?? "others")} values=${rows.map((_, i) => [counts[i], expected[i]])}
      text=${(value, _, column) => (column === 0 ? count(value) : format(value, 1))}
      colour=${(value, _, column) => bar(value / largest, column === 0 ? "green" : "blue")} /></div>`;
}

function SamplingBench({ model }) {
  const prefixes = model.get("prefixes");
  const [selected, setSelected] = useTrait(model, "selected");
  const [temperature, setTemperature] = useTrait(model, "temperature");
  const [topK, setTopK] = useTrait(model, "top_k");
  const [topP, setTopP] = useTrait(model, "top_p");
  const [seed, setSeed] = useTrait(model, "seed");
  const [draws, setDraws] = useTrait(model, "draws");
  const [[row, stage], pick] = useState([1, WARM]);

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
  const values = [
    ...tokens.map((_, rank) => stages.map((probs) => probs[rank])),
    ...[(probs) => sum(probs.slice(named)), remaining, entropy, (probs) => Math.exp(entropy(probs))]
      .map((measure) => stages.map(measure)),
  ];
  const largest = Math.max(...values.slice(0, named + 1).flat());
  const isCut = (i, column) => i <= named && values[i][column] === 0 && column >= TOP
    && (i < named || remaining(stages[column]) <= named);
  const text = (value, i, column) => {
    if (isCut(i, column)) return "cut";
    if (i === named + 1) return count(value);
    if (i > named) return value < 100 ? two(value) : count(value);
    return three(value);
  };

  const order = ranking(final.slice(0, named), 3).slice(0, 2).map((group) => group
    .filter((rank) => final[rank] > 0).map((rank) => `“${tokens[rank]}” ${three(final[rank])}`).join(" = "));
  const most = order.filter(Boolean).join(", then ");
  const left = remaining(final);
  const drawn = draws > 0 ? ` Of ${count(draws)} samples, ${count(ranks.filter((rank) => rank === 0).length)} are “${
    tokens[0]}”; ${format(draws * final[0], 1)} are expected.` : "";
  const status = `After “${prefix}”, ${count(left)} of ${count(final.length)} tokens ${
    left === 1 ? "remains" : "remain"}; most probable: ${most}. The entropy is ${
    three(entropy(final))} nats, the perplexity ${two(Math.exp(entropy(final)))}.${drawn}`;

  const index = TOP_K.findIndex((each) => each === null || each >= (topK ?? Infinity));
  const showK = topK === null ? "all" : count(topK);
  const controls = html`
    <${Select} label="Next token after" value=${selected} onInput=${setSelected}
      options=${prefixes.map((each, i) => [i, `${each.prefix} … (perplexity ${format(perplexities[i], 1)})`])} />
    <${Range} label="Temperature" value=${temperature} min=${0.1} max=${2} step=${0.05} digits=${2} onInput=${setTemperature} />
    <${Range} label="Top-k" value=${index} min=${0} max=${TOP_K.length - 1} onInput=${(i) => setTopK(TOP_K[i])} show=${() => showK} />
    <${Range} label="Top-p" value=${topP} min=${0.05} max=${1} step=${0.01} onInput=${setTopP}
      show=${(value) => (value === 1 ? "all" : two(value))} />`;

  return html`<${Frame} above title="Sampling the next token" controls=${controls}
    task=${html`set the temperature to 2 and read the total probability in the row <i>others</i>. Compare how many tokens remain
      with top-p 0.9 and with top-k 5. Compare the peaked and the flat distributions, and draw 100 samples.`}
    shows=${html`The scores are divided by the temperature, then top-k and top-p cut the tail, and the rest is divided
      by its sum. The same top-k keeps as many tokens of a peaked as of a flat distribution; the nucleus of top-p
      adapts. The computation uses the whole vocabulary; the stored probabilities of the other
      tokens are accurate to within 1 %.
      The mark ▁ is a space before a word.`}
    status=${status}>
    <p class="sam-context"><span>${source}</span> → <b>${prefix}</b> <i>next token</i></p>
    <div class="live-columns sam-columns">
      <div class="sam-table"><${Matrix} label=${`Probability of the ${named} most probable tokens and of the ${
        count(final.length - named)} others`} corner="token" columns=${["model", html`<i>T</i> ${two(temperature)}`, html`<i>k</i> ${showK}`,
          html`<i>p</i> ${topP === 1 ? "all" : two(topP)}`]}
        rows=${[...tokens, "others", "tokens", "entropy", "perplexity"]} values=${values} text=${text} hidden=${isCut}
        colour=${(value, i) => (i <= named ? bar(value / largest) : "var(--live-page)")}
        selected=${[row, stage]} onSelect=${pick} /></div>
      <div class="live-drawing">
        <${Arithmetic} tokens=${tokens} settings=${{ temperature, topK, topP }} result=${result} row=${row} stage=${stage} />
        <div>
          <div class="live-buttons sam-draw">
            <${Button} label="Sample 1" onClick=${() => setDraws(Math.min(MAX_DRAWS, draws + 1))} />
            <${Button} label="Sample 100" onClick=${() => setDraws(Math.min(MAX_DRAWS, draws + 100))} />
            <${Button} label="New seed" onClick=${() => setSeed(seed + 1)} />
          </div>
          <${Samples} tokens=${tokens} probs=${final} ranks=${ranks} />
        </div>
      </div>
    </div>
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

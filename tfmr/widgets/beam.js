// The beam tree: beam search step by step. The candidates were recorded by tfmr/decode/beam.py; the
// length penalty, the ranking and the end of the search are computed here, as it computes them.

import { html, useState } from "./vendor/preact.js";
import { Choice, Range, Select, Stepper, useId } from "./lib/controls.js";
import { Drawing } from "./lib/chart.js";
import { clamp } from "./lib/math.js";
import { format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { number, oneOf, whole } from "./lib/state.js";

const [PRUNED, LIVE, FINISHED] = [0, 1, 2];
const VERDICTS = ["pruned", "live", "finished"];
const EOS = "<eos>";

/** Pixels of the drawing: a step, a node of one line and of two, the column of step numbers, the header. */
const STEP = 62;
const NODE = 35;
const LEAF = 21;
const GUTTER = 20;
const TOP = 42;

const two = (number) => format(number, 2);
const quoted = (text) => `“${text}”`;

/** The divisor of a log-probability that compensates for the length of a hypothesis. */
const penaltyOf = (length, alpha) => ((5 + length) / 6) ** alpha;

/** The tokens of a hypothesis, from the first one to that of the node. */
function tokensOf(node) {
  const tokens = [];
  for (let at = node; at.parent; at = at.parent) tokens.unshift(at.token);
  return tokens;
}

/** The text of a hypothesis; "…" stands for the tokens that are still missing. */
function textOf(node) {
  const tokens = tokensOf(node);
  const text = tokens.filter((token) => token !== EOS).join("").replaceAll("▁", " ").trim();
  return tokens.at(-1) === EOS ? text : `${text} …`.trim();
}

/**
 * The search of a sentence with a beam and an exponent of the length penalty.
 *
 * Returns the states after 0, 1, 2, … steps up to the end of the search. A state is
 * { candidates, live, finished, best, bound, reason }: nodes in descending order of probability;
 * `finished` has all finished ones by score; `bound` is the largest score that a live one can reach;
 * `reason` says why the search ends here ("beam", "bound", "length"), or is "".
 * A node is { parent, token, total, edge, length, kind, score, path }.
 */
function runSearch({ steps, beam }, maxLength, alpha) {
  const root = { parent: null, token: "<bos>", total: 0, edge: 0, length: 0, kind: LIVE, score: 0, path: "" };
  const states = [{ candidates: [], live: [root], finished: [], best: undefined, bound: 0, reason: "" }];
  for (const step of steps) {
    const last = states.at(-1);
    const candidates = step.map(([number, token, total, kind]) => {
      const parent = last.live[number];
      const length = parent.length + 1;
      return { parent, token, total, edge: total - parent.total, length, kind,
        score: total / penaltyOf(length, alpha), path: `${parent.path}${token}\n` };
    });
    const alive = candidates.filter(({ kind }) => kind === LIVE);
    const finished = [...last.finished, ...candidates.filter(({ kind }) => kind === FINISHED)]
      .sort((a, b) => b.score - a.score);
    const best = finished[0];
    const bound = alive[0].total / penaltyOf(maxLength, alpha);
    const reason = finished.length >= beam ? "beam" : best && bound <= best.score ? "bound"
      : alive[0].length >= maxLength ? "length" : "";
    states.push({ candidates, live: alive, finished, best, bound, reason });
    if (reason) break;
  }
  return states;
}

/** All nodes that the node descends from, and the node. */
function ancestry(node) {
  const found = new Set();
  for (let at = node; at; at = at.parent) found.add(at);
  return found;
}

/** The tree after some steps: a row for each step, columns for the live hypotheses by rank. */
function Tree({ states, step, beam, isGreedy, selected, onSelect, label }) {
  const path = ancestry(selected);
  const now = states[step];
  const kept = new Set([...now.live, ...now.finished].flatMap((node) => [...ancestry(node)]));
  const height = TOP + NODE + STEP * (states.length - 1) + 8;
  const draw = (width) => {
    const column = Math.min(120, (width - GUTTER) / (beam + 1));
    const half = column / 2 - 3;
    const leafX = GUTTER + column * beam + column / 2;
    const top = (number) => TOP + number * STEP;
    const gap = (number) => top(number) - (STEP - NODE) / 2;
    const box = new Map([[states[0].live[0], { x: GUTTER + column / 2, y: top(0), height: NODE }]]);
    const stubs = [];
    states.slice(1, step + 1).forEach(({ candidates, live: alive }, i) => {
      alive.forEach((node, k) => box.set(node, { x: GUTTER + (k + 0.5) * column, y: top(i + 1), height: NODE }));
      const leaves = candidates.filter(({ kind }) => kind === FINISHED);
      leaves.forEach((node, k) => box.set(node, { x: leafX, y: gap(i + 1) + k * (LEAF + 3) - LEAF / 2, height: LEAF }));
      const used = new Map();
      for (const node of candidates.filter(({ kind }) => kind === PRUNED)) {
        used.set(node.parent, (used.get(node.parent) ?? 0) + 1);
      }
      used.forEach((n, node) => stubs.push({ n, x: box.get(node).x - half, y: box.get(node).y + NODE + 12 }));
    });
    const shorten = (text) => {
      const fits = Math.max(3, Math.floor((2 * half - (text.startsWith("▁") ? 10 : 5)) / 6.6));
      return text.length > fits ? `${text.slice(0, fits - 1)}…` : text;
    };
    const edges = [...box].filter(([node]) => node.parent);
    const look = (node) => [isGreedy(node) && "beam-greedy", node === now.best && "beam-best",
      path.has(node) && "beam-path", !kept.has(node) && "beam-dead"].filter(Boolean).join(" ");
    return html`
      <text class="beam-head" x="0" y="13">step, live hypotheses (most probable first), finished</text>
      ${states.map((_, i) => html`<g key="s${i}">
        <line class="beam-rule" x1=${GUTTER} x2=${GUTTER + column * (beam + 1)} y1=${top(i) + NODE / 2} y2=${top(i) + NODE / 2} />
        <text class="beam-head" x="0" y=${top(i) + NODE / 2 + 4}>${i}</text></g>`)}
      ${edges.map(([node, at]) => {
        const { x } = box.get(node.parent);
        const [y, middle, leaf] = [top(node.length - 1) + NODE, gap(node.length), at.x - half];
        const line = node.kind === LIVE ? `C${x} ${middle} ${at.x} ${middle} ${at.x} ${at.y}`
          : `Q${x} ${middle} ${x + 12} ${middle}H${leaf - 7}Q${leaf - 4} ${middle} ${leaf} ${at.y + LEAF / 2}`;
        return html`<path key=${node.path} class="beam-edge ${look(node)}" d="M${x} ${y}${line}" />`;
      })}
      ${stubs.map(({ n, x, y }, i) => html`<text key="x${i}" class="beam-number" x=${x} y=${y}>×${n}</text>`)}
      ${edges.filter(([node]) => path.has(node) || (!now.reason && node.length === step && node.kind === LIVE)).map(([node, at]) => {
        const done = node.kind === FINISHED;
        return html`<text key="e${node.path}" class="beam-number ${look(node)}" text-anchor=${done ? "end" : "start"}
          x=${done ? at.x - half - 9 : at.x + 3} y=${done ? gap(node.length) - 2 : at.y - 5}>${two(node.edge)}</text>`;
      })}
      ${[...box].map(([node, at]) => html`<g key="n${node.path}" class="beam-node ${look(node)}"
          onClick=${() => node.parent && onSelect(node)}>
        <rect x=${at.x - half} y=${at.y} width=${2 * half} height=${at.height} rx="6" />
        ${node.kind === FINISHED
          ? html`<text x=${at.x} y=${at.y + 15} text-anchor="middle">${two(node.score)}</text>`
          : html`<text x=${at.x} y=${at.y + 14} text-anchor="middle">${shorten(node.token)}</text>
            <text class="beam-number" x=${at.x} y=${at.y + 29} text-anchor="middle">${two(node.total)}</text>`}
      </g>`)}`;
  };
  return html`<${Drawing} label=${label} height=${height}>${draw}<//>`;
}

/** The candidates of a step; one of them is selected. */
function Candidates({ state, step, selected, onSelect }) {
  const name = useId();
  return html`<table class="beam-candidates">
    <caption>Candidates of step ${step}</caption>
    <thead><tr><th scope="col">token</th><th scope="col">log-probability</th><th scope="col">verdict</th></tr></thead>
    <tbody>${state.candidates.map((node) => html`<tr key=${node.path} data-verdict=${VERDICTS[node.kind]}>
      <th scope="row"><label class="live-check"><input type="radio" name=${name} checked=${node === selected}
        onInput=${() => onSelect(node)} /><span>${node.token}</span></label></th>
      <td>${two(node.parent.total)} ${node.edge > 0 ? "+" : "−"} ${two(Math.abs(node.edge))} =${" "}<b>${two(node.total)}</b></td>
      <td>${VERDICTS[node.kind]}</td>
    </tr>`)}</tbody>
  </table>`;
}

/** The finished hypotheses by score. */
function Finished({ finished, selected, onSelect }) {
  const name = useId();
  if (finished.length === 0) return html`<p class="beam-none">No hypothesis is finished yet.</p>`;
  return html`<table class="beam-finished">
    <caption>Finished hypotheses by score</caption>
    <thead><tr><th scope="col">text</th><th scope="col">log-prob.</th><th scope="col">score</th></tr></thead>
    <tbody>${finished.map((node) => html`<tr key=${node.path}>
      <th scope="row"><label class="live-check"><input type="radio" name=${name} checked=${node === selected}
        onInput=${() => onSelect(node)} /><span>${textOf(node) || "(empty)"}</span></label></th>
      <td>${two(node.total)}</td><td>${two(node.score)}</td>
    </tr>`)}</tbody>
  </table>`;
}

/** How the score of a node is computed. */
function Score({ node, alpha }) {
  if (!node.parent) return html`<p class="beam-score">Nothing is generated yet: the log-probability is 0.</p>`;
  const edges = [];
  for (let at = node; at.parent; at = at.parent) edges.unshift(at.edge);
  const sum = edges.map((edge, i) => (i ? ` ${edge > 0 ? "+" : "−"} ${two(Math.abs(edge))}` : two(edge))).join("");
  const penalty = penaltyOf(node.length, alpha);
  return html`<p class="beam-score"><b>${quoted(textOf(node))}</b>, ${VERDICTS[node.kind]}<br />
    log-probability: <span class="beam-sum">${sum}</span> = <b>${two(node.total)}</b><br />
    penalty of ${node.length} ${node.length === 1 ? "token" : "tokens"}: ((5 + ${node.length}) ÷ 6)<sup>${format(alpha, 1)}</sup>
    ${" "}= ${two(penalty)}; score: ${two(node.total)} ÷ ${two(penalty)} = <strong>${two(node.score)}</strong></p>`;
}

/** Whether the search goes on, and why. */
function verdictOn({ finished, best, bound, reason }, beam) {
  const some = `${finished.length} of ${beam} ${beam === 1 ? "hypothesis" : "hypotheses"} finished`;
  if (reason === "beam") return `The search ends: ${some}.`;
  if (reason === "bound") {
    return `The search ends: no live hypothesis can reach more than ${two(bound)}, and the best finished one has ${two(best.score)}.`;
  }
  if (reason === "length") return "The search ends: the maximum length is reached.";
  if (!best) return `The search goes on: ${some}.`;
  return `The search goes on: ${some}, and a live one can still reach ${two(bound)}, more than ${two(best.score)}.`;
}

/** Where the result differs from greedy decoding. */
function comparison(result, greedy) {
  if (result.path === greedy.path) return "This is also what greedy decoding finds.";
  const [ours, theirs] = [tokensOf(result), tokensOf(greedy)];
  const at = ours.findIndex((token, i) => token !== theirs[i]);
  const scores = `${two(greedy.score)}, log-probability ${two(greedy.total)}`;
  return `Greedy decoding takes “${theirs[at]}” instead of “${ours[at]}” in step ${at + 1} and finds ${
    quoted(textOf(greedy))} (score ${scores}).`;
}

function Beam({ model }) {
  const searches = model.get("searches");
  const [sentence, setSentence] = useTrait(model, "sentence");
  const [beam, setBeam] = useTrait(model, "beam");
  const [alpha, setAlpha] = useTrait(model, "alpha");
  const [wanted, setStep] = useTrait(model, "step");
  const [picked, pick] = useState("");
  const [playing, setPlaying] = useState(false);

  const { beams, max_length: maxLength } = searches[sentence];
  const searchWith = (n) => runSearch(beams.find((each) => each.beam === n), maxLength, alpha);
  const states = searchWith(beam);
  const greedyEnd = searchWith(1).at(-1);
  const greedy = greedyEnd.best ?? greedyEnd.live[0];
  const last = states.length - 1;
  const step = clamp(wanted, 0, last);
  const state = states[step];
  const drawn = states.slice(1, step + 1).flatMap(({ candidates }) => candidates);
  const usual = (step === last && state.best) || state.candidates[0] || states[0].live[0];
  const selected = drawn.find(({ path }) => path === picked) ?? usual;
  const result = states.at(-1).best ?? states.at(-1).live[0];
  const select = ({ path }) => pick(path);
  const move = (next) => {
    setStep(next);
    pick("");
  };

  const verdict = verdictOn(state, beam);
  const leading = state.live[0];
  const status = step === last
    ? `${verdict} Result: ${quoted(textOf(result))}, score ${two(result.score)}, log-probability ${two(result.total)}. ${
      beam === 1 ? "A beam of 1 is greedy decoding." : comparison(result, greedy)}`
    : `${step === 0 ? "Before the first step" : `Step ${step}: the most probable live hypothesis is ${
      quoted(textOf(leading))} (${two(leading.total)})`}. ${step === 0 ? `The beam is ${beam}.` : verdict}`;
  const label = `Tree of the search with a beam of ${beam}, ${step} of ${last} steps. Live: ${
    state.live.map((node) => `${quoted(textOf(node))} ${two(node.total)}`).join(", ")}. Finished, by score: ${
    state.finished.map((node) => `${quoted(textOf(node))} ${two(node.score)}`).join(", ") || "none"}.`;

  const controls = html`
    <${Select} label="Source sentence" value=${sentence} onInput=${(next) => { setSentence(next); move(0); }}
      options=${searches.map(({ source }, i) => [i, source])} />
    <${Choice} label="Beam" value=${beam} onInput=${(next) => { setBeam(next); move(0); }}
      options=${beams.map((each) => [each.beam, each.beam === 1 ? "1 (greedy)" : each.beam])} />
    <${Range} label=${html`Exponent <i>α</i> of the length penalty`} value=${alpha} min=${0} max=${2} step=${0.1} digits=${1}
      onInput=${setAlpha} />
    <${Stepper} label="Step" value=${step} max=${last} onInput=${move} onPlaying=${setPlaying} milliseconds=${1400}
      show=${(n) => `${n} of ${last}`} />`;

  return html`<${Frame} above title="The beam tree, growing" controls=${controls} quiet=${playing} status=${status}
    task=${html`step to the end with a beam of 2, and find the step at which the result departs from the greedy
      path. Then set${" "}
      <i>α</i> to 0 and compare the results. Select a candidate to see how its score is computed.`}
    shows=${html`A candidate extends a live hypothesis by one token. The most probable unfinished candidates are the
      live hypotheses of the next step. Finished hypotheses are compared by their score, which favours longer ones as <i>α</i> grows. The search ends
      when as many are finished as the beam is wide, or when no live one can win.`}>
    <div class="beam-columns">
      <div>
        <ul class="beam-legend"><li class="beam-key-greedy">greedy path</li><li class="beam-key-path">selected</li>
          <li class="beam-key-dead">pruned later</li><li class="beam-key-stub">×2: two candidates pruned</li></ul>
        <${Tree} states=${states} step=${step} beam=${beam} selected=${selected} onSelect=${select} label=${label}
          isGreedy=${({ path }) => greedy.path.startsWith(path)} />
      </div>
      <div class="beam-side">
        ${step > 0 && html`<${Candidates} state=${state} step=${step} selected=${selected} onSelect=${select} />`}
        <${Score} node=${selected} alpha=${alpha} />
        <${Finished} finished=${state.finished} selected=${selected} onSelect=${select} />
      </div>
    </div>
  <//>`;
}

export const render = live(Beam, (model) => {
  const searches = model.get("searches");
  return {
    sentence: whole(0, searches.length - 1),
    beam: oneOf(searches[0].beams.map((each) => each.beam)),
    alpha: number(0, 2),
    step: whole(0, Math.max(...searches.flatMap(({ beams }) => beams.map(({ steps }) => steps.length)))),
  };
});

// The beam tree: beam search step by step. The candidates were recorded by tfmr/decode/beam.py; the
// length penalty, the ranking and the end of the search are computed here, as it computes them.

import { html, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { Choice, Range, Select, Stepper, Views } from "./lib/controls.js";
import { Drawing } from "./lib/chart.js";
import { clamp } from "./lib/math.js";
import { format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { number, oneOf, whole } from "./lib/state.js";

const [PRUNED, LIVE, FINISHED] = [0, 1, 2];
const VERDICTS = ["pruned", "live", "finished"];
const EOS = "<eos>";

/** Pixels of the drawing: a step, a node of two lines and of one, a rank, the header. */
const STEP = 76;
const NODE = { width: 58, height: 32 };
const LEAF = 19;
const ROW = 35;
const TOP = 18;

const two = (number) => format(number, 2);

/** How scores are shown: with a third decimal if two that differ would be equal with two. */
function formatOf(scores) {
  const digits = new Set(scores.map(two)).size < new Set(scores).size ? 3 : 2;
  return (score) => format(score, digits);
}

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

/**
 * The tree after some steps: a column for each step, a row for each rank of the live hypotheses, and
 * the finished ones below them. It scrolls in its box, to the step that is shown.
 */
function Tree({ states, step, beam, isGreedy, selected, onSelect, label }) {
  const box = useRef(null);
  const path = ancestry(selected);
  const now = states[step];
  const kept = new Set([...now.live, ...now.finished].flatMap((node) => [...ancestry(node)]));
  const leftOf = (number) => 1 + number * STEP;
  const width = leftOf(states.length - 1) + NODE.width + 1;
  useLayoutEffect(() => {
    const { clientWidth } = box.current;
    box.current.scrollLeft = leftOf(step + 1) - clientWidth;
  }, [step, states.length]);

  const place = new Map([[states[0].live[0], { x: leftOf(0), y: TOP, height: NODE.height }]]);
  const stubs = [];
  states.slice(1, step + 1).forEach(({ candidates, live: alive }, i) => {
    const x = leftOf(i + 1);
    alive.forEach((node, k) => place.set(node, { x, y: TOP + k * ROW, height: NODE.height }));
    candidates.filter(({ kind }) => kind === FINISHED)
      .forEach((node, k) => place.set(node, { x, y: TOP + beam * ROW + k * (LEAF + 2), height: LEAF }));
    const used = new Map();
    for (const node of candidates.filter(({ kind }) => kind === PRUNED)) {
      used.set(node.parent, (used.get(node.parent) ?? 0) + 1);
    }
    used.forEach((n, node) => stubs.push({ n, x: place.get(node).x + NODE.width + 1, y: place.get(node).y + NODE.height - 1 }));
  });
  const shorten = (text) => {
    const fits = Math.floor((NODE.width - (text.startsWith("▁") ? 9 : 3)) / 7);
    return text.length > fits ? `${text.slice(0, fits - 1)}…` : text;
  };
  const show = formatOf(now.finished.map(({ score }) => score));
  const look = (node) => [isGreedy(node) && "beam-greedy", node === now.best && "beam-best",
    path.has(node) && "beam-path", !kept.has(node) && "beam-dead"].filter(Boolean).join(" ");
  const draw = () => html`
    ${states.map((_, i) => html`<text key="s${i}" class="beam-head" x=${leftOf(i) + NODE.width / 2} y="11"
      text-anchor="middle">${i ? i : "step 0"}</text>`)}
    ${[...place].filter(([node]) => node.parent).map(([node, at]) => {
      const from = place.get(node.parent);
      const [x, y, end] = [from.x + NODE.width, from.y + NODE.height / 2, at.y + at.height / 2];
      const middle = (x + at.x) / 2;
      return html`<path key=${node.path} class="beam-edge ${look(node)}" d="M${x} ${y}C${middle} ${y} ${middle} ${end} ${at.x} ${end}" />`;
    })}
    ${stubs.map(({ n, x, y }, i) => html`<text key="x${i}" class="beam-number" x=${x} y=${y}>×${n > 1 ? n : ""}</text>`)}
    ${[...place].map(([node, { x, y, height }]) => html`<g key="n${node.path}" class="beam-node ${look(node)}"
        onClick=${() => node.parent && onSelect(node)}>
      <rect x=${x} y=${y} width=${NODE.width} height=${height} rx="6" />
      ${node.kind === FINISHED
        ? html`<text x=${x + NODE.width / 2} y=${y + 13.5} text-anchor="middle">${show(node.score)}</text>`
        : html`<text x=${x + NODE.width / 2} y=${y + 13} text-anchor="middle">${shorten(node.token)}</text>
          <text class="beam-number" x=${x + NODE.width / 2} y=${y + 27} text-anchor="middle">${two(node.total)}</text>`}
    </g>`)}`;
  return html`<div class="beam-tree" ref=${box} tabindex="0" role="group" aria-label="Tree, scrollable">
    <div style=${{ inlineSize: `${width}px` }}><${Drawing} label=${label}
      height=${TOP + beam * ROW + 3 * (LEAF + 2)}>${draw}<//></div>
  </div>`;
}

/** The candidates of a step, with their scores; the selected one is marked. */
function Candidates({ state, step, alpha, selected, onSelect }) {
  const penalty = penaltyOf(step, alpha);
  const caption = step === 0 ? "No candidates yet" : html`Length penalty ((5 + ${
    step}) ÷ 6)<sup>${format(alpha, 1)}</sup> = ${two(penalty)}`;
  return html`<table class="beam-candidates">
    <caption>${caption}</caption>
    <thead><tr><th scope="col">token</th><th scope="col">log-prob.</th><th scope="col">score</th>
      <th scope="col">state</th></tr></thead>
    <tbody>${state.candidates.map((node) => html`<tr key=${node.path} data-verdict=${VERDICTS[node.kind]}
        class=${node === selected ? "beam-chosen" : ""} onClick=${() => onSelect(node)}>
      <th scope="row">${node.token}</th>
      <td><span class="beam-sum">${two(node.parent.total)} ${node.edge > 0 ? "+" : "−"} ${
        two(Math.abs(node.edge))} =</span>${" "}<b>${two(node.total)}</b></td>
      <td>${two(node.score)}</td>
      <td>${VERDICTS[node.kind]}</td>
    </tr>`)}</tbody>
  </table>`;
}

/** The finished hypotheses by score, in a box that scrolls. */
function Finished({ finished, selected, onSelect }) {
  const show = formatOf(finished.map(({ score }) => score));
  return html`<div class="beam-box" tabindex="0" role="group" aria-label="Finished hypotheses">
  <table class="beam-finished">
    <caption>Finished: score</caption>
    <tbody>${finished.map((node) => html`<tr key=${node.path} class=${node === selected ? "beam-chosen" : ""}
        onClick=${() => onSelect(node)}>
      <th scope="row">${textOf(node) || "(empty)"}</th><td>${show(node.score)}</td>
    </tr>`)}
    ${finished.length === 0 && html`<tr><td>none yet</td></tr>`}</tbody>
  </table></div>`;
}

/** Whether the search goes on, and why. */
function verdictOn({ finished, best, bound, reason }, beam) {
  const some = `${finished.length} finished (beam width ${beam})`;
  const show = formatOf([bound, ...(best ? [best.score] : [])]);
  if (reason === "beam") return `The search ends: ${some}.`;
  if (reason === "bound") {
    return `The search ends: no live hypothesis can score above ${show(bound)}, and the best finished one scores ${show(best.score)}.`;
  }
  if (reason === "length") return "The search ends: the maximum length is reached.";
  if (!best) return `The search goes on: ${some}.`;
  return `The search goes on: ${some}, and a live one can still reach a score of ${show(bound)}, above ${show(best.score)}.`;
}

/** Where the result differs from greedy decoding. */
function comparison(result, greedy, show) {
  if (result.path === greedy.path) return "Greedy decoding gives the same result.";
  const [ours, theirs] = [tokensOf(result), tokensOf(greedy)];
  const at = ours.findIndex((token, i) => token !== theirs[i]);
  return `Greedy decoding selects “${theirs[at]}” instead of “${ours[at]}” in step ${at + 1} and reaches a score of ${
    show(greedy.score)}.`;
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
  const show = formatOf([result.score, greedy.score]);
  const leading = state.live[0];
  const status = step === last
    ? `${verdict} Result: ${quoted(textOf(result))}, score ${show(result.score)}, log-probability ${two(result.total)}. ${
      beam === 1 ? "A beam of 1 is greedy decoding." : comparison(result, greedy, show)}`
    : `${step === 0 ? "Before the first step" : `Step ${step}: the most probable live hypothesis is ${
      quoted(textOf(leading))} (${two(leading.total)})`}. ${step === 0 ? `The beam width is ${beam}.` : verdict}`;
  const label = `Tree of the search with a beam of ${beam}, ${step} of ${last} steps. Live: ${
    state.live.map((node) => `${quoted(textOf(node))} ${two(node.total)}`).join(", ")}. Finished, by score: ${
    state.finished.map((node) => `${quoted(textOf(node))} ${two(node.score)}`).join(", ") || "none"}.`;

  // Also a node of the tree that is neither a candidate of this step nor finished.
  const named = [...new Set([...state.candidates, ...state.finished, selected])];
  const controls = html`
    <${Select} label="Source sentence" value=${sentence} onInput=${(next) => { setSentence(next); move(0); }}
      options=${searches.map(({ source }, i) => [i, source])} />
    <${Choice} label="Beam" value=${beam} onInput=${(next) => { setBeam(next); move(0); }}
      options=${beams.map((each) => [each.beam, each.beam])} />
    <${Range} label=${html`Penalty <i>α</i>`} value=${alpha} min=${0} max=${2} step=${0.1} digits=${1}
      onInput=${setAlpha} />
    <${Select} label="Selected" value=${named.indexOf(selected)} onInput=${(i) => select(named[i])}
      options=${named.map((node, i) => [i, textOf(node) || "(empty)"])} />
    <${Stepper} label="Step" value=${step} max=${last} onInput=${move} onPlaying=${setPlaying} milliseconds=${1400}
      show=${(n) => `${n} of ${last}`} />`;

  return html`<${Frame} title="The beam tree" controls=${controls} quiet=${playing} status=${status}
    lines=${[3, 7]}
    task=${html`step to the end, and find where the result departs from the greedy path. Then set <i>α</i> to 0.`}
    shows=${html`A candidate extends a live hypothesis by one token. The most probable unfinished candidates are the
      live hypotheses of the next step; the others are pruned (× stands for one of them, ×2 for two). The score of a hypothesis is its
      log-probability divided by the length penalty. Finished hypotheses are compared by their score, which favours longer ones as <i>α</i> grows. The
      search ends when the number of finished hypotheses reaches the beam width, when no live one can reach a higher
      score than the best finished one, or at the maximum length.`}>
    <div class="beam-drawing"><${Views} label="View" together=${true} views=${[
      ["tree", html`<ul class="beam-legend"><li class="beam-key-greedy">greedy</li><li class="beam-key-path">selected</li>
          <li class="beam-key-dead">pruned later</li></ul>
        <${Tree} states=${states} step=${step} beam=${beam} selected=${selected} onSelect=${select} label=${label}
          isGreedy=${({ path }) => greedy.path.startsWith(path)} />`],
      ["candidates", html`<${Candidates} state=${state} step=${step} alpha=${alpha} selected=${selected} onSelect=${select} />`],
      ["finished", html`<${Finished} finished=${state.finished} selected=${selected} onSelect=${select} />`],
    ]} /></div>
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

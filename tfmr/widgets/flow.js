// One sentence on its way through a trained translator, one stage at a time. The stages of one sentence
// are stored in the figure, those of other sentences are computed by tracing.js. tfmr/widgets/flow.py
// computes the same numbers; tests/pages/test_flow_figure.py compares them.

import { BOS, SPECIAL, tokens } from "./bpe.js";
import { lengthPenalty } from "./search.js";
import { BEAM, trace } from "./tracing.js";
import { sinusoidal } from "./transformer.js";
import { SentenceForm, useTranslations } from "./translating.js";
import { html, useLayoutEffect, useMemo, useState } from "./vendor/preact.js";
import { Bars, KINDS, WeightMap, unpack, unpackMaps } from "./weight_map.js";
import { Drawing } from "./lib/chart.js";
import { signedHeat } from "./lib/colour.js";
import { Button, Select } from "./lib/controls.js";
import { count, format, listed } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { clamp, dot } from "./lib/math.js";
import { live, useTrait } from "./lib/model.js";
import { chapterAddress, figureAddress } from "./lib/site.js";
import { anyText, whole } from "./lib/state.js";

/** So many dimensions of a vector are shown as numbers. */
const SHOWN = 5;
/** Pixels of the squares of a map together, and of the strips. */
const MAP = 165;
const STRIPS = 98;
/** Levels of colour in the strips, for each sign. */
const LEVELS = 8;

/** How a component of the stream is stored; see flow.py. */
const [RANGE, ZERO] = [100, 2.3328];

const two = (number) => format(number, 2);
const three = (number) => format(number, 3);
const quoted = (text) => `“${text}”`;
const norm = (vector) => Math.sqrt(dot(vector, vector));
const numbered = (names) => names.map((name, i) => [i, `${i + 1}: ${name}`]);
const firstOf = (n) => Array.from({ length: n }, (_, i) => [i, String(i + 1)]);

/** What the figure shows of the stored sentence; see flow.py. */
function fromStored({ stream, maps, steps, hypotheses, ...stored }) {
  const d = stream[0].length / stored.source.length / 3;
  return {
    ...stored,
    stream: stream.map((packed) =>
      unpack(packed, d).map((vector) => Array.from(vector, (value) => (value - ZERO) * RANGE))),
    maps: unpackMaps(maps, stored.source, stored.target),
    steps: steps.map((top) => top.map(([name, logit, probability]) => ({ name, logit, probability }))),
    hypotheses: hypotheses.map(([text, length, logProb, score]) => ({ text, length, logProb, score })),
  };
}

/** The same of a sentence that the page has translated. */
function fromTrace(text, { model, source, translation }) {
  const nameOf = (id) => tokens(model.tokenizer, [id])[0];
  const { generated, stream, maps, steps, hypotheses } = translation;
  return {
    text, translation: translation.text, ids: source, source: source.map(nameOf), target: generated.map(nameOf),
    stream: stream.map((vectors) => vectors.map((vector) => [...vector])), maps, hypotheses,
    steps: steps.map(({ alternatives }) => alternatives.map(({ id, ...rest }) => ({ name: nameOf(id), ...rest }))),
  };
}

/** The vectors of all tokens as strips: a row for each token, a column for each dimension. */
function Strips({ label, names, vectors, selected, onSelect }) {
  const limit = Math.max(...vectors.flat().map(Math.abs));
  const row = Math.min(22, STRIPS / names.length);
  const columns = vectors[0].length;
  const left = row < 12 ? 1 : 12 + 7.5 * Math.max(...names.map(({ length }) => Math.min(12, length)));
  const draw = (width) => {
    const cell = (width - left - 2) / columns;
    // One path for all squares of a colour.
    const paths = new Map();
    vectors.forEach((vector, i) => vector.forEach((value, c) => {
      const level = Math.round((LEVELS * value) / limit);
      const square = `M${(left + c * cell).toFixed(1)} ${(i * row + 1).toFixed(1)}h${cell.toFixed(1)}v${(row - 2).toFixed(1)}h-${cell.toFixed(1)}z`;
      if (level !== 0) paths.set(level, (paths.get(level) ?? "") + square);
    }));
    return html`
      ${[...paths].map(([level, path]) => html`<path key=${level} d=${path} style=${{ fill: signedHeat(level, LEVELS) }} />`)}
      ${vectors.map((_, i) => html`<g key="r${i}" class="flow-strip" onClick=${() => onSelect(i)}>
        ${row >= 12 && html`<text x=${left - 6} y=${(i + 0.5) * row + 4} text-anchor="end"
          font-weight=${i === selected ? 700 : 400}>${names[i].length > 12 ? `${names[i].slice(0, 11)}…` : names[i]}</text>`}
        <rect x=${left} y=${i * row} width=${columns * cell} height=${row} class=${i === selected ? "tra-selected" : ""} />
      </g>`)}`;
  };
  return html`<div class="flow-strips"><${Drawing} label=${label} height=${STRIPS}>${draw}<//></div>`;
}

/** A small table: `rows` are pairs [name, values]. */
function Numbers({ label, columns, rows, text, colour }) {
  return html`<table class="flow-numbers">
    <caption>${label}</caption>
    <colgroup><col style=${{ inlineSize: `${0.6 + 0.7 * Math.max(...rows.map(([name]) => name.length))}em` }} /></colgroup>
    <thead><tr><td></td>${columns.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, values], i) => html`<tr key=${name}><th scope="row">${name}</th>
      ${values.map((value, j) => html`<td key=${j} class="live-cell" style=${{ background: colour(value, i) }}
        >${text(value, i)}</td>`)}</tr>`)}</tbody>
  </table>`;
}

/** The text field and the tokens. `isOld`: whether the tokens are those of another text. */
function Tokens({ form, shown, isOld }) {
  return html`<div class="flow-columns">${form}
    <div><p class="tra-caption">${isOld && "Old sentence: "}${count(shown.ids.length)} tokens and their ids</p>
      <ol class="tra-chips">${shown.source.map((name, i) => html`<li key=${i}>${name}
        <b>${shown.ids[i]}</b></li>`)}</ol></div>
  </div>`;
}

/** The input of the encoder. */
function Embeddings({ shown, token, setToken }) {
  const [vectors] = shown.stream;
  const d = vectors[0].length;
  const position = sinusoidal(token + 1, d)[token];
  const embedding = vectors[token].map((value, c) => value - position[c]);
  const rows = [["√d·embedding", embedding], ["+ position", [...position]], ["= sum", vectors[token]]];
  return html`
    <${Strips} names=${shown.source} vectors=${vectors} selected=${token} onSelect=${setToken}
      label=${`The sums of embedding and position: a row for each of ${shown.source.length} tokens, a column for each of `
        + `${d} dimensions. ${quoted(shown.source[token])} begins with ${vectors[token].slice(0, 3).map(two).join(", ")}.`} />
    <${Numbers} label=${`${quoted(shown.source[token])}, token ${token + 1}: ${SHOWN} of ${d} dimensions`}
      columns=${firstOf(SHOWN).map(([, name]) => name)} rows=${rows.map(([name, row]) => [name, row.slice(0, SHOWN)])}
      text=${two} colour=${(value) => signedHeat(value, 2)} />`;
}

/** The norms of a token in the encoder, and how its vector changes. */
function changesOf({ stream }, token) {
  const path = stream.map((vectors) => vectors[token]);
  const last = path.length - 1;
  const added = path.map((vector, i) =>
    (i === 0 || i === last ? NaN : norm(vector.map((value, c) => value - path[i - 1][c]))));
  const cosine = path.map((vector) => dot(vector, path[0]) / (norm(vector) * norm(path[0])));
  return [path.map(norm), added, cosine];
}

/** The residual stream of the encoder and its output. */
function EncoderOutput({ shown, token, setToken }) {
  const vectors = shown.stream.at(-1);
  const columns = ["input", ...shown.maps.encoder.map((_, i) => `block ${i + 1}`), "output"];
  return html`
    <${Strips} names=${shown.source} vectors=${vectors} selected=${token} onSelect=${setToken}
      label=${`The encoder output: a row for each of ${vectors.length} tokens, a column for each of ${vectors[0].length} `
        + `dimensions. ${quoted(shown.source[token])} begins with ${vectors[token].slice(0, 3).map(two).join(", ")}.`} />
    <${Numbers} label=${`${quoted(shown.source[token])}: norms, and cosine similarity to the input`}
      columns=${columns} rows=${changesOf(shown, token).map((row, i) => [["norm", "added", "cosine"][i], row])}
      text=${(value, row) => (Number.isNaN(value) ? "–" : format(value, row === 2 ? 2 : 1))}
      colour=${(value, row) => (row === 2 ? signedHeat(value) : "none")} />`;
}

/** The weights of one query, largest first: pairs [key, weight]. */
function weightsOf(shown, kind, block, head, query) {
  const row = shown.maps[kind][block][head][query];
  const keys = namesOf(shown)[kind][1];
  const allowed = kind === "self" ? keys.slice(0, query + 1) : keys;
  return allowed.map((_, j) => j).sort((a, b) => row[b] - row[a]).slice(0, 5).map((j) => [keys[j], row[j]]);
}

/** The names of the queries and keys of each kind of attention, as in heads.js. */
function namesOf({ source, target }) {
  const inputs = [SPECIAL[BOS], ...target.slice(0, -1)];
  return { encoder: [source, source], self: [inputs, inputs], cross: [target, source] };
}

/** The attention weights of a head, and the largest of one query. */
function Attention({ shown, kind, block, head, query, onSelect }) {
  const [queries, keys] = namesOf(shown)[kind];
  const weights = shown.maps[kind][block][head];
  const top = weightsOf(shown, kind, block, head, query);
  return html`<div class=${`flow-columns flow-${kind}`}>
    <${WeightMap} queries=${queries} keys=${keys} weights=${weights} selected=${query} onSelect=${onSelect}
      hue=${KINDS[kind].hue} largest=${Math.min(24, MAP / queries.length)}
      label=${`Map of the attention weights: a row for each of ${queries.length} queries, a column for each of ${
        keys.length} keys. ${quoted(queries[query])} attends most to ${quoted(top[0][0])} (${three(top[0][1])}).`} />
    <${Bars} names=${["key", "weight"]} entries=${top} label=${`The largest weights of ${quoted(queries[query])}`} />
  </div>`;
}

/** The most probable next tokens. */
function Candidates({ candidates, vocabulary }) {
  return html`<table class="tra-bars flow-candidates">
    <caption>The ${candidates.length} most probable of ${count(vocabulary)} tokens</caption>
    <thead><tr><th scope="col">token</th><th scope="col">logit</th><th scope="col">probability</th></tr></thead>
    <tbody>${candidates.map(({ name, logit, probability }, i) => html`<tr key=${i}>
      <th scope="row">${name}</th><td class="flow-logit">${two(logit)}</td>
      <td><span class="tra-track"><span class="tra-bar" style=${{ inlineSize: `${100 * probability}%` }}></span></span>
        <span class="tra-number">${three(probability)}</span></td>
    </tr>`)}</tbody>
  </table>`;
}

/** The hypotheses of beam search. */
function Hypotheses({ shown }) {
  return html`<table class="flow-hypotheses">
    <caption>The ${shown.hypotheses.length} best hypotheses</caption>
    <thead><tr><th scope="col">hypothesis</th><th scope="col">log-prob.</th><th scope="col">score</th></tr></thead>
    <tbody>${shown.hypotheses.map(({ text, logProb, score }, i) => html`<tr key=${i}>
      <th scope="row">${text || "(no token)"}${text === shown.translation && html` <small>(greedy)</small>`}</th>
      <td>${two(logProb)}</td><td>${two(score)}</td></tr>`)}</tbody>
  </table>`;
}

const most = (top) => listed(top.slice(0, 3).map(([key, weight]) => `${quoted(key)} (${three(weight)})`));

const chapterOf = (file) => Number(file.slice(0, 2));

/** The figure of Chapter 13 with the same head. It has stored the maps of a few sentences. */
const oneHead = (kind) => ({ shown: { text }, block, head, elsewhere }) => {
  const example = elsewhere.heads.indexOf(text);
  return ["13-inside-a-trained-model.ipynb", { text, ...(example >= 0 && { example }), kind, block, head },
    `this head${example >= 0 ? "" : "; the sentence is under “Your own sentence”"}`];
};

/**
 * The stages: `name`, `about` (one sentence), `controls` (the names of those that it has), `section`
 * (chapter, anchor and title of the section that explains it), `result(state)` (the numbers of the
 * selected place as a sentence) and, where a figure of a chapter can show the same sentence,
 * `figure(state)` (chapter, values of the figure's traits, and what it shows).
 */
const STAGES = [
  {
    name: "tokens",
    about: "The text is split into tokens of the vocabulary, and each token has an id.",
    controls: ["example"],
    section: ["11-training.ipynb", "tokens", "Tokens"],
    figure: ({ shown: { text } }) => ["11-training.ipynb", { text, word: text.trim().split(/\s+/)[0] },
      "merges learned from this sentence alone"],
    result: ({ shown }) => `${quoted(shown.text)} has ${count(shown.ids.length)} tokens.`,
  },
  {
    name: "embeddings",
    about: "The input is √d times the embedding of the token, plus the vector of its position.",
    controls: ["token"],
    section: ["06-position.ipynb", "adding-positions-to-embeddings", "Adding positions to embeddings"],
    result: ({ shown: { stream: [vectors], source }, token }) => {
      const position = sinusoidal(token + 1, vectors[0].length)[token];
      const embedding = vectors[token].map((value, c) => value - position[c]);
      return `For ${quoted(source[token])}, the vector norm is ${two(norm(embedding))} for √d times the embedding, ${
        two(norm(position))} for the position and ${two(norm(vectors[token]))} for their sum.`;
    },
  },
  {
    name: "encoder heads",
    about: "In each head, a token attends to all source tokens; its weights sum to 1.",
    controls: ["token", "block", "head"],
    section: ["05-multi-head-attention.ipynb", "all-heads-at-once", "All heads at once"],
    figure: oneHead("encoder"),
    result: ({ shown, block, head, token }) =>
      `${quoted(shown.source[token])} attends most to ${most(weightsOf(shown, "encoder", block, head, token))}.`,
  },
  {
    name: "encoder output",
    about: "Each block adds to the residual stream; a final layer norm gives the encoder output.",
    controls: ["token"],
    section: ["08-encoder.ipynb", "the-stack", "The stack"],
    figure: ({ shown: { source, target } }) => ["10-transformer.ipynb",
      { source_length: source.length, target_length: target.length }, "a larger model, with these lengths"],
    result: ({ shown, token }) => {
      const [norms] = changesOf(shown, token);
      const [first, ...blocks] = norms.map((each) => format(each, 1));
      return `The vector of ${quoted(shown.source[token])} has a norm of ${first} at the input, ${
        listed(blocks.slice(0, -1))} after the blocks, and ${blocks.at(-1)} at the output.`;
    },
  },
  {
    name: "decoder heads",
    about: "Each token of the decoder input attends to itself and to the earlier ones; later ones are masked.",
    controls: ["input", "block", "head"],
    section: ["09-decoder.ipynb", "one-sentence-five-predictions", "One sentence, five predictions"],
    figure: oneHead("self"),
    result: ({ shown, block, head, step }) => `The input token ${quoted(namesOf(shown).self[0][step])} attends most to ${
      most(weightsOf(shown, "self", block, head, step))}.`,
  },
  {
    name: "cross-attention",
    about: "Queries come from the decoder; keys and values come from the encoder output.",
    controls: ["step", "block", "head"],
    section: ["09-decoder.ipynb", "cross-attention-by-hand", "Cross-attention by hand"],
    figure: oneHead("cross"),
    result: ({ shown, block, head, step }) => `To generate ${quoted(shown.target[step])}, the decoder attends most to ${
      most(weightsOf(shown, "cross", block, head, step))}.`,
  },
  {
    name: "probabilities",
    about: "Each token of the vocabulary has a logit; the softmax turns all logits into probabilities.",
    controls: ["step"],
    section: ["10-transformer.ipynb", "one-row-per-token", "One row per token"],
    result: ({ shown, step }) => {
      const candidates = shown.steps[step];
      const total = candidates.reduce((sum, { probability }) => sum + probability, 0);
      return `${quoted(candidates[0].name)} has a logit of ${two(candidates[0].logit)} and a probability of ${
        three(candidates[0].probability)}; the total probability of the ${candidates.length} tokens is ${three(total)}.`;
    },
  },
  {
    name: "beam search",
    about: `Beam search keeps ${BEAM} hypotheses; the finished one with the highest score is its result.`,
    controls: [],
    section: ["12-decoding.ipynb", "beam-search", "Beam search"],
    figure: ({ shown: { text }, elsewhere }) => elsewhere.beam.includes(text) && ["12-decoding.ipynb",
      { sentence: elsewhere.beam.indexOf(text), beam: BEAM }, "the search for this sentence"],
    result: ({ shown: { hypotheses: [best], translation } }) => `The best score is ${two(best.logProb)} ÷ ${
      two(lengthPenalty(best.length))} (length penalty for ${best.length} tokens) = ${two(best.score)}. Greedy decoding ${
      best.text === translation ? "agrees" : `finds ${quoted(translation)}`}.`,
  },
];

/** The sections that explain a stage, and the figure that shows its sentence. */
function Links({ stage: { section: [file, anchor, title], figure }, state }) {
  const [other, values, text] = figure?.(state) || [];
  const address = other && figureAddress(other, 1, values);
  return html`<span>Explained in <a href=${`${chapterAddress(file)}#${anchor}`}>Chapter ${chapterOf(file)}: ${title}</a>${
    address ? html`. <a href=${address}>Chapter ${chapterOf(other)}: ${text}</a>` : " (with another example)"}.</span>`;
}

function Flow({ model: widget }) {
  const shipped = widget.get("shipped");
  const stored = useMemo(() => fromStored(widget.get("stored")), []);
  const elsewhere = widget.get("elsewhere");
  const [text, setText] = useTrait(widget, "text");
  const [number, setStage] = useTrait(widget, "stage");
  const [wantedToken, setToken] = useTrait(widget, "token");
  const [wantedStep, setStep] = useTrait(widget, "step");
  const [block, setBlock] = useTrait(widget, "block");
  const [head, setHead] = useTrait(widget, "head");
  const [{ result, message }, setOutcome] = useState({});
  const translations = useTranslations(widget, shipped.name);
  const { activity, isLoaded } = translations;
  // A message is about the sentence; the status line of another selection replaces it.
  useLayoutEffect(() => setOutcome({ result }), [number, wantedToken, wantedStep, block, head]);

  const shown = result ?? stored;
  const token = Math.min(wantedToken, shown.source.length - 1);
  const step = Math.min(wantedStep, shown.target.length - 1);
  const stage = STAGES[number - 1];
  const state = { shown, token, step, block, head, elsewhere };
  const examples = [...new Set([stored.text, ...elsewhere.heads, ...elsewhere.beam])];

  const run = (sentence) => {
    setOutcome({ result });
    translations.run(sentence, trace, (done) => setOutcome(
      done.message ? { result, message: done.message } : { result: fromTrace(sentence, done) }));
  };
  const choose = (next) => {
    translations.drop();
    setText(next);
    const isNew = next !== "" && next !== stored.text;
    const message = isNew ? "The stages are those of the old sentence; load the model to see those of this one."
      : undefined;
    setOutcome(next === stored.text ? {} : { result, message });
    if (isLoaded && isNew) run(next);
  };
  const move = (next) => setStage(clamp(next, 1, STAGES.length));

  const selects = {
    example: html`<${Select} key="example" label="Example" value=${examples.includes(text) ? text : ""} onInput=${choose}
      options=${[["", "your own sentence"], ...examples.map((each) => [each, each])]} />`,
    token: html`<${Select} key="token" label="Source token" value=${token} onInput=${setToken} options=${numbered(shown.source)} />`,
    step: html`<${Select} key="step" label="Output step" value=${step} onInput=${setStep} options=${numbered(shown.target)} />`,
    input: html`<${Select} key="input" label="Input token" value=${step} onInput=${setStep} options=${numbered(namesOf(shown).self[0])} />`,
    block: html`<${Select} key="block" label="Block" value=${block} onInput=${setBlock} options=${firstOf(shown.maps.encoder.length)} />`,
    head: html`<${Select} key="head" label="Head" value=${head} onInput=${setHead} options=${firstOf(shown.maps.encoder[0].length)} />`,
  };
  const form = html`<${SentenceForm} shipped=${shipped} translations=${translations} text=${text} onInput=${setText}
    onRun=${() => run(text)} verb="run" rows=${1} />`;
  const drawings = [
    () => html`<${Tokens} form=${form} shown=${shown} isOld=${text !== shown.text} />`,
    () => html`<${Embeddings} shown=${shown} token=${token} setToken=${setToken} />`,
    () => html`<${Attention} ...${state} kind="encoder" query=${token} onSelect=${setToken} />`,
    () => html`<${EncoderOutput} shown=${shown} token=${token} setToken=${setToken} />`,
    () => html`<${Attention} ...${state} kind="self" query=${step} onSelect=${setStep} />`,
    () => html`<${Attention} ...${state} kind="cross" query=${step} onSelect=${setStep} />`,
    () => html`<${Candidates} candidates=${shown.steps[step]} vocabulary=${shipped.vocabulary} />`,
    () => html`<${Hypotheses} shown=${shown} />`,
  ];
  // The first stage shows the sentence in any case.
  const which = text === shown.text || number === 1 ? `Stage ${number} of ${STAGES.length}` : "Old sentence";
  const status = message ?? activity?.text ?? `${which}: ${stage.result(state)}`;

  const controls = html`
    <div class="flow-steps">
      <${Button} label="Previous" onClick=${() => move(number - 1)} />
      <${Select} label="Stage" value=${number} onInput=${setStage} options=${STAGES.map(({ name }, i) => [i + 1, `${i + 1}: ${name}`])} />
      <${Button} label="Next" onClick=${() => move(number + 1)} />
    </div>
    <div class="flow-selects">${stage.controls.map((name) => selects[name])}</div>
    <p class="flow-about"><span>${stage.about}</span> <${Links} stage=${stage} state=${state} /></p>`;

  return html`<${Frame} above title="From tokens to beam search" controls=${controls} quiet=${activity !== null}
    task=${html`press <i>Next</i> seven times, then type a sentence of your own at stage 1.`}
    shows=${html`The trained German–English translator computes every number. The decoder input is the greedy
      translation; ▁ marks the space before a word. Tokens are numbered from 1, positions from 0. The weights are rounded to 8 bits, so scores
      differ slightly from those of Chapter 12. In stage 4, <i>added</i> is the norm of what a block adds to
      the stream. Nothing that you type leaves your browser.`}
    status=${status}>
    <div class="flow-stage" key=${number} role="group" aria-label=${`Stage ${number}: ${stage.name}`}
      tabindex=${number === STAGES.length ? 0 : undefined}>${drawings[number - 1]()}</div>
  <//>`;
}

export const render = live(Flow, (widget) => {
  const { maps } = widget.get("stored");
  const longest = widget.get("shipped").max_length - 1;
  return {
    text: anyText,
    stage: whole(1, STAGES.length),
    token: whole(0, longest),
    step: whole(0, longest),
    block: whole(0, maps.encoder.length - 1),
    head: whole(0, maps.encoder[0].length - 1),
  };
});

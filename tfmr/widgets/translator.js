// A translator in the page: a trained Transformer translates what a reader types. The model is in
// transformer.js, the searches in search.js, the tokenizer in bpe.js. The model computes in short
// slices of time, so that the page responds meanwhile, also where a page may not start a worker.

import { BOS, SPECIAL, tokens } from "./bpe.js";
import { loadModel } from "./loading.js";
import { encodeSentence, splitCharacters, translate } from "./sentences.js";
import { html, useRef, useState } from "./vendor/preact.js";
import { Button, Choice, Select, useId } from "./lib/controls.js";
import { Drawing } from "./lib/chart.js";
import { heat } from "./lib/colour.js";
import { count, format, listed } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { readModel } from "./weights.js";

/** Milliseconds of computing before the page may respond to the reader. */
const SLICE = 12;
/** Pixels of a square of the map: at most, and at least where tokens are named. */
const LARGEST_CELL = 34;
const SMALLEST_NAMED = 12.5;
/** The kinds of attention: name, and hue of the keys. */
const KINDS = {
  cross: { name: "cross-attention", hue: "encoder" },
  self: { name: "decoder self-attention", hue: "decoder" },
  encoder: { name: "encoder self-attention", hue: "encoder" },
};

/** Models that were loaded on this page, by name: every figure of the page shares them. */
const loaded = new Map();

/** The result of a generator, computed in slices. `onPause` is told what it pauses with. */
async function inSlices(generator, signal, onPause) {
  for (let last = performance.now(); ; ) {
    const { value, done } = generator.next();
    if (done) return value;
    if (performance.now() - last > SLICE) {
      onPause(value);
      await new Promise((resume) => setTimeout(resume));
      last = performance.now();
    }
    signal.throwIfAborted();
  }
}

const megabytes = (bytes) => `${format(bytes / 1e6, 1)} MB`;
const three = (number) => format(number, 3);

/** The text to translate; Enter translates, Shift and Enter begin a line. */
function Sentence({ label, value, language, onInput, onEnter }) {
  const id = useId();
  const key = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    onEnter();
  };
  return html`<div class="tra-sentence">
    <label for=${id}>${label}</label>
    <textarea id=${id} rows="2" lang=${language} value=${value} spellcheck=${false}
      onInput=${(event) => onInput(event.target.value)} onKeyDown=${key}></textarea>
  </div>`;
}

/** The largest of a few values as a table with bars: `entries` are pairs [name, value]. */
function Bars({ label, names, entries }) {
  return html`<table class="tra-bars">
    <caption>${label}</caption>
    <thead><tr><th scope="col">${names[0]}</th><th scope="col">${names[1]}</th></tr></thead>
    <tbody>${entries.map(([name, value], i) => html`<tr key=${i}>
      <th scope="row">${name}</th>
      <td><span class="tra-track"><span class="tra-bar" style=${{ inlineSize: `${100 * value}%` }}></span></span>
        <span class="tra-number">${three(value)}</span></td>
    </tr>`)}</tbody>
  </table>`;
}

/** Attention weights as squares: a row for each query, a column for each key. */
function WeightMap({ label, queries, keys, weights, selected, onSelect, hue }) {
  const shorten = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
  const room = (names) => 12 + 7.5 * Math.max(...names.map((name) => shorten(name).length));
  const [left, top] = [room(queries), room(keys)];
  const cellOf = (width) => Math.min(LARGEST_CELL, (width - left - 2) / keys.length);
  const [height, setHeight] = useState(300);
  const draw = (width) => {
    const cell = cellOf(width);
    const next = Math.ceil(top + cell * queries.length + 4);
    if (next !== height) queueMicrotask(() => setHeight(next));
    const named = cell >= SMALLEST_NAMED;
    return html`
      ${named && keys.map((name, j) => html`<text key="k${j}"
        transform="translate(${left + (j + 0.5) * cell + 4} ${top - 6}) rotate(-90)">${shorten(name)}</text>`)}
      ${queries.map((name, i) => html`<g key="q${i}" class="tra-row" onClick=${() => onSelect(i)}>
        ${named && html`<text x=${left - 6} y=${top + (i + 0.5) * cell + 4} text-anchor="end"
          font-weight=${i === selected ? 700 : 400}>${shorten(name)}</text>`}
        <rect class="tra-ground" x=${left} y=${top + i * cell} width=${cell * keys.length} height=${cell} />
        ${[...weights[i]].map((weight, j) => weight >= 0.01 && html`<rect key=${j}
          x=${left + j * cell + 0.5} y=${top + i * cell + 0.5} width=${cell - 1} height=${cell - 1}
          style=${{ fill: heat(weight, 1, hue) }} />`)}
      </g>`)}
      <rect class="tra-selected" x=${left} y=${top + selected * cell} width=${cell * keys.length} height=${cell} />`;
  };
  return html`<${Drawing} label=${label} height=${height}>${draw}<//>`;
}

/** Everything about a translation: tokens, alternatives, attention. */
function Result({ result, config }) {
  const { sourceNames, targetNames, steps, maps } = result;
  const [target, setTarget] = useState(0);
  const [source, setSource] = useState(0);
  const [kind, setKind] = useState("cross");
  const [block, setBlock] = useState(config.n_decoder - 1);
  const [head, setHead] = useState(0);
  const ofEncoder = kind === "encoder";
  const blocks = ofEncoder ? config.n_encoder : config.n_decoder;
  const layer = Math.min(block, blocks - 1);
  const numbers = (n) => Array.from({ length: n }, (_, i) => [i, String(i + 1)]);
  const named = (names) => names.map((name, i) => [i, name]);
  // The query at a decoder position belongs to its input token and predicts the next token.
  const inputs = [SPECIAL[BOS], ...targetNames.slice(0, -1)];
  const [queries, keys] = {
    encoder: [sourceNames, sourceNames],
    self: [inputs, inputs],
    cross: [targetNames, sourceNames],
  }[kind];
  const selected = ofEncoder ? source : target;
  const weights = maps[kind][layer][head];
  const row = weights[selected];
  const order = keys.map((_, j) => j).sort((a, b) => row[b] - row[a]);
  const place = `${KINDS[kind].name}, layer ${layer + 1}, head ${head + 1}`;
  const { probability, alternatives } = steps[target];
  return html`
    <div class="tra-tokens"><p class="tra-legend">Source: ${count(sourceNames.length)} tokens</p>
      <ul class="tra-source">${sourceNames.map((name, i) => html`<li key=${i}>${name}</li>`)}</ul></div>
    <div class="tra-tokens"><${Choice} label=${`Generated: ${count(targetNames.length)} tokens; select one`}
      value=${target} onInput=${setTarget} options=${named(targetNames)} /></div>
    <div class="tra-alternatives"><${Bars} entries=${alternatives} names=${["token", "probability"]}
      label=${`The most probable tokens at position ${target + 1}, where “${targetNames[target]}” (${three(probability)}) was generated`} /></div>
    <div class="live-controls tra-place">
      <${Choice} label="Attention" value=${kind} onInput=${setKind}
        options=${Object.entries(KINDS).map(([each, { name }]) => [each, name])} />
      <${Choice} label="Layer" value=${layer} onInput=${setBlock} options=${numbers(blocks)} />
      <${Choice} label="Head" value=${head} onInput=${setHead} options=${numbers(config.n_heads)} />
    </div>
    ${ofEncoder && html`<div class="tra-tokens"><${Choice} label="Query" value=${source} onInput=${setSource}
      options=${named(sourceNames)} /></div>`}
    <div class="live-columns">
      <${WeightMap} queries=${queries} keys=${keys} weights=${weights} selected=${selected}
        onSelect=${ofEncoder ? setSource : setTarget} hue=${KINDS[kind].hue}
        label=${`Map of the weights of ${place}: a row for each of ${queries.length} queries, a column for each of `
          + `${keys.length} keys. “${queries[selected]}” attends most to “${keys[order[0]]}” (${three(row[order[0]])}).`} />
      <div class="tra-weights"><${Bars} names=${["key", "weight"]}
        entries=${order.slice(0, 5).map((j) => [keys[j], row[j]])}
        label=${`The largest weights of the query “${queries[selected]}”: ${place}`} /></div>
    </div>`;
}

function Translator({ model: widget }) {
  const models = widget.get("models");
  const [name, setName] = useTrait(widget, "name");
  const [text, setText] = useTrait(widget, "text");
  const [beam, setBeam] = useTrait(widget, "beam");
  const [, setTranslation] = useTrait(widget, "translation");
  const [activity, setActivity] = useState(null);
  const [outcome, setOutcome] = useState({});
  const running = useRef(null);
  const chosen = models.find((each) => each.name === name);
  const isLoaded = loaded.has(name);
  const { result, message, status } = outcome;

  const stop = () => running.current?.abort(new Error("Cancelled."));
  const choose = (next) => {
    stop();
    setName(next);
    setText(models.find((each) => each.name === next).examples[0]);
    setOutcome({});
  };

  async function run(sentence) {
    stop();
    const control = new AbortController();
    running.current = control;
    const { signal } = control;
    const current = () => running.current === control;
    const show = (next) => current() && setActivity(next);
    setOutcome({});
    try {
      if (!loaded.has(name)) {
        show({ text: "Loading the model", bytes: 0 });
        const onProgress = (bytes) => show({ text: "Loading the model", bytes });
        const content = await loadModel(widget, name, { signal, onProgress });
        signal.throwIfAborted();
        loaded.set(name, readModel(content));
      }
      const model = loaded.get(name);
      const source = encodeSentence(model, sentence);
      const start = performance.now();
      const onPause = (prefix) => show({ text: `Translating: ${prefix}` });
      const translation = await inSlices(translate(model, source, { beam }), signal, onPause);
      const seconds = (performance.now() - start) / 1000;
      setTranslation(translation.text);
      setOutcome(describe(model, sentence, source, translation, seconds));
    } catch (error) {
      if (current()) setOutcome({ message: error.message });
    }
    if (current()) setActivity(null);
  }

  const controls = html`
    <${Select} label="Languages" value=${name} onInput=${choose}
      options=${models.map((each) => [each.name, each.title])} />
    <${Select} label="Example" value=${chosen.examples.includes(text) ? text : ""} onInput=${setText}
      options=${[["", "your own sentence"], ...chosen.examples.map((each) => [each, each])]} />
    <${Choice} label="Search" value=${beam} onInput=${setBeam} options=${[[1, "greedy"], [4, "beam of 4"]]} />`;

  return html`<${Frame} title="A translator in your browser" controls=${controls} quiet=${activity !== null}
    task=${html`translate an example, select a generated token, and see what else the model could have generated
      there. Then type a sentence of your own: ${chosen.about}`}
    shows="The encoder maps the source tokens to vectors, and the decoder generates the translation token by token (▁ is
      the space before a word). The trained model computes all this in your browser; nothing that you type leaves it."
    status=${message ?? status ?? (activity ? activity.text : "No translation yet.")}>
    <div class="tra-input">
      <${Sentence} label=${`Sentence in ${chosen.source}`} value=${text} language=${chosen.codes[0]}
        onInput=${setText} onEnter=${() => run(text)} />
      <div class="tra-actions">
        <${Button} label=${isLoaded ? "Translate" : `Load the model (${megabytes(chosen.bytes)}) and translate`}
          onClick=${() => run(text)} />
        ${activity && html`<${Button} label="Cancel" onClick=${stop} />`}
      </div>
      ${activity?.bytes !== undefined && html`<p class="tra-progress">
        <progress aria-label="Loading the model" max=${chosen.bytes} value=${activity.bytes}></progress>
        ${megabytes(activity.bytes)} of ${megabytes(chosen.bytes)}</p>`}
    </div>
    ${result && html`<p class="tra-translation" lang=${chosen.codes[1]}>${result.text || "(no token)"}</p>
      ${result.notes.map((note) => html`<p class="tra-note" key=${note}>${note}</p>`)}
      <${Result} key=${result.key} result=${result} config=${loaded.get(name).model.config} />`}
  <//>`;
}

let made = 0;

/** What the figure shows of a translation. */
function describe(model, sentence, source, { generated, text, finished, steps, maps }, seconds) {
  const { tokenizer } = model;
  const nameOf = (id) => tokens(tokenizer, [id])[0];
  const notes = [];
  const split = splitCharacters(model, sentence);
  if (split.length > 0) {
    const named = split.slice(0, 8).map((each) => `“${each}”`);
    notes.push(`The vocabulary has no token for ${listed(split.length > 8 ? [...named, "others"] : named)}. Such
      characters are encoded as single bytes, which are rare in the training data.`);
  }
  if (!finished) {
    notes.push("The model did not generate the end-of-sentence token: the translation is cut off at its maximum "
      + "length.");
  }
  made += 1;
  const result = {
    key: made,
    text,
    notes,
    maps,
    sourceNames: source.map(nameOf),
    targetNames: generated.map(nameOf),
    steps: steps.map(({ probability, alternatives }) => ({
      probability,
      alternatives: alternatives.map((each) => [nameOf(each.id), each.probability]),
    })),
  };
  const status = `The translation is “${text}”: ${count(source.length)} source tokens and `
    + `${count(generated.length)} generated tokens in ${format(seconds, 2)} seconds.`;
  return { result, status };
}

export const render = live(Translator, ["name", "text", "beam"]);

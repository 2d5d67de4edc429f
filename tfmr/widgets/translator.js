// A translator in the page: a trained Transformer translates what a reader types. The model is in
// transformer.js, the searches in search.js, the tokenizer in bpe.js.

import { BOS, SPECIAL, tokens } from "./bpe.js";
import { splitCharacters, translate } from "./sentences.js";
import { SentenceForm, megabytes, useTranslations } from "./translating.js";
import { html, useState } from "./vendor/preact.js";
import { Bars, KINDS, WeightMap, unpackMaps } from "./weight_map.js";
import { heat } from "./lib/colour.js";
import { Choice, Select, Views } from "./lib/controls.js";
import { count, format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { anyText, oneOf } from "./lib/state.js";

const three = (number) => format(number, 3);
const named = (names) => names.map((name, i) => [i, name]);

/** Everything about a translation: tokens, alternatives, attention. */
function Result({ result }) {
  const { sourceNames, targetNames, steps, maps } = result;
  const [target, setTarget] = useState(0);
  const [source, setSource] = useState(0);
  const [kind, setKind] = useState("cross");
  const [block, setBlock] = useState(maps.cross.length - 1);
  const [head, setHead] = useState(0);
  const ofEncoder = kind === "encoder";
  const layer = Math.min(block, maps[kind].length - 1);
  const numbers = (n) => Array.from({ length: n }, (_, i) => [i, String(i + 1)]);
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
  const place = `${KINDS[kind].name}, block ${layer + 1}, head ${head + 1}`;
  const { probability, alternatives } = steps[target];
  const alternativesView = html`<div class="tra-alternatives"><${Bars} entries=${alternatives} names=${["token", "probability"]}
    label=${`The most probable tokens at position ${target + 1}, where “${targetNames[target]}” (${three(probability)}) was generated`} /></div>`;
  const attentionView = html`
    <div class="live-controls tra-place">
      <${Select} label="Attention" value=${kind} onInput=${setKind}
        options=${Object.entries(KINDS).map(([each, { name }]) => [each, name])} />
      <${Select} label="Block" value=${layer} onInput=${setBlock} options=${numbers(maps[kind].length)} />
      <${Select} label="Head" value=${head} onInput=${setHead} options=${numbers(maps[kind][layer].length)} />
      ${ofEncoder && html`<${Select} label="Query" value=${source} onInput=${setSource} options=${named(sourceNames)} />`}
    </div>
    <div class="tra-map">
      <${WeightMap} queries=${queries} keys=${keys} weights=${weights} selected=${selected} largest=${22}
        onSelect=${ofEncoder ? setSource : setTarget} hue=${KINDS[kind].hue}
        label=${`Map of the attention weights of ${place}: a row for each of ${queries.length} queries, a column for each of `
          + `${keys.length} keys. “${queries[selected]}” attends most to “${keys[order[0]]}” (${three(row[order[0]])}).`} />
      <div class="tra-weights"><${Bars} names=${["key", "weight"]}
        entries=${order.slice(0, 5).map((j) => [keys[j], row[j]])}
        label=${`The largest weights of “${queries[selected]}”`} /></div>
    </div>`;
  return html`
    <div class="tra-tokens"><${Choice} label=${`Generated: ${count(targetNames.length)} tokens; select one`}
      value=${target} onInput=${setTarget} options=${named(targetNames)} /></div>
    <${Views} label="View" views=${[["alternatives", alternativesView], ["attention", attentionView]]} />`;
}

/** Of a brief figure: where one generated token attends in the source. */
function Sources({ result: { sourceNames, targetNames, weights }, target, onSelect }) {
  return html`
    <div class="tra-tokens"><${Choice} label="Generated tokens; select one" value=${target} onInput=${onSelect}
      options=${named(targetNames)} /></div>
    <div><p class="tra-caption">Attention weights of “${targetNames[target]}”</p>
      <ol class="tra-chips">${sourceNames.map((name, i) => html`<li key=${i}
        style=${{ background: heat(weights[target][i], 1, "encoder") }}>${name} <b>${three(weights[target][i])}</b></li>`)}</ol></div>`;
}

function Translator({ model: widget }) {
  const models = widget.get("models");
  const [name, setName] = useTrait(widget, "name");
  const [text, setText] = useTrait(widget, "text");
  const [beam, setBeam] = useTrait(widget, "beam");
  const [, setTranslation] = useTrait(widget, "translation");
  const [isBrief, stored] = ["brief", "stored"].map((trait) => widget.get(trait));
  const isStored = (own, sentence) => stored?.name === own && stored.text === sentence;
  const firstOf = (own, sentence) => (isStored(own, sentence) && beam === 1 ? fromStored(stored, isBrief) : {});
  const [outcome, setOutcome] = useState(() => firstOf(name, text));
  const [wantedTarget, setTarget] = useState(1);
  const translations = useTranslations(widget, name);
  const chosen = models.find((each) => each.name === name);
  const { result, message, status } = outcome;
  const { activity } = translations;

  const choose = (next) => {
    translations.drop();
    const [example] = models.find((each) => each.name === next).examples;
    setName(next);
    setText(example);
    setOutcome(firstOf(next, example));
  };
  const run = (sentence) => {
    // A brief figure shows its last result meanwhile.
    setOutcome(isBrief ? { result } : {});
    translations.run(sentence, (model, source) => translate(model, source, beam), (done) => {
      if (!done.message) setTranslation(done.translation.text);
      // Without a model, what a brief figure shows stays.
      setOutcome(done.message ? { message: done.message, result: isBrief && !done.isLoaded ? result : undefined }
        : describe(sentence, done, chosen.min_probability));
    });
  };
  const sentences = [...new Set([...(stored?.name === name ? [stored.text] : []), ...chosen.examples])];
  const chooseExample = (next) => {
    if (next === "") translations.abandon();
    setText(next);
    if (isBrief && next !== "") run(next);
  };

  const examples = html`<${Select} label="Example" value=${sentences.includes(text) ? text : ""} onInput=${chooseExample}
    options=${[["", "your own sentence"], ...sentences.map((each) => [each, each])]} />`;
  const form = html`<${SentenceForm} shipped=${chosen} translations=${translations} text=${text} onInput=${setText}
    onRun=${() => run(text)} verb="translate" rows=${isBrief ? 1 : 2} isAsked=${!isBrief} />`;
  const translation = result && html`<p class="tra-translation" lang=${chosen.codes[1]}>${result.text || "(no token)"}</p>
    ${result.notes.map((note) => html`<p class="tra-note" key=${note}>${note}</p>`)}`;
  const quiet = activity !== null;
  const current = activity?.text ?? message;

  if (isBrief) {
    const target = Math.min(wantedTarget, (result?.targetNames.length ?? 1) - 1);
    const loadEarly = () => {
      if (translations.isLoaded) return;
      setOutcome((before) => ({ result: before.result }));
      translations.prepare(({ message: failure }) => setOutcome((before) => ({ ...before, message: failure })));
    };
    const select = (next) => {
      setTarget(next);
      setOutcome({ result });
    };
    return html`<${Frame} title="A small translator" quiet=${quiet} lines=${[2, 3]}
      controls=${html`<div class="tra-early" onFocusCapture=${loadEarly}>${examples}${form}</div>`}
      task="select a generated token to see where it attends; then change the sentence."
      shows=${html`A trained Transformer translates in your browser (${chosen.title}). The figure loads it (${megabytes(chosen.bytes)})
        when you begin to use a control; nothing that you type leaves the browser. The weights are those of the
        cross-attention in the last decoder block, at the position that generates the token, as a mean over the heads. ${chosen.about[0].toUpperCase()}${chosen.about.slice(1)}
        ${stored.words.length > 0 && `They contain these ${count(stored.words.length)} words: ${stored.words.join(", ")}.`}`}
      status=${current ?? (result ? sentenceOf(result, target) : "No translation yet.")}>
      <div class="tra-result tra-brief" tabindex="0" role="group" aria-label="Translation, scrollable">
        ${result ? html`${translation}<${Sources} result=${result} target=${target} onSelect=${select} />`
        : html`<p class="tra-legend">The translation and its attention weights will appear
          here. <i>What it shows</i> lists the words of its vocabulary.</p>`}
      </div>
    <//>`;
  }

  const controls = html`
    <${Select} label="Languages" value=${name} onInput=${choose}
      options=${models.map((each) => [each.name, each.title])} />
    ${examples}
    <${Choice} label="Search" value=${beam} onInput=${setBeam} options=${[[1, "greedy"], [4, "beam of 4"]]} />
    ${form}`;

  return html`<${Frame} title="A translator in your browser" controls=${controls} quiet=${quiet} lines=${[2, 4]}
    task="translate an example, and select a generated token to see its alternatives."
    shows=${html`You can also type a sentence of your own; ${chosen.about} The encoder maps the source tokens to vectors, and the decoder generates the translation token by token (▁ marks
      the space before a word). The first translation is stored; the trained model computes all others in your browser. Nothing that you type leaves it.`}
    status=${current ?? status ?? "No translation yet."}>
    <div class="tra-result" tabindex="0" role="group" aria-label="Translation, scrollable">
      ${result ? html`${translation}<${Result} key=${result.key} result=${result} />`
      : html`<p class="tra-legend">The translation, the most probable tokens at each position and the attention weights
        will appear here.</p>`}
    </div>
  <//>`;
}

/** What the figure shows of its stored translation; see translator.py. */
function fromStored({ translation, source, target, weights, steps, maps }, isBrief) {
  const result = { key: 0, text: translation, notes: [], sourceNames: source, targetNames: target };
  if (isBrief) return { result: { ...result, weights } };
  return {
    result: { ...result, maps: unpackMaps(maps, source, target),
      steps: steps.map((alternatives) => ({ probability: alternatives[0][1], alternatives })) },
    status: `The stored translation is “${translation}”: ${countsOf(result)}.`,
  };
}

/** The lengths of a sentence and of its translation. */
const countsOf = ({ sourceNames, targetNames }) =>
  `${count(sourceNames.length)} source tokens and ${count(targetNames.length)} generated tokens`;

/** How the status line begins; a note is a reason to doubt the translation. */
const opening = (notes) => (notes.length > 0 ? "Doubtful: the" : "The");

/** The status line of a brief figure. */
function sentenceOf({ text, notes, sourceNames, targetNames, weights }, target) {
  const row = weights[target];
  const [keys] = ranking(row, 3);
  return `${opening(notes)} translation is “${text}”, and “${targetNames[target]}” `
    + `attends most to ${listed(keys.map((j) => `“${sourceNames[j]}”`))} (${three(row[keys[0]])}${keys.length > 1 ? " each" : ""}).`;
}

let made = 0;

/** What the figure shows of a translation; see ShippedModel in translator.py for `min_probability`. */
function describe(sentence, { model, source, translation, seconds }, leastProbability) {
  const { tokenizer } = model;
  const { generated, text, finished, steps, maps } = translation;
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
  const probability = Math.exp(steps.reduce((sum, step) => sum + Math.log(step.probability), 0) / steps.length);
  if (probability < leastProbability) {
    notes.push(`The geometric mean of the token probabilities is ${three(probability)}; for more than 95 % of the test
      sentences it is at least ${format(leastProbability, 2)}. A low probability can mean that the sentence is unlike those of the training set.`);
  }
  const heads = maps.cross.at(-1);
  made += 1;
  const result = {
    key: made,
    weights: heads[0].map((row, i) =>
      Array.from(row, (_, j) => heads.reduce((sum, head) => sum + head[i][j], 0) / heads.length)),
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
  const status = `${opening(notes)} translation is “${text}”: ${countsOf(result)} in ${format(seconds, 2)} seconds.`;
  return { result, status };
}

export const render = live(Translator, (widget) => ({
  name: oneOf(widget.get("models").map(({ name }) => name)),
  text: anyText,
  beam: oneOf(widget.get("brief") ? [1] : [1, 4]),
}));

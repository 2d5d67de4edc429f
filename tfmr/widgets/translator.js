// A translator in the page: a trained Transformer translates what a reader types. The model is in
// transformer.js, the searches in search.js, the tokenizer in bpe.js.

import { BOS, SPECIAL, tokens } from "./bpe.js";
import { splitCharacters, translate } from "./sentences.js";
import { SentenceForm, useTranslations } from "./translating.js";
import { html, useState } from "./vendor/preact.js";
import { Bars, KINDS, WeightMap } from "./weight_map.js";
import { Choice, Select, Views } from "./lib/controls.js";
import { count, format, listed } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { anyText, oneOf } from "./lib/state.js";

const three = (number) => format(number, 3);

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
  const place = `${KINDS[kind].name}, block ${layer + 1}, head ${head + 1}`;
  const { probability, alternatives } = steps[target];
  const alternativesView = html`<div class="tra-alternatives"><${Bars} entries=${alternatives} names=${["token", "probability"]}
    label=${`The most probable tokens at position ${target + 1}, where “${targetNames[target]}” (${three(probability)}) was generated`} /></div>`;
  const attentionView = html`
    <div class="live-controls tra-place">
      <${Select} label="Attention" value=${kind} onInput=${setKind}
        options=${Object.entries(KINDS).map(([each, { name }]) => [each, name])} />
      <${Select} label="Block" value=${layer} onInput=${setBlock} options=${numbers(blocks)} />
      <${Select} label="Head" value=${head} onInput=${setHead} options=${numbers(config.n_heads)} />
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

function Translator({ model: widget }) {
  const models = widget.get("models");
  const [name, setName] = useTrait(widget, "name");
  const [text, setText] = useTrait(widget, "text");
  const [beam, setBeam] = useTrait(widget, "beam");
  const [, setTranslation] = useTrait(widget, "translation");
  const [outcome, setOutcome] = useState({});
  const translations = useTranslations(widget, name);
  const chosen = models.find((each) => each.name === name);
  const { result, message, status } = outcome;
  const { activity } = translations;

  const choose = (next) => {
    translations.drop();
    setName(next);
    setText(models.find((each) => each.name === next).examples[0]);
    setOutcome({});
  };
  const run = () => {
    setOutcome({});
    translations.run(text, (model, source) => translate(model, source, beam), (done) => {
      if (!done.message) setTranslation(done.translation.text);
      setOutcome(done.message ? done : describe(text, done));
    });
  };

  const controls = html`
    <${Select} label="Languages" value=${name} onInput=${choose}
      options=${models.map((each) => [each.name, each.title])} />
    <${Select} label="Example" value=${chosen.examples.includes(text) ? text : ""} onInput=${setText}
      options=${[["", "your own sentence"], ...chosen.examples.map((each) => [each, each])]} />
    <${Choice} label="Search" value=${beam} onInput=${setBeam} options=${[[1, "greedy"], [4, "beam of 4"]]} />
    <${SentenceForm} shipped=${chosen} translations=${translations} text=${text} onInput=${setText}
      onRun=${run} verb="translate" />`;

  return html`<${Frame} title="A translator in your browser" controls=${controls} quiet=${activity !== null}
    lines=${[2, 4]}
    task="translate an example, and select a generated token to see its alternatives."
    shows=${html`You can also type a sentence of your own; ${chosen.about} The encoder maps the source tokens to vectors, and the decoder generates the translation token by token (▁ marks
      the space before a word). The trained model computes all this in your browser; nothing that you type leaves it.`}
    status=${message ?? status ?? (activity ? activity.text : "No translation yet.")}>
    <div class="tra-result" tabindex="0" role="group" aria-label="Translation, scrollable">
      ${result ? html`<p class="tra-translation" lang=${chosen.codes[1]}>${result.text || "(no token)"}</p>
        ${result.notes.map((note) => html`<p class="tra-note" key=${note}>${note}</p>`)}
        <${Result} key=${result.key} result=${result} config=${result.config} />`
      : html`<p class="tra-legend">The translation, the most probable tokens at each position and the attention weights
        will appear here.</p>`}
    </div>
  <//>`;
}

let made = 0;

/** What the figure shows of a translation. */
function describe(sentence, { model, source, translation, seconds }) {
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
  made += 1;
  const result = {
    key: made,
    config: model.model.config,
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

export const render = live(Translator, (widget) => ({
  name: oneOf(widget.get("models").map(({ name }) => name)),
  text: anyText,
  beam: oneOf([1, 4]),
}));

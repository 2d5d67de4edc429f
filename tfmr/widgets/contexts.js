// One word in two contexts: how similar its vectors are after each block of a trained encoder.
// tfmr/widgets/contexts.py computes the numbers.

import { html, useMemo } from "./vendor/preact.js";
import { unpack } from "./weight_map.js";
import { LineChart, Readings } from "./lib/chart.js";
import { Range, Select } from "./lib/controls.js";
import { format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { oneOf, whole } from "./lib/state.js";

const LOOKS = [
  { hue: "orange" },
  { hue: "blue", dash: "7 3" },
  { hue: "green", dash: "2 3" },
  { hue: "purple", dash: "9 3 2 3" },
];

const three = (value) => format(value, 3);
const wordOf = (example) => example.words[0].name;

function Contexts({ model }) {
  const examples = model.get("examples");
  const places = model.get("places");
  const [word, setWord] = useTrait(model, "word");
  const [first, setFirst] = useTrait(model, "first");
  const [second, setSecond] = useTrait(model, "second");
  const [place, setPlace] = useTrait(model, "place");

  const example = examples.find((each) => wordOf(each) === word);
  const { contexts } = example;
  const options = contexts.map((context, i) => [i, context]);
  // For each pair of contexts, the cosines at all places.
  const words = useMemo(() => example.words.map((each) =>
    ({ ...each, cosines: unpack(each.cosines, places.length).map((row) => [...row]) })), [word]);
  const path = ({ cosines }) => cosines[first * contexts.length + second];
  const at = words.map((each) => path(each)[place]);
  // The axis has room for all contexts, so that the curves can be compared while they change.
  const least = Math.min(...words.flatMap(({ cosines }) => cosines.flat()));
  const chart = {
    x: { label: "place in the encoder", min: 0, max: places.length - 1, count: 4, show: (i) => places[i] },
    y: { label: "cosine between the two vectors of a word", min: Math.floor(least * 50) / 50, max: 1 },
    lines: words.map((each, i) => ({ ...LOOKS[i], name: each.name, dots: true, points: path(each).map((y, x) => [x, y]) })),
    marks: at.map((y) => ({ x: place, y })),
  };
  const filled = { context: html`<b>${contexts[first]}</b> / <b>${contexts[second]}</b>`, word: html`<b>${word}</b>` };
  const sentence = example.sentence.split(/[{}]/).map((part) => filled[part] ?? part);

  const [own, ...others] = at;
  const [low, high] = [Math.min(...others), Math.max(...others)];
  const compared = [first, second].map((i) => `${contexts[i]} (“${words[0].translations[i]}”)`).join(" and ");
  const status = first === second
    ? "This is the same sentence twice, so every cosine is 1."
    : `${places[place][0].toUpperCase()}${places[place].slice(1)}: ${word} with ${compared}: cosine ${three(own)}, controls ${
      low === high ? three(low) : `${three(low)} to ${three(high)}`}.`;

  const controls = html`
    <${Select} label="Context 1" value=${first} onInput=${setFirst} options=${options} />
    <${Select} label="Context 2" value=${second} onInput=${setSecond} options=${options} />
    <${Select} label="Word" value=${word} onInput=${setWord} options=${examples.map((each) => [wordOf(each), wordOf(each)])} />
    <${Range} label="After" value=${place} min=${0} max=${places.length - 1} onInput=${setPlace} show=${(i) => places[i]} />`;

  return html`<${Frame} title="A word in context" controls=${controls} lines=${[2, 3]}
    task="select other contexts and words."
    shows=${html`The trained German–English translator, with weights rounded to 8 bits, encodes both sentences. A line shows the cosine between the two
      vectors of a word: the embeddings with their positions, the vectors after each block, and the encoder outputs,
      which are the output of the last block after a layer norm. Drag on the chart to select one of these places. The embeddings are
      equal, so every line begins at 1; the vertical axis does not begin at 0. The controls are words that the model
      translates in the same way in all contexts: two replace the selected word, and <i>Mann</i> (man) is the subject of
      its sentences. <i>Schläger</i> is a racket or a bat, <i>Platz</i> a court, a field or a square; <i>trägt</i> means
      wears or carries, here a hat (<i>Mütze</i>), a ladder (<i>Leiter</i>), a jacket, a mask, a bag (<i>Tasche</i>) or a guitar.
      The model’s translations are not always correct: it translates a golf club as “bat” and a golf course as “court”.`}
    status=${status}>
    <p class="con-sentences" lang="de">${sentence}</p>
    <${LineChart} label=${`Cosine between the vectors of a word in the contexts ${contexts[first]} and ${contexts[second]}, from the embedding to the output. ${
      words.map((each) => `${each.name}: ${path(each).map(three).join(", ")}`).join("; ")}.`} ...${chart}
      onPick=${(x) => setPlace(Math.round(x))} legend=${false} height=${(width) => (width < 360 ? 150 : 210)} />
    <${Readings} caption=${`After: ${places[place]}`} columns=${["word", "cosine", contexts[first], contexts[second]]}
      rows=${words.map(({ name, translations }, i) => ({ ...LOOKS[i], name,
        cells: [three(at[i]), translations[first], translations[second]] }))} />
  <//>`;
}

export const render = live(Contexts, (model) => {
  const examples = model.get("examples");
  const context = whole(0, examples[0].contexts.length - 1);
  return {
    word: oneOf(examples.map(wordOf)),
    first: context,
    second: context,
    place: whole(0, model.get("places").length - 1),
  };
});

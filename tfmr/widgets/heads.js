// The attention heads of a trained translator side by side. The maps of a few sentences are stored in
// the figure, those of other sentences are computed by transformer.js. tfmr/widgets/heads.py has the
// same measures; tests/pages/test_heads_figure.py compares the numbers.

import { BOS, SPECIAL, tokens } from "./bpe.js";
import { translate } from "./sentences.js";
import { SentenceForm, useTranslations } from "./translating.js";
import { html, useLayoutEffect, useMemo, useState } from "./vendor/preact.js";
import { Bars, KINDS, WeightMap, unpack } from "./weight_map.js";
import { Choice, Select, useId, Views } from "./lib/controls.js";
import { heat } from "./lib/colour.js";
import { format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { anyText, flag, oneOf, whole } from "./lib/state.js";

const ORDER = ["encoder", "self", "cross"];

/** The query that is shown first: “Park”, which has a previous token. */
const FIRST_QUERY = 4;

/** Heads to begin with, and what the chapter has measured of each. */
const GUIDE = [
  { name: "previous token", kind: "encoder", block: 1, head: 2,
    says: "Half of its weight is on the previous token. Removing it raises the loss most." },
  { name: "first token", kind: "self", block: 1, head: 3,
    says: "0.37 of its weight is on the first token, compared with 0.24 for uniform attention." },
  { name: "diffuse", kind: "self", block: 0, head: 0,
    says: "Its weights are spread over many tokens, yet removing it raises the loss by 0.041 nats." },
  { name: "word alignment", kind: "cross", block: 2, head: 0,
    says: "It aligns 18 of the chapter's 19 pairs of words, more than any other head." },
];

/**
 * What a pair of a query i and a key j contributes to the mean over the queries of a head. `least`:
 * the status line names the head with the smallest value instead of the largest.
 */
const MEASURES = {
  previous: { name: "weight on the previous token", kinds: ["encoder", "self"], of: (w, i, j) => (j === i - 1 ? w : 0) },
  own: { name: "weight on the query's own token", kinds: ["encoder", "self"], of: (w, i, j) => (j === i ? w : 0) },
  next: { name: "weight on the next token", kinds: ["encoder"], of: (w, i, j) => (j === i + 1 ? w : 0) },
  first: { name: "weight on the first token", kinds: ORDER, of: (w, i, j) => (j === 0 ? w : 0) },
  last: { name: "weight on the last token", kinds: ["encoder", "cross"], of: (w, i, j, last) => (j === last ? w : 0) },
  distance: { name: "distance in tokens", kinds: ["encoder", "self"], least: true, of: (w, i, j) => w * Math.abs(i - j) },
  entropy: { name: "entropy in nats", kinds: ORDER, least: true, of: (w) => (w > 0 ? -w * Math.log(w) : 0) },
};

/** A measure of one head: the mean over its queries. */
function valueOf(measure, weights) {
  let total = 0;
  for (const [i, row] of weights.entries()) {
    for (let j = 0; j < row.length; j += 1) total += MEASURES[measure].of(row[j], i, j, row.length - 1);
  }
  return total / weights.length;
}

/** Uniform attention over the keys that each query may attend to. */
const uniform = (kind, weights) => weights.map((row, i) => {
  const allowed = kind === "self" ? i + 1 : row.length;
  return Float32Array.from(row, (_, j) => (j < allowed ? 1 / allowed : 0));
});

const plain = (token) => token.replace("▁", "") || "▁";

/** What the figure shows of a stored sentence; see heads.py. */
function fromStored({ text, translation, source, target, maps }) {
  const columns = { encoder: source.length, self: target.length, cross: source.length };
  return {
    text, translation, source: source.map(plain), target: target.map(plain),
    maps: Object.fromEntries(ORDER.map((kind) =>
      [kind, maps[kind].map((block) => block.map((each) => unpack(each, columns[kind])))])),
  };
}

/** The same of a sentence that the page has translated. */
function fromTranslation(text, { model, source, translation }) {
  const names = (ids) => ids.map((id) => plain(tokens(model.tokenizer, [id])[0]));
  return { text, translation: translation.text, source: names(source), target: names(translation.generated),
    maps: translation.maps };
}

const two = (number) => format(number, 2);
const placeOf = ([block, head]) => `block ${block + 1}, head ${head + 1}`;
/** Small weights stay visible if the depth of the colour is the square root of the weight. */
const shade = Math.sqrt;
const LEVELS = 8;

/** A map without names: one path for all squares of a depth. */
function SmallMap({ weights, hue }) {
  const [rows, columns] = [weights.length, weights[0].length];
  const paths = useMemo(() => {
    const found = Array.from({ length: LEVELS + 1 }, () => "");
    weights.forEach((row, i) => row.forEach((weight, j) => {
      if (weight >= 0.01) found[Math.ceil(shade(weight) * LEVELS)] += `M${j} ${i}h1v1h-1z`;
    }));
    return found;
  }, [weights]);
  return html`<svg viewBox="0 0 ${columns} ${rows}" preserveAspectRatio="none" aria-hidden="true">
    ${paths.map((path, level) => path && html`<path key=${level} d=${path}
      style=${{ fill: heat(level / LEVELS, 1, hue) }} />`)}
  </svg>`;
}

/** All heads of one kind of attention: a row for each block, a column for each head. */
function Gallery({ kind, group, maps, values, selected, onSelect }) {
  const { name, hue } = KINDS[kind];
  return html`<fieldset class="live-choice heads-kind" style=${{ "--heads": maps[0].length }}>
    <legend>${name[0].toUpperCase()}${name.slice(1)}</legend>
    ${maps[0].map((_, h) => html`<i key=${h} aria-hidden="true">head ${h + 1}</i>`)}
    ${maps.flatMap((block, b) => [html`<i key=${`b${b}`} aria-hidden="true">block ${b + 1}</i>`, ...block.map((weights, h) => {
      const value = values ? two(values[b][h]) : "–";
      return html`<label key="${b},${h}"><input type="radio" name=${group}
        aria-label=${`${placeOf([b, h])}: ${values ? value : `no value –`}`}
        checked=${selected !== null && selected[0] === b && selected[1] === h} onInput=${() => onSelect(b, h)} />
        <span><${SmallMap} weights=${weights} hue=${hue} /><b>${value}</b></span></label>`;
    })])}
  </fieldset>`;
}

/** The measures of the selected head beside those of uniform attention. */
function Measures({ kind, weights }) {
  const even = uniform(kind, weights);
  return html`<table class="heads-measures">
    <caption>Means over the queries</caption>
    <thead><tr><th scope="col">mean</th><th scope="col">head</th><th scope="col">uniform</th></tr></thead>
    <tbody>${Object.entries(MEASURES).filter(([, { kinds }]) => kinds.includes(kind)).map(([key, { name }]) =>
      html`<tr key=${key}><th scope="row">${name.replace(/weight on the | in/, (found) => (found === " in" ? "," : ""))}</th>
        <td>${two(valueOf(key, weights))}</td><td>${two(valueOf(key, even))}</td></tr>`)}</tbody>
  </table>`;
}

/** The map of a head, with squares of at most `largest` pixels, in a box that scrolls. */
function HeadMap({ kind, place, weights, queries, keys, query, onSelect, largest }) {
  const row = weights[query];
  const most = row.indexOf(Math.max(...row));
  return html`<div class="heads-map" tabindex="0" role="group" aria-label="Map, scrollable">
    <${WeightMap} queries=${queries} keys=${keys} weights=${weights} selected=${query} onSelect=${onSelect}
      hue=${KINDS[kind].hue} shade=${shade} largest=${largest}
      label=${`Map of the attention weights of ${place}: a row for each of ${queries.length} queries, a column for each of `
        + `${keys.length} keys. “${queries[query]}” attends most to “${keys[most]}” (${format(row[most], 3)}).`} />
  </div>`;
}

/** The largest weights of one query. */
function Largest({ kind, row, keys, query }) {
  const order = keys.map((_, j) => j).sort((a, b) => row[b] - row[a]);
  return html`<div class=${`heads-weights heads-${kind}`}><${Bars} names=${["key", "weight"]}
    entries=${order.slice(0, 5).map((j) => [keys[j], row[j]])} label=${`The largest weights of “${query}”`} /></div>`;
}

/** The value of the selected head, and the heads with the most extreme one; equal as printed is a tie. */
function describe(kind, measure, values, [block, head]) {
  const { name, least } = MEASURES[measure];
  const all = values.flat();
  const nHeads = values[0].length;
  const groups = ranking(all, 2);
  const extreme = groups.at(least ? -1 : 0);
  const places = listed(extreme.map((n) => placeOf([Math.floor(n / nHeads), n % nHeads])));
  return `Block ${block + 1}, head ${head + 1}: the mean ${name} is ${two(values[block][head])}. The ${
    least ? "smallest" : "largest"} mean of the ${all.length} heads of ${KINDS[kind].name}: ${places} (${
    two(all[extreme[0]])}${extreme.length > 1 ? " each" : ""}).`;
}

function Heads({ model: widget }) {
  const shipped = widget.get("shipped");
  const stored = widget.get("stored");
  const [text, setText] = useTrait(widget, "text");
  const [example, setExample] = useTrait(widget, "example");
  const [kind, setKind] = useTrait(widget, "kind");
  const [wantedBlock, setBlock] = useTrait(widget, "block");
  const [head, setHead] = useTrait(widget, "head");
  const [measure, setMeasure] = useTrait(widget, "measure");
  const [overview, setOverview] = useTrait(widget, "overview");
  const [wantedQuery, setQuery] = useState(FIRST_QUERY);
  const [{ result, message }, setOutcome] = useState({});
  const translations = useTranslations(widget, shipped.name);
  const group = useId();
  // A message is about the sentence; the status line of another selection replaces it.
  useLayoutEffect(() => setOutcome({ result }), [kind, wantedBlock, head, measure, overview, wantedQuery]);

  const shown = useMemo(() => result ?? fromStored(stored[example]), [result, example]);
  const block = Math.min(wantedBlock, shown.maps[kind].length - 1);
  const values = useMemo(() => Object.fromEntries(ORDER.map((each) =>
    [each, MEASURES[measure].kinds.includes(each)
      && shown.maps[each].map((heads) => heads.map((weights) => valueOf(measure, weights)))])), [shown, measure]);
  const select = (nextKind, nextBlock, nextHead) => {
    setKind(nextKind);
    setBlock(nextBlock);
    setHead(nextHead);
  };
  const choose = (next) => {
    translations.drop();
    setOutcome({});
    setExample(next);
    setText(stored[next].text);
  };
  const run = () => {
    setOutcome({ result });
    translations.run(text, (model, source) => translate(model, source, 1), (done) => setOutcome(
      done.message ? { result, message: done.message } : { result: fromTranslation(text, done) }));
  };
  const { activity } = translations;
  const place = `${KINDS[kind].name}, ${placeOf([block, head])}`;
  const guide = GUIDE.findIndex((each) => each.kind === kind && each.block === block && each.head === head);
  const follow = (next) => {
    setOverview(next === "all");
    if (next === "all" && !MEASURES[measure].kinds.includes(kind)) setMeasure("entropy");
    if (GUIDE[next]) select(GUIDE[next].kind, GUIDE[next].block, GUIDE[next].head);
  };
  const inputs = [SPECIAL[BOS], ...shown.target.slice(0, -1)];
  const [queries, keys] = {
    encoder: [shown.source, shown.source], self: [inputs, inputs], cross: [shown.target, shown.source],
  }[kind];
  const query = Math.min(wantedQuery, queries.length - 1);
  const weights = shown.maps[kind][block][head];
  const attends = ranking([...weights[query]], 3)[0];
  const most = `${listed(attends.map((j) => `“${keys[j]}”`))} (${format(weights[query][attends[0]], 3)}${
    attends.length > 1 ? " each" : ""})`;
  const status = message ?? activity?.text ?? (!overview
    ? `“${queries[query]}” attends most to ${most}. The mean entropy of the head is ${
      two(valueOf("entropy", weights))} nats; with uniform attention, it would be ${two(valueOf("entropy", uniform(kind, weights)))}.`
    : values[kind] ? describe(kind, measure, values[kind], [block, head])
      : `The measure “${MEASURES[measure].name}” is not defined for ${KINDS[kind].name}: select another measure, or a head of ${
        "another kind of attention"}.`);
  const map = { kind, place, weights, queries, keys, query, onSelect: setQuery };

  const controls = html`
    <${Choice} label="Head" value=${overview ? "all" : guide < 0 ? "selected" : guide} onInput=${follow}
      options=${[...GUIDE.map(({ name }, i) => [i, name]), ["all", "all heads"],
        ...(guide < 0 ? [["selected", "other"]] : [])]} />
    <${Select} label="Sentence" value=${result ? -1 : example} onInput=${choose}
      options=${[...stored.map((each, i) => [i, each.text]), ...(result ? [[-1, "your own sentence"]] : [])]} />
    ${overview
      ? html`<${Select} key="measure" label="Measure" value=${measure} onInput=${setMeasure}
          options=${Object.entries(MEASURES).map(([key, { name }]) => [key, name])} />`
      : html`<${Select} key="query" label="Query" value=${query} onInput=${setQuery}
          options=${queries.map((name, i) => [i, name])} />`}
    <details class="heads-own"><summary>Your own sentence</summary>
      <${SentenceForm} shipped=${shipped} translations=${translations} text=${text} onInput=${setText}
        onRun=${run} verb="compute the maps" rows=${1} /></details>`;

  return html`<${Frame} title="Attention heads" controls=${controls} quiet=${activity !== null} lines=${[2, 4]}
    task=${html`look at the four named heads, then find the first of them among all heads.`}
    shows=${html`A map has a row for each query and a column for each key; the depth of the colour is the square root
      of the weight. Most heads spread their weights; few have a simple pattern. A map shows what a head attends
      to, not what it is for. The statements about the named heads are results of this chapter, measured on many sentences. The decoder input is the greedy translation. Nothing that you type leaves your browser.`}
    status=${status}>
    <p class="heads-pair"><b>Translation:</b> <span lang=${shipped.codes[1]}>${shown.translation || "(no token)"}</span></p>
    <div class="heads-stack">
      <div class="heads-one" hidden=${overview}>
        <p class="heads-says"><b>${place[0].toUpperCase()}${place.slice(1)}.</b>${
          guide >= 0 ? ` ${GUIDE[guide].says}` : ""}</p>
        <${Views} label="View" together=${true} views=${[
          ["map", html`<${HeadMap} ...${map} largest=${Math.max(13, Math.min(21, Math.floor(170 / queries.length)))} />`],
          ["weights", html`<${Largest} kind=${kind} row=${weights[query]} keys=${keys} query=${queries[query]} />`],
          ["means", html`<${Measures} kind=${kind} weights=${weights} />`],
        ]} />
      </div>
      <div class="heads-all" hidden=${!overview}>
        ${ORDER.map((each) => html`<${Gallery} key=${each} kind=${each} group=${group}
          maps=${shown.maps[each]} values=${values[each]} selected=${each === kind ? [block, head] : null}
          onSelect=${(b, h) => select(each, b, h)} />`)}
        <${HeadMap} ...${map} largest=${13} />
      </div>
    </div>
  <//>`;
}

export const render = live(Heads, (widget) => {
  const stored = widget.get("stored");
  const blocks = Object.values(stored[0].maps);
  return {
    text: anyText,
    example: whole(0, stored.length - 1),
    kind: oneOf(ORDER),
    block: whole(0, Math.max(...blocks.map(({ length }) => length)) - 1),
    head: whole(0, blocks[0][0].length - 1),
    measure: oneOf(Object.keys(MEASURES)),
    overview: flag,
  };
});

// The attention heads of a trained translator side by side. The maps of a few sentences are stored in
// the figure, those of other sentences are computed by transformer.js. tfmr/widgets/heads.py has the
// same measures; tests/pages/test_heads_figure.py compares the numbers.

import { BOS, SPECIAL, tokens } from "./bpe.js";
import { SentenceForm, useTranslations } from "./translating.js";
import { html, useMemo, useState } from "./vendor/preact.js";
import { Bars, KINDS, WeightMap } from "./weight_map.js";
import { Choice, Select, useId } from "./lib/controls.js";
import { heat } from "./lib/colour.js";
import { count, format, listed, ranking } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { anyText, oneOf, whole } from "./lib/state.js";

const ORDER = ["encoder", "self", "cross"];

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

/** The reverse of _pack in heads.py: rows of `columns` weights, three digits to base 36 each. */
function unpack(text, columns) {
  const weights = Float32Array.from({ length: text.length / 3 }, (_, n) =>
    parseInt(text.slice(3 * n, 3 * n + 3), 36) / 10000);
  return Array.from({ length: weights.length / columns }, (_, i) =>
    weights.subarray(i * columns, (i + 1) * columns));
}

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
function Heads({ kind, group, maps, values, selected, onSelect }) {
  const { name, hue } = KINDS[kind];
  return html`<fieldset class="live-choice heads-kind" style=${{ "--heads": maps[0].length }}>
    <legend>${name[0].toUpperCase()}${name.slice(1)}</legend>
    ${maps.flatMap((block, b) => block.map((weights, h) => {
      const value = values ? two(values[b][h]) : "–";
      return html`<label key="${b},${h}"><input type="radio" name=${group}
        aria-label=${`${placeOf([b, h])}: ${values ? value : `no value –`}`}
        checked=${selected !== null && selected[0] === b && selected[1] === h} onInput=${() => onSelect(b, h)} />
        <span><${SmallMap} weights=${weights} hue=${hue} /><b>${value}</b></span></label>`;
    }))}
  </fieldset>`;
}

/** The measures of the selected head beside those of uniform attention. */
function Measures({ kind, weights }) {
  const even = uniform(kind, weights);
  return html`<table class="heads-measures">
    <caption>Means over the queries</caption>
    <thead><tr><th scope="col">mean</th><th scope="col">this head</th><th scope="col">uniform</th></tr></thead>
    <tbody>${Object.entries(MEASURES).filter(([, { kinds }]) => kinds.includes(kind)).map(([key, { name }]) =>
      html`<tr key=${key}><th scope="row">${name}</th>
        <td>${two(valueOf(key, weights))}</td><td>${two(valueOf(key, even))}</td></tr>`)}</tbody>
  </table>`;
}

/** The selected map with its tokens, its measures, and the largest weights of one query. */
function Selected({ shown, kind, place, weights }) {
  const [wanted, setQuery] = useState(0);
  const inputs = [SPECIAL[BOS], ...shown.target.slice(0, -1)];
  const [queries, keys] = {
    encoder: [shown.source, shown.source], self: [inputs, inputs], cross: [shown.target, shown.source],
  }[kind];
  const query = Math.min(wanted, queries.length - 1);
  const row = weights[query];
  const order = keys.map((_, j) => j).sort((a, b) => row[b] - row[a]);
  return html`
    <div class=${`heads-selected ${keys.length > 12 ? "live-drawing" : "live-columns"}`}>
      <div><p class="heads-place">${place[0].toUpperCase()}${place.slice(1)}</p>
        <${WeightMap} queries=${queries} keys=${keys} weights=${weights} selected=${query} onSelect=${setQuery}
          hue=${KINDS[kind].hue} shade=${shade}
          label=${`Map of the weights of ${place}: a row for each of ${queries.length} queries, a column for each of `
            + `${keys.length} keys. “${queries[query]}” attends most to “${keys[order[0]]}” (${format(row[order[0]], 3)}).`} />
      </div>
      <${Measures} kind=${kind} weights=${weights} />
    </div>
    <div class="tra-tokens"><${Choice} label="Query" value=${query} onInput=${setQuery}
      options=${queries.map((name, i) => [i, name])} /></div>
    <div class=${`heads-weights heads-${kind}`}><${Bars} names=${["key", "weight"]}
      entries=${order.slice(0, 5).map((j) => [keys[j], row[j]])}
      label=${`The largest weights of the query “${queries[query]}”`} /></div>`;
}

/** The value of the selected head, and the heads with the most extreme one; equal as printed is a tie. */
function describe(kind, measure, values, [block, head]) {
  const { name, least } = MEASURES[measure];
  const all = values.flat();
  const nHeads = values[0].length;
  const groups = ranking(all, 2);
  const extreme = groups.at(least ? -1 : 0);
  const places = listed(extreme.map((n) => placeOf([Math.floor(n / nHeads), n % nHeads])));
  return `Block ${block + 1}, head ${head + 1}: mean ${name} ${two(values[block][head])}. The ${
    least ? "smallest" : "largest"} of the ${all.length} heads of the ${KINDS[kind].name}: ${places} (${
    two(all[extreme[0]])}${extreme.length > 1 ? " each" : ""}).`;
}

function Side({ model: widget }) {
  const shipped = widget.get("shipped");
  const stored = widget.get("stored");
  const [text, setText] = useTrait(widget, "text");
  const [example, setExample] = useTrait(widget, "example");
  const [kind, setKind] = useTrait(widget, "kind");
  const [wantedBlock, setBlock] = useTrait(widget, "block");
  const [head, setHead] = useTrait(widget, "head");
  const [measure, setMeasure] = useTrait(widget, "measure");
  const [{ result, message }, setOutcome] = useState({});
  const translations = useTranslations(widget, shipped.name);
  const group = useId();

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
    translations.stop();
    setOutcome({});
    setExample(next);
    setText(stored[next].text);
  };
  const run = () => {
    setOutcome({ result });
    translations.run(text, { beam: 1 }, (done) => setOutcome(
      done.message ? { result, message: done.message } : { result: fromTranslation(text, done) }));
  };
  const { activity } = translations;
  const status = message ?? activity?.text ?? (values[kind]
    ? describe(kind, measure, values[kind], [block, head])
    : `The number “${MEASURES[measure].name}” is not defined for the ${KINDS[kind].name}: select another number, or a head of ${
      "another kind of attention"}.`);

  const controls = html`
    <${Select} label="Sentence" value=${result ? -1 : example} onInput=${choose}
      options=${[...stored.map((each, i) => [i, each.text]), ...(result ? [[-1, "your own sentence"]] : [])]} />
    <${Select} label="Number below each map" value=${measure} onInput=${setMeasure}
      options=${Object.entries(MEASURES).map(([key, { name }]) => [key, name])} />`;

  return html`<${Frame} above title="All heads side by side" controls=${controls} quiet=${activity !== null}
    task=${html`find the encoder map with a line of strong colour just below the diagonal, and select it. The number
      below it is the largest: its head attends to the previous token. Then load the model and type a sentence of
      your own. Does the same head have the largest number?`}
    shows=${html`Each map has a row for each query and a column for each key; the depth of the colour is the square root
      of the weight. Most heads spread their weights, few have a simple pattern, and a map shows what a head attends
      to, not what it is for. The decoder input is the greedy translation; nothing that you type leaves your browser.`}
    status=${status}>
    <${SentenceForm} shipped=${shipped} translations=${translations} text=${text} onInput=${setText} onRun=${run}
      verb="compute the maps" rows=${1} />
    <p class="heads-pair"><span lang=${shipped.codes[0]}>${shown.text}</span> → <span
      lang=${shipped.codes[1]}>${shown.translation || "(no token)"}</span>${" "}<small>${count(shown.source.length)} source
      tokens, ${count(shown.target.length)} generated tokens</small></p>
    <p class="heads-note">A row of maps is a block, from the first to the last; a column is a head.</p>
    <div class="heads-all">${ORDER.map((each) => html`<${Heads} key=${each} kind=${each} group=${group}
      maps=${shown.maps[each]} values=${values[each]} selected=${each === kind ? [block, head] : null}
      onSelect=${(b, h) => select(each, b, h)} />`)}</div>
    <${Selected} shown=${shown} kind=${kind} weights=${shown.maps[kind][block][head]}
      place=${`${KINDS[kind].name}, ${placeOf([block, head])}`} />
  <//>`;
}

export const render = live(Side, (widget) => {
  const stored = widget.get("stored");
  const blocks = Object.values(stored[0].maps);
  return {
    text: anyText,
    example: whole(0, stored.length - 1),
    kind: oneOf(ORDER),
    block: whole(0, Math.max(...blocks.map(({ length }) => length)) - 1),
    head: whole(0, blocks[0][0].length - 1),
    measure: oneOf(Object.keys(MEASURES)),
  };
});

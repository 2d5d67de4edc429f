// Attention weights of one head: a map with the names of its tokens, and its largest weights.

import { Drawing } from "./lib/chart.js";
import { heat } from "./lib/colour.js";
import { format } from "./lib/format.js";
import { partAt, useDrag } from "./lib/pointer.js";
import { html, useState } from "./vendor/preact.js";

/** The kinds of attention: name, and hue of the keys. */
export const KINDS = {
  cross: { name: "cross-attention", hue: "encoder" },
  self: { name: "decoder self-attention", hue: "decoder" },
  encoder: { name: "encoder self-attention", hue: "encoder" },
};

/** The reverse of pack() in packing.py: rows of `columns` weights, three digits in base 36 each. */
export function unpack(text, columns) {
  const weights = Float32Array.from({ length: text.length / 3 }, (_, n) =>
    parseInt(text.slice(3 * n, 3 * n + 3), 36) / 10000);
  return Array.from({ length: weights.length / columns }, (_, i) =>
    weights.subarray(i * columns, (i + 1) * columns));
}

/** The maps that pack_maps() in packing.py packed, by kind, block and head. */
export function unpackMaps(maps, { length: source }, { length: target }) {
  const columns = { encoder: source, self: target, cross: source };
  return Object.fromEntries(Object.entries(maps).map(([kind, blocks]) =>
    [kind, blocks.map((heads) => heads.map((each) => unpack(each, columns[kind])))]));
}

/** Pixels of a square of the map: usually at most, and at least where tokens are named. */
const LARGEST_CELL = 34;
const SMALLEST_NAMED = 12.5;

/** The largest of a few values as a table with bars: `entries` are pairs [name, value]. */
export function Bars({ label, names, entries }) {
  return html`<table class="tra-bars">
    <caption>${label}</caption>
    <thead><tr><th scope="col">${names[0]}</th><th scope="col">${names[1]}</th></tr></thead>
    <tbody>${entries.map(([name, value], i) => html`<tr key=${i}>
      <th scope="row">${name}</th>
      <td><span class="tra-track"><span class="tra-bar" style=${{ inlineSize: `${100 * value}%` }}></span></span>
        <span class="tra-number">${format(value, 3)}</span></td>
    </tr>`)}</tbody>
  </table>`;
}

/**
 * Attention weights as squares: a row for each query, a column for each key. `shade(weight)` is the
 * depth of the colour, from 0 to 1. A square has at most `largest` pixels.
 */
export function WeightMap({
  label, queries, keys, weights, selected, onSelect, hue, shade = (weight) => weight, largest = LARGEST_CELL,
}) {
  const shorten = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);
  const room = (names) => 12 + 7.5 * Math.max(...names.map((name) => shorten(name).length));
  const [height, setHeight] = useState(300);
  const drag = useDrag(selected, onSelect, ({ y }) => partAt(y, queries.length));
  const draw = (width) => {
    const sizeOf = (start) => Math.min(largest, (width - start - 2) / keys.length);
    const named = sizeOf(room(queries)) >= SMALLEST_NAMED;
    const [left, top] = named ? [room(queries), room(keys)] : [1, 1];
    const cell = sizeOf(left);
    const next = Math.ceil(top + cell * queries.length + 4);
    if (next !== height) queueMicrotask(() => setHeight(next));
    return html`
      ${named && keys.map((name, j) => html`<text key="k${j}"
        transform="translate(${left + (j + 0.5) * cell + 4} ${top - 6}) rotate(-90)">${shorten(name)}</text>`)}
      <g ...${drag}><rect class="tra-pick" y=${top} width=${left + cell * keys.length} height=${cell * queries.length} />
      ${queries.map((name, i) => html`<g key="q${i}" class="tra-row">
        ${named && html`<text x=${left - 6} y=${top + (i + 0.5) * cell + 4} text-anchor="end"
          font-weight=${i === selected ? 700 : 400}>${shorten(name)}</text>`}
        <rect class="tra-ground" x=${left} y=${top + i * cell} width=${cell * keys.length} height=${cell} />
        ${[...weights[i]].map((weight, j) => weight >= 0.01 && html`<rect key=${j}
          x=${left + j * cell + 0.5} y=${top + i * cell + 0.5} width=${cell - 1} height=${cell - 1}
          style=${{ fill: heat(shade(weight), 1, hue) }} />`)}
      </g>`)}</g>
      <rect class="tra-selected" x=${left} y=${top + selected * cell} width=${cell * keys.length} height=${cell} />`;
  };
  return html`<${Drawing} label=${label} height=${height}>${draw}<//>`;
}

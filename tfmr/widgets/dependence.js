// Which tokens an output depends on. The masks are those of tfmr/widgets/dependence.py.

import { html } from "./vendor/preact.js";
import { Drawing } from "./lib/chart.js";
import { heat } from "./lib/colour.js";
import { Choice } from "./lib/controls.js";
import { listed } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { partAt, useDrag } from "./lib/pointer.js";
import { oneOf, whole } from "./lib/state.js";

const FAMILIES = ["encoder only", "decoder only", "encoder–decoder", "local decoder"];
/** The number of source tokens in the encoder–decoder; the others are target tokens. */
const SOURCE = 3;
/** The sizes of the drawing: its left margin, a row of the mask, a row of the blocks, a heading. */
const [LEFT, QUERY, BLOCK, HEADING] = [64, 27, 25, 22];

/** For one block, two, and so on: whether the output at a position depends on each token. */
function dependence(mask, position, blocks) {
  const found = [mask[position]];
  while (found.length < blocks) {
    found.push(mask.map((_, key) => Number(found.at(-1).some((on, query) => on && mask[query][key]))));
  }
  return found;
}

/** An area in which a reader selects one of `count` rows or columns by pointing or dragging. */
function Pick({ count, value, onPick, isRows = false, ...area }) {
  const drag = useDrag(value, onPick, ({ x, y }) => partAt(isRows ? y : x, count));
  return html`<rect class="live-pick ${isRows ? "dep-rows" : ""}" ...${area} ...${drag} />`;
}

function Dependence({ model }) {
  const tokens = model.get("tokens");
  const [family, setFamily] = useTrait(model, "family");
  const [position, setPosition] = useTrait(model, "position");

  const mask = model.get("masks")[family];
  const names = family === FAMILIES[2] ? tokens.map((token, i) => `${i < SOURCE ? "source" : "target"} ${token}`) : tokens;
  const rows = dependence(mask, position, model.get("blocks"));
  const on = (row) => listed(tokens.filter((_, key) => row[key]));
  const blocks = (number) => `${number} ${number === 1 ? "block" : "blocks"}`;
  const [first, last] = [on(rows[0]), on(rows.at(-1))];
  const permitted = mask.flat().filter(Boolean).length;
  const through = first === last ? `Through 1 to ${blocks(rows.length)}, the output at ${names[position]} depends on ${first}`
    : `Through 1 block, the output at ${names[position]} depends on ${first}; through ${blocks(rows.length)}, on ${last}`;
  const status = `${through}. The mask permits ${permitted} of ${tokens.length ** 2} pairs.`;

  const draw = (width) => {
    const side = Math.min(52, (width - LEFT - 2) / tokens.length);
    const below = HEADING + QUERY * tokens.length + 12;
    const middle = (key) => LEFT + side * (key + 0.5);
    const tile = (key, y, height, shade, text) => html`
      <rect class="dep-tile" x=${LEFT + side * key + 1} y=${y + 1} width=${side - 2} height=${height - 2} rx="3"
        style=${{ fill: heat(shade) }} />
      ${text && html`<text class=${shade ? "" : "dep-masked"} x=${middle(key)} y=${y + height / 2 + 4.5} text-anchor="middle">${text}</text>`}`;
    const area = { x: LEFT, width: side * tokens.length, count: tokens.length, value: position, onPick: setPosition };
    return html`
      <text x=${LEFT - 8} y="15" text-anchor="end" class="dep-masked">mask</text>
      ${tokens.map((token, key) => html`<text x=${middle(key)} y="15" text-anchor="middle">${token}</text>`)}
      ${mask.map((line, query) => {
        const y = HEADING + QUERY * query;
        return html`
          <text class=${query === position ? "dep-chosen" : ""} x=${LEFT - 8} y=${y + QUERY / 2 + 4.5} text-anchor="end">${names[query]}</text>
          ${line.map((may, key) => tile(key, y, QUERY, may && (query === position ? 1 : 0.5), may ? "" : "−∞"))}`;
      })}
      <rect class="dep-frame" x=${LEFT - 1} y=${HEADING + QUERY * position - 1} width=${side * tokens.length + 2} height=${QUERY + 2} rx="4" />
      <text x=${LEFT} y=${below + 15}>The output at <tspan class="dep-chosen">${names[position]}</tspan> depends on</text>
      ${rows.map((row, i) => {
        const y = below + HEADING + BLOCK * i;
        return html`
          <text x=${LEFT - 8} y=${y + BLOCK / 2 + 4.5} text-anchor="end">${blocks(i + 1)}</text>
          ${row.map((may, key) => tile(key, y, BLOCK, may, may ? tokens[key] : ""))}`;
      })}
      <${Pick} ...${area} y=${HEADING} height=${QUERY * tokens.length} isRows />
      <${Pick} ...${area} y=${below + HEADING} height=${BLOCK * rows.length} />`;
  };

  const controls = html`
    <${Choice} label="Model" value=${family} onInput=${setFamily} options=${FAMILIES.map((name) => [name, name])} />
    <div class="dep-position"><${Choice} label="Output at" value=${position} onInput=${setPosition}
      options=${tokens.map((token, i) => [i, token])} /></div>`;

  return html`<${Frame} title="Masks and dependence" controls=${controls} lines=${[2, 3]}
    task=${html`select the output at <i>c</i>, then change the model.`}
    shows=${html`Above, the mask of one attention layer: the token of a row may attend to the tokens of the filled
      tiles; −∞ marks a masked pair. Below, the tokens on which the selected output can depend through 1 to
      ${` ${rows.length} `}blocks; the weights determine how much. A path through two blocks leads to a token that the mask permits, and from there to
      another. In the encoder–decoder, <i>a</i>, <i>b</i> and <i>c</i> are the source and the others the target; each
      stack has the given number of blocks. In the first three models, one block already reaches every token that more
      blocks reach. In the local decoder, a token attends to itself and to the token before it, and each block
      reaches one token further. Point at a row of the mask, or drag across the lower rows, to select the output.`}
    status=${status}>
    <${Drawing} label=${`Mask of the model, ${family}: ${mask.map((row, i) => `${names[i]} attends to ${on(row)}`).join("; ")}. ${
      rows.map((row, i) => `Through ${blocks(i + 1)}, the output at ${names[position]} depends on ${on(row)}`).join("; ")}.`}
      height=${2 * HEADING + QUERY * tokens.length + BLOCK * rows.length + 14}>${draw}<//>
  <//>`;
}

export const render = live(Dependence, (model) => ({
  family: oneOf(FAMILIES),
  position: whole(0, model.get("tokens").length - 1),
}));

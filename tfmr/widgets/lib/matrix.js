// A matrix as a table of coloured cells, in which a reader can select one cell.

import { html, useRef } from "../vendor/preact.js";
import { clamp } from "./math.js";
import { format } from "./format.js";
import { heat } from "./colour.js";

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * A table of numbers. With more than 6 columns, a phone shows the colours only.
 *
 * label: its caption. rows, columns: the names (columns may be []). values: rows of numbers.
 * selected: [row, column] or null. onSelect: takes [row, column]; with it, the cells can be selected
 * by click and by arrow keys. text(value, row, column): what a cell shows. colour(value, row, column):
 * its background. hidden(row, column): cells that are masked. corner: the name of the rows.
 */
export function Matrix({
  label, rows, columns, values, selected = null, onSelect, corner = "", digits = 2,
  text = (value) => format(value, digits), colour = (value) => heat(value), hidden = () => false,
}) {
  const table = useRef(null);
  const [row, column] = selected ?? [0, 0];
  const select = (i, j) => {
    onSelect([i, j]);
    table.current.querySelector(`[data-cell="${i},${j}"]`).focus();
  };
  const key = (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    const [i, j] = event.target.dataset.cell.split(",").map(Number);
    select(clamp(i + move[0], 0, values.length - 1), clamp(j + move[1], 0, values[0].length - 1));
  };
  const cell = (value, i, j) => {
    const name = `live-cell ${hidden(i, j) ? "live-hidden" : ""}`;
    const style = hidden(i, j) ? {} : { background: colour(value, i, j) };
    if (!onSelect) return html`<td key=${j} class=${name} style=${style}><span>${text(value, i, j)}</span></td>`;
    const on = selected !== null && row === i && column === j;
    return html`<td key=${j} class=${name} style=${style} role="gridcell" aria-selected=${on}
      data-cell="${i},${j}" tabindex=${row === i && column === j ? 0 : -1}
      onClick=${() => select(i, j)} onFocus=${() => on || onSelect([i, j])} onKeyDown=${key}
      ><span>${text(value, i, j)}</span></td>`;
  };
  const length = (names) => Math.max(...names.map((name) => name.length ?? 0));
  const look = ["live-matrix", columns.length > 6 && "live-wide",
    columns.length > 4 && length(columns) > 4 && "live-vertical"];
  return html`<table class=${look.filter(Boolean).join(" ")} role=${onSelect ? "grid" : "table"} ref=${table}>
    <caption>${label}</caption>
    <colgroup><col style=${{ inlineSize: `${1.15 * length(rows) + 1.8}ch` }} /></colgroup>
    ${columns.length > 0 && html`<thead><tr>
      ${corner ? html`<th scope="col">${corner}</th>` : html`<td></td>`}
      ${columns.map((name, j) => html`<th key=${j} scope="col"><span>${name}</span></th>`)}
    </tr></thead>`}
    <tbody>
      ${values.map((line, i) => html`<tr key=${i}>
        <th scope="row">${rows[i]}</th>${line.map((value, j) => cell(value, i, j))}
      </tr>`)}
    </tbody>
  </table>`;
}

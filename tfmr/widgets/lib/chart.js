// Drawings in SVG that are as wide as their column, so that their text keeps its size on a phone.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { format } from "./format.js";
import { clamp, scale, ticks } from "./math.js";
import { useDrag } from "./pointer.js";

/**
 * An SVG drawing. label: its text alternative, with the numbers that matter. height: in pixels, also
 * as a function of the width in pixels. children: a function of width and height that returns the content.
 */
export function Drawing({ label, height, children }) {
  const box = useRef(null);
  const [width, setWidth] = useState(640);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.max(240, Math.round(box.current.clientWidth) || 640));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const high = typeof height === "function" ? height(width) : height;
  return html`<div class="live-canvas" ref=${box}>
    <svg viewBox="0 0 ${width} ${high}" role="img" aria-label=${label}>${children(width, high)}</svg>
  </div>`;
}

/** A piece of a line, which shows its hue. */
export function Key({ hue, dash }) {
  return html`<svg class="live-key" viewBox="0 0 28 10" aria-hidden="true">
    <line x1="0" y1="5" x2="28" y2="5" class="live-line" style=${{ stroke: `var(--live-${hue})` }}
      stroke-dasharray=${dash ?? "none"} />
  </svg>`;
}

/** What the hues mean: `entries` are objects { name, hue, dash }. */
function Legend({ entries }) {
  return html`<ul class="live-legend">
    ${entries.map((entry) => html`<li key=${entry.name}><${Key} ...${entry} />${entry.name}</li>`)}
  </ul>`;
}

/**
 * A table with a row for each line of a chart, which is also its legend. caption: its caption.
 * columns: the names of its columns. rows: objects { name, hue, dash, cells }. reserve: how many
 * rows there can be.
 */
export function Readings({ caption, columns, rows, reserve = rows.length }) {
  return html`<div class="live-readings" style=${{ "--rows": reserve }}><table>
    <caption>${caption}</caption>
    <thead><tr>${columns.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map(({ cells, ...line }) => html`<tr key=${line.name}>
      <th scope="row"><span><${Key} ...${line} />${line.name}</span></th>
      ${cells.map((text, i) => html`<td key=${i}>${text}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

const MARGIN = { left: 52, right: 14, top: 12, bottom: 38 };

/** The ticks of an axis: round numbers, or on a logarithmic axis powers of ten, with 2 and 5 if few. */
function axisTicks({ min, max, log, count = 5 }) {
  if (!log) return ticks(min, max, count);
  const [low, high] = [Math.ceil(Math.log10(min) - 1), Math.floor(Math.log10(max))];
  const every = Math.ceil((high - low) / (count + 2));
  const digits = high - low > 3 ? [1] : [1, 2, 5];
  return Array.from({ length: high - low + 1 }, (_, i) => low + i)
    .filter((power) => power % every === 0 || every <= 1)
    .flatMap((power) => digits.map((digit) => digit * 10 ** power))
    .filter((value) => value >= min * 0.999 && value <= max * 1.001);
}

function tickText(value, { log, digits, show }) {
  if (show) return show(value);
  if (!log) return format(value, digits ?? (Number.isInteger(value) ? 0 : 2));
  if (value >= 0.001 && value <= 5000) return String(Number(value.toPrecision(1)));
  return html`10<tspan dy="-5" font-size="0.8em">${format(Math.log10(value), 0)}</tspan>`;
}

/**
 * Curves over one axis.
 *
 * label: the text alternative. x, y: { label, min, max, log, digits, count, show }. lines: objects
 * { name, points: [[x, y], …], hue, dash, dots }; a point that is not finite interrupts its line.
 * marks: objects { x, y } of points to emphasise, each on a vertical line. height: that of a Drawing.
 * legend: whether a legend names the lines. onPick: takes the x on a linear axis at which the reader
 * points; a slider has to do the same for the keyboard.
 */
export function LineChart({ label, x, y, lines, marks = [], height = 260, legend = lines.length > 1, onPick }) {
  const drag = useDrag(marks[0]?.x, onPick, (place) => x.min + clamp(place.x, 0, 1) * (x.max - x.min));
  const draw = (width, high) => {
    const { left, right, top, bottom } = MARGIN;
    const transform = (axis) => (axis.log ? Math.log10 : Number);
    const place = (axis, range) => {
      const move = scale([axis.min, axis.max].map(transform(axis)), range);
      return (value) => move(transform(axis)(value));
    };
    const toX = place(x, [left, width - right]);
    const toY = place(y, [high - bottom, top]);
    const inside = (point) =>
      [toX(point[0]), toY(point[1])].every(Number.isFinite) && point[1] >= y.min && point[1] <= y.max;
    const path = (points) => points
      .map((point, i) => inside(point) &&
        `${i > 0 && inside(points[i - 1]) ? "L" : "M"}${toX(point[0]).toFixed(1)} ${toY(point[1]).toFixed(1)}`)
      .filter(Boolean).join("");
    return html`
      ${axisTicks(y).map((value) => html`<g key="y${value}">
        <line class="live-grid" x1=${left} x2=${width - right} y1=${toY(value)} y2=${toY(value)} />
        <text x=${left - 8} y=${toY(value) + 4} text-anchor="end">${tickText(value, y)}</text>
      </g>`)}
      ${axisTicks(x).map((value) => html`<text key="x${value}" x=${toX(value)} y=${high - bottom + 16}
        text-anchor="middle">${tickText(value, x)}</text>`)}
      <line class="live-axis" x1=${left} x2=${width - right} y1=${high - bottom} y2=${high - bottom} />
      <text x=${(left + width - right) / 2} y=${high - 5} text-anchor="middle">${x.label}</text>
      ${[...new Set(marks.map((mark) => mark.x))].map((at) => html`<line key="m${at}" class="live-guide"
        x1=${toX(at)} x2=${toX(at)} y1=${top} y2=${high - bottom} />`)}
      ${lines.map(({ name, points, hue, dash, dots }) => html`<g key=${name} style=${{ color: `var(--live-${hue})` }}>
        <path class="live-line" d=${path(points)} stroke-dasharray=${dash ?? "none"} />
        ${dots && points.filter(inside).map((point, i) =>
          html`<circle key=${i} class="live-dot" cx=${toX(point[0])} cy=${toY(point[1])} r="3" />`)}
      </g>`)}
      ${marks.filter((mark) => inside([mark.x, mark.y])).map((mark, i) =>
        html`<circle key=${i} class="live-mark" cx=${toX(mark.x)} cy=${toY(mark.y)} r="4.5" />`)}
      ${onPick && html`<rect class="live-pick" x=${left} y=${top} width=${width - left - right} height=${high - top - bottom}
        ...${drag} />`}`;
  };
  return html`<figure class="live-chart">
    ${legend && html`<${Legend} entries=${lines} />`}
    <p class="live-axis-name">${y.label}</p>
    <${Drawing} label=${label} height=${height}>${draw}<//>
  </figure>`;
}

// Sinusoidal and rotary positions: two positions, every pair of dimensions as a clock, and the dot
// product against the distance. tfmr/position.py computes the same numbers.

import { html, useMemo } from "./vendor/preact.js";
import { Choice, Range, Select, Views } from "./lib/controls.js";
import { Drawing, Key, LineChart } from "./lib/chart.js";
import { format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { clamp, dot, scale, ticks } from "./lib/math.js";
import { signedHeat } from "./lib/colour.js";
import { live, useTrait } from "./lib/model.js";
import { useDrag } from "./lib/pointer.js";
import { oneOf, whole } from "./lib/state.js";

const three = (number) => format(number, 3);
const factor = (number) => (number < 0 ? `(${three(number)})` : three(number));
/** A number with five significant digits at most: 0.1, 0.017783, 1. */
const short = (number) => String(Number(number.toPrecision(5)));
const vector = (pair) => `(${pair.map(three).join(", ")})`;
const [ENCODINGS, SIZES, BASES] = [["sinusoidal", "rotary"], [4, 8, 16], [10, 100, 1000, 10000]];
const M = { hue: "query" };
const N = { hue: "key", dash: "5 3" };
/** How far a pointer moves, as a part of a clock, before it drags a hand; a click only selects the pair. */
const SLACK = 0.06;
/** The angle up to which two hands cannot be pointed at separately; a reader then turns that of n. */
const ALIKE = 0.1;
const high = (width) => (width < 360 ? 166 : 204);

/** The angle per position of each pair: base^(−2i/size). */
function frequencies(size, base) {
  return Array.from({ length: size / 2 }, (_, i) => base ** ((-2 * i) / size));
}

/** The pair of a sinusoidal row, or of a vector (1, 0) rotated by the angle. */
function pointAt(encoding, angle) {
  return encoding === "sinusoidal" ? [Math.sin(angle), Math.cos(angle)] : [Math.cos(angle), Math.sin(angle)];
}

/** The reverse of pointAt. */
function angleOf(encoding, [x, y]) {
  return encoding === "sinusoidal" ? Math.atan2(x, y) : Math.atan2(y, x);
}

/** The angle by which one has to turn, at most π either way, to get from one angle to another. */
function turn(from, to) {
  return Math.atan2(Math.sin(to - from), Math.cos(to - from));
}

/** The vector at a position: its pairs, one after the other. `ahead` is added to every angle. */
function vectorAt({ encoding, size, base }, position, ahead = 0) {
  return frequencies(size, base).flatMap((omega) => pointAt(encoding, position * omega + ahead));
}

/** All that is shown: the pairs and what each adds, the products of m with every position. */
function compute(state) {
  const { m, n, length } = state;
  const ahead = state.encoding === "rotary" ? (state.angle * Math.PI) / 180 : 0;
  const first = vectorAt(state, m);
  const second = vectorAt(state, n, ahead);
  const pairs = frequencies(state.size, state.base).map((omega, i) => {
    const [a, b] = [first.slice(2 * i, 2 * i + 2), second.slice(2 * i, 2 * i + 2)];
    return { omega, a, b, part: dot(a, b) };
  });
  const curve = Array.from({ length }, (_, position) => {
    const other = vectorAt(state, position, ahead);
    const parts = pairs.map(({ a }, i) => dot(a, other.slice(2 * i, 2 * i + 2)));
    return { distance: position - m, product: dot(first, other), parts };
  });
  // All distances: from the last position to those before it, from the first to those after it.
  const everywhere = Array.from({ length: 2 * length - 1 }, (_, i) => {
    const distance = i + 1 - length;
    const start = distance < 0 ? length - 1 : 0;
    return [distance, dot(vectorAt(state, start), vectorAt(state, start + distance, ahead))];
  });
  return { ahead, pairs, product: dot(first, second), curve, everywhere };
}

/**
 * The clock of a pair: the hands of m and n, and the shorter arc between them. A reader who turns a hand
 * sets its position to the one whose angle is closest; `onTurn` takes { m, n, pair }.
 */
function Clock({ pair, omega, a, b, state, onTurn }) {
  const { encoding, length } = state;
  const drag = useDrag({ m: state.m, n: state.n, pair: state.pair, a, b }, onTurn, (place, { value, ...start }) => {
    const [grip, to] = [start, place].map(({ x, y }) => angleOf(encoding, [x - 0.5, 0.5 - y]));
    const [toM, toN] = [value.a, value.b].map((end) => Math.abs(turn(grip, angleOf(encoding, end))));
    const hand = toM < toN - ALIKE ? "m" : "n";
    const at = state[hand];
    const isClick = at === value[hand] && Math.hypot(place.x - start.x, place.y - start.y) < SLACK;
    const steps = isClick ? 0 : Math.round(turn(at * omega, value[hand] * omega + to - grip) / omega);
    return { ...value, pair, [hand]: clamp(at + steps, 0, length - 1) };
  });
  const [mX, mY, nX, nY] = [a[0], -a[1], b[0], -b[1]].map((each) => (46 * each).toFixed(2));
  const radius = 18;
  const [fromX, fromY, toX, toY] = [a[0], -a[1], b[0], -b[1]].map((each) => (radius * each).toFixed(2));
  const clockwise = a[0] * b[1] - a[1] * b[0] < 0 ? 1 : 0;
  return html`<svg viewBox="-52 -52 104 104" aria-hidden="true" ...${drag}>
    <circle r="48" />
    <path class="pos-arc" d="M${fromX} ${fromY}A${radius} ${radius} 0 0 ${clockwise} ${toX} ${toY}" />
    <line class="pos-m" x2=${mX} y2=${mY} />
    <line class="pos-n" x2=${nX} y2=${nY} stroke-dasharray="7 4" />
    <rect class="pos-grip" x="-52" y="-80" width="104" height="132" />
  </svg>`;
}

/** The table of all positions as a heat map, with rows m and n and the columns of the pair marked. */
function Table({ state }) {
  const { length, size, base, encoding, m, n, pair } = state;
  const [left, right, top, bottom] = [30, 26, 4, 24];
  const rows = useMemo(
    () => Array.from({ length }, (_, position) => vectorAt({ encoding, size, base }, position)),
    [length, size, base, encoding],
  );
  const names = encoding === "sinusoidal" ? ["sine", "cosine"] : ["cosine", "sine"];
  const label = `The table of ${length} positions by ${size} dimensions, ${names.join(" and ")} of each pair. Row ${
    m}: ${rows[m].map((each) => format(each, 2)).join(", ")}. Row ${n}: ${
    rows[n].map((each) => format(each, 2)).join(", ")}.`;
  const draw = (width, height) => {
    const toY = scale([0, length], [top, height - bottom]);
    const tall = toY(1) - toY(0);
    const toX = scale([0, size], [left, width - right]);
    const wide = toX(1) - toX(0);
    const tiles = rows.flatMap((row, position) => row.map((value, c) => html`<rect key=${`${position},${c}`}
      class="pos-tile" x=${toX(c)} y=${toY(position)} width=${wide + 0.4} height=${tall + 0.4}
      style=${{ fill: signedHeat(value) }} />`));
    const frame = (position, hue) => html`<rect class="pos-frame" x=${left - 1} y=${toY(position) - 1}
      width=${width - left - right + 2} height=${tall + 2} style=${{ stroke: `var(--live-${hue})` }} />`;
    return html`${tiles}
      ${ticks(0, length - 1, 5).map((position) => html`<text key=${position} x=${left - 7}
        y=${toY(position) + tall / 2 + 4} text-anchor="end">${position}</text>`)}
      <rect class="pos-pair" x=${toX(2 * pair)} y=${top} width=${2 * wide} height=${toY(length) - top} />
      ${frame(m, M.hue)}${frame(n, N.hue)}
      <text class="pos-name" x=${width - right + 6} y=${toY(m) + tall / 2 + (m > n ? 8 : m < n ? 0 : 4)}
        style=${{ fill: "var(--live-query)" }}>m</text>
      <text class="pos-name" x=${width - right + (m === n ? 17 : 6)} y=${toY(n) + tall / 2 + (n > m ? 8 : n < m ? 0 : 4)}
        style=${{ fill: "var(--live-key)" }}>n</text>
      <text x=${clamp(toX(2 * pair + 1), left + 20, width - right - 20)} y=${height - bottom + 16} text-anchor="middle">pair ${pair}</text>`;
  };
  return html`<figure class="live-chart">
    <p class="live-axis-name">${names[0]} and ${names[1]} of each pair, by position</p>
    <${Drawing} label=${label} height=${high}>${draw}<//>
  </figure>`;
}

/** The arithmetic of the selected pair, and the sum of all pairs. */
function Arithmetic({ state, result }) {
  const { encoding, base, size, m, n, angle, pair: i } = state;
  const { pairs, product, ahead } = result;
  const { omega, a, b, part } = pairs[i];
  const rotary = encoding === "rotary";
  const [start, turned] = [ahead, n * omega + ahead].map(three);
  return html`<div class="pos-arithmetic">
    <p><b>Pair ${i}</b>${rotary ? "" : " (sine, cosine)"}: ω = ${base}<sup>−${2 * i}/${size}</sup> = ${short(omega)} rad</p>
    <p class="pos-of-m">${rotary ? "Query" : "Row"} ${m}: ${m}·${short(omega)} = ${three(m * omega)} rad, ${vector(a)}</p>
    <p class="pos-of-n">${rotary ? "Key" : "Row"} ${n}: ${rotary && angle !== 0 ? `${start} + ` : ""}${n}·${
      short(omega)} = ${turned} rad, ${vector(b)}</p>
    <p class="pos-of-pair">Dot product: ${factor(a[0])}·${factor(b[0])} + ${factor(a[1])}·${factor(b[1])} = <strong>${
      three(part)}</strong> = cos(${turned} − ${three(m * omega)})</p>
    <p class="pos-sum">All ${pairs.length} pairs: <strong>${three(product)}</strong></p>
  </div>`;
}

function Positions({ model }) {
  const state = { length: model.get("length") };
  const set = {};
  for (const name of ["encoding", "size", "base", "m", "n", "angle", "pair"]) {
    [state[name], set[name]] = useTrait(model, name);
  }
  state.pair = Math.min(state.pair, state.size / 2 - 1); // Python may set the size alone
  const { length, encoding, size, m, n, pair } = state;
  const rotary = encoding === "rotary";
  const result = compute(state);
  const { pairs, product, curve, everywhere } = result;
  const moveBoth = (position) => {
    const by = position - Math.min(m, n);
    set.m(m + by);
    set.n(n + by);
  };
  const setAll = (next) => ["m", "n", "pair"].forEach((name) => set[name](next[name]));
  const resize = (wanted) => {
    set.size(wanted);
    set.pair(Math.min(pair, wanted / 2 - 1));
  };
  const lines = [
    { name: "all pairs, other m", hue: "muted", dash: "2 3", points: everywhere },
    { name: `all pairs, m = ${m}`, hue: "blue", points: curve.map((point) => [point.distance, point.product]) },
    { name: `pair ${pair} alone`, hue: "orange", dash: "5 3",
      points: curve.map((point) => [point.distance, point.parts[pair]]) },
  ];
  const heights = everywhere.map((point) => point[1]);
  const chart = {
    x: { label: "distance n − m", min: 1 - length, max: length - 1, digits: 0, count: 5 },
    y: { label: `dot product (blue), pair ${pair} alone (orange)`, digits: size > 8 ? 0 : 1, count: 4,
      min: Math.min(-1.05, ...heights) * 1.04, max: Math.max(1.05, ...heights) * 1.04 },
    marks: [{ x: n - m, y: product }, { x: n - m, y: pairs[pair].part }],
  };
  const nearest = (distance) => curve.find((point) => point.distance === distance);
  const read = [-20, -10, 0, 10, 20].map(nearest).filter(Boolean)
    .map((point) => `${format(point.distance, 0)}: ${three(point.product)}`);
  const named = (values) => values.map((value) => [value, value]);

  const controls = html`
    <div class="pos-kind">
      <${Select} label="Encoding" value=${encoding} onInput=${set.encoding} options=${named(ENCODINGS)} />
      <${Select} label=${rotary ? html`<i>d</i><sub>k</sub>` : html`<i>d</i><sub>model</sub>`} value=${size}
        onInput=${resize} options=${named(SIZES)} />
      <${Select} label="Base" value=${state.base} onInput=${set.base} options=${named(BASES)} />
    </div>
    <${Range} label=${html`<${Key} ...${M} /> ${rotary ? "Query" : "Row"} <i>m</i>`} value=${m} min=${0} max=${length - 1}
      onInput=${set.m} />
    <${Range} label=${html`<${Key} ...${N} /> ${rotary ? "Key" : "Row"} <i>n</i>`} value=${n} min=${0} max=${length - 1}
      onInput=${set.n} />
    <${Range} label="Move both" value=${Math.min(m, n)} min=${0} max=${length - 1 - Math.abs(n - m)}
      onInput=${moveBoth} show=${() => `${m}, ${n}`} />
    ${rotary && html`<${Range} label="Angle φ" value=${state.angle} min=${-180} max=${180} step=${15}
      onInput=${set.angle} show=${(angle) => `${format(angle, 0)}°`} />`}`;

  return html`<${Frame} title="Two positions" controls=${controls} lines=${[1, 2]}
    task=${html`drag <i>Move both</i>. What stays the same?`}
    shows=${html`${rotary ? html`Each pair of the query is rotated by <i>m</i>ω and each pair of the key by <i>n</i>ω, so their
        dot product depends on <i>n</i> − <i>m</i> only. Before the rotation, the angle from query to key is φ. With
        φ = 0, the dot product equals the dot product of two sinusoidal rows and is the same to the left and to the
        right. With any other φ except ±180°, it differs between left and right.`
      : html`A row has a point on a circle for each pair: its horizontal coordinate is the sine, its vertical
        coordinate the cosine. The dot product of two rows is the sum of the cosines of the angles between their
        points, so it depends on the distance only. Fast pairs distinguish neighbours, slow pairs distinguish
        distant positions.`} If both positions move, the two hands on each circle turn, but the angle between them does not change. Compare
      the bases 10 and 10000. You can also turn a hand by dragging it, or drag across the chart to move <i>n</i>.`}
    status=${`At distance ${format(n - m, 0)}, the dot product is ${three(product)} for any m; pair ${pair} adds ${
      three(pairs[pair].part)}.`}>
    <div class="pos-pairs" style=${{ "--pairs": pairs.length }}>
      <${Choice} label="Pair and its contribution" value=${pair} onInput=${set.pair}
        options=${pairs.map((each, i) => [i, html`<b>${i}</b><${Clock} ...${each} pair=${i} state=${state} onTurn=${setAll} />${" "}${format(each.part, 2)}`])} />
    </div>
    <${Views} label="View" views=${[
      ["dot product", html`<${LineChart} ...${chart} lines=${lines} height=${high} legend=${false}
        onPick=${(distance) => set.n(clamp(m + Math.round(distance), 0, length - 1))}
        label=${`Dot product of position ${m} with every position, by distance. ${
        read.join("; ")}. At distance ${format(n - m, 0)}: ${three(product)}, of which pair ${pair} adds ${
        three(pairs[pair].part)}.`} />`],
      ["table", html`<${Table} state=${state} />`],
      ["arithmetic", html`<${Arithmetic} state=${state} result=${result} />`]]} />
  <//>`;
}

export const render = live(Positions, (model) => ({
  encoding: oneOf(ENCODINGS),
  size: oneOf(SIZES),
  base: oneOf(BASES),
  m: whole(0, model.get("length") - 1),
  n: whole(0, model.get("length") - 1),
  angle: whole(-180, 180),
  pair: whole(0, SIZES.at(-1) / 2 - 1),
}));

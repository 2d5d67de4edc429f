// The roofline of a device. tfmr/widgets/roofline.py gives the costs of each computation as
// polynomials of its size.

import { html } from "./vendor/preact.js";
import { LineChart, Readings } from "./lib/chart.js";
import { Choice, Range, Select } from "./lib/controls.js";
import { count, format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { closest } from "./lib/math.js";
import { live, useTrait } from "./lib/model.js";
import { oneOf } from "./lib/state.js";
import { three, withUnit } from "./lib/scientific.js";

const TERA = 1e12;
/** The axis of the intensity: its exponents of ten. */
const [LEAST, MOST] = [-1, 3.95];

const tick = (value) => (value < 1 ? format(value, 1) : count(value));
const polynomial = ([a, b, c], size) => a + b * size + c * size ** 2;

function Roofline({ model }) {
  const computations = model.get("computations");
  const devices = model.get("devices");
  const sizes = model.get("sizes");
  const [computation, setComputation] = useTrait(model, "computation");
  const [device, setDevice] = useTrait(model, "device");
  const [size, setSize] = useTrait(model, "size");

  const [peak, bandwidth, capacity] = devices[device];
  const ridge = peak / bandwidth;
  const { unit, flops, moved, held } = computations.find(({ name }) => name === computation);
  const intensityAt = (each) => polynomial(flops, each) / polynomial(moved, each);
  const amount = (each) => `${count(each)} ${each === 1 ? unit.slice(0, -1) : unit}`;
  const intensity = intensityAt(size);
  const rate = Math.min(peak, bandwidth * intensity);
  let turn = 1;
  while (turn <= sizes.at(-1) && bandwidth * intensityAt(turn) < peak) turn += 1;
  const isMemory = bandwidth * intensity < peak;

  // The size whose intensity is closest to the place at which the reader points.
  const pick = (x) => setSize(closest(sizes, (each) => Math.abs(Math.log10(intensityAt(each)) - x), size));
  const chart = {
    x: { label: "FLOPs per byte (logarithmic axis)", min: LEAST, max: MOST, show: (power) => tick(10 ** power) },
    y: { label: "TFLOP/s (logarithmic axis)", min: 0.1, max: 2000, log: true, show: tick },
    lines: [
      { name: "memory", hue: "orange",
        points: [[LEAST, bandwidth * 10 ** LEAST / TERA], [Math.log10(ridge), peak / TERA]] },
      { name: "arithmetic", hue: "blue", points: [[Math.log10(ridge), peak / TERA], [MOST, peak / TERA]] },
    ],
    marks: [{ x: Math.log10(intensity), y: rate / TERA }],
  };
  const limit = (name, hue, costs, unit, most) => ({ name, hue,
    cells: [withUnit(polynomial(costs, size), unit), withUnit(polynomial(costs, size) / most, "s")] });
  const limits = [
    limit("memory", "orange", moved, "B", bandwidth),
    limit("arithmetic", "blue", flops, "FLOP", peak),
  ];
  const [most, fastest] = [three(peak / TERA), three(bandwidth / TERA)];
  // The first state omits the answer to the prediction in the chapter.
  const end = size === sizes[0] ? "" : turn > sizes.at(-1)
    ? ` Memory is the limit up to ${amount(turn - 1)}.` : ` Arithmetic is the limit from ${amount(turn)} on.`;
  const needed = polynomial(held, size);
  const excess = needed > capacity ? ` The data, ${withUnit(needed, "B")}, exceed the memory of ${withUnit(capacity, "B")}.` : "";
  const status = `${amount(size)}: ${three(intensity)} FLOPs per byte, ${isMemory ? "fewer than" : "at least"} ${
    most} ÷ ${fastest} = ${three(ridge)}, so ${isMemory ? "memory" : "arithmetic"} limits the rate to ${
    three(rate / TERA)} TFLOP/s, ${three(100 * rate / peak)} % of the peak.${end}${excess}`;

  const controls = html`
    <div class="roo-computation"><${Select} label="Computation" value=${computation} onInput=${setComputation}
      options=${computations.map(({ name }) => [name, name])} /></div>
    <${Range} label="Size" value=${sizes.indexOf(size)} min=${0} max=${sizes.length - 1}
      onInput=${(i) => setSize(sizes[i])} show=${(i) => amount(sizes[i])} />
    <${Choice} label="Device" value=${device} onInput=${setDevice}
      options=${Object.keys(devices).map((name) => [name, name])} />`;

  return html`<${Frame} title="The roofline" controls=${controls} lines=${[3, 6]}
    task="drag the point to the right, until arithmetic limits the rate."
    shows=${html`A computation takes at least the time of its operations at the peak rate, and at least the time to
      transfer its bytes. The longer of the two times bounds the rate; plotted against the FLOPs per byte,
      this bound has the shape of a roof. On its slope memory is the limit, on its flat part arithmetic. A matrix product multiplies
      vectors by <i>d</i> × <i>d</i> weights. A decoding step generates one token for each text: the texts share the
      reading of the weights, but each reads a cache of its own, of 128 or 8,192 tokens. Prefill attention processes all
      tokens of a text at once, here in one layer, without a mask: stored, its scores and attention weights are each written to
      memory and read again; tiled, they remain on the chip. An addition moves three numbers per operation, whatever the size.
      Numbers have 16 bits. Where no <i>d</i> is given, the sizes are those of Llama 3 8B; only prefill attention has as many
      key heads as query heads, 32 instead of 8. The capacity of the memory does not change the bound; the status line states where the data exceed it.`}
    status=${status}>
    <${LineChart} label=${`Roofline of an ${device}: slope of ${fastest} TB/s up to ${
      three(ridge)} FLOPs per byte, then ${most} TFLOP/s. ${computation}, ${amount(size)}: ${
      three(intensity)} FLOPs per byte, at most ${three(rate / TERA)} TFLOP/s.`} ...${chart} onPick=${pick}
      legend=${false} height=${(width) => (width < 360 ? 170 : 230)} />
    <${Readings} caption="The two limits" columns=${["limit", "amount", "least time"]} rows=${limits} />
  <//>`;
}

export const render = live(Roofline, (model) => ({
  computation: oneOf(model.get("computations").map(({ name }) => name)),
  device: oneOf(Object.keys(model.get("devices"))),
  size: oneOf(model.get("sizes")),
}));

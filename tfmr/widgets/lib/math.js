// The arithmetic that several figures need. Vectors are arrays, matrices are arrays of rows.

/** The dot product of two vectors. */
export function dot(a, b) {
  return a.reduce((sum, each, i) => sum + each * b[i], 0);
}

/** softmax(scores); a score of −∞ has weight 0. With no finite score the weights are NaN. */
export function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, each) => sum + each, 0);
  return powers.map((power) => power / total);
}

/** The number, at least `low` and at most `high`. */
export function clamp(number, low, high) {
  return Math.min(high, Math.max(low, number));
}

/** A linear map from the range [a, b] to the range [c, d]. */
export function scale([a, b], [c, d]) {
  return (x) => c + ((x - a) / (b - a || 1)) * (d - c);
}

/** The one of `values` with the least distance(value); of several, `current` or else the first. */
export function closest(values, distance, current) {
  return values.reduce((best, each) => (distance(each) < distance(best) ? each : best), current);
}

/** About `wanted` round numbers from `low` to `high`. */
export function ticks(low, high, wanted = 5) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((each) => each * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

// Numbers and lists as text.

/** The number with a fixed count of decimals, a true minus sign, no negative zero, ∞ as such. */
export function format(number, digits = 2) {
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "undefined" : number < 0 ? "−∞" : "∞";
  const text = number.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** A whole number with commas between thousands: 37,000,000. */
export function count(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "a, b and c". */
export function listed(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

/** The indices of `values` in groups from the largest to the smallest; equal as printed is equal. */
export function ranking(values, digits) {
  const groups = new Map();
  values.forEach((value, i) => {
    const key = Number(value.toFixed(digits));
    groups.set(key, [...(groups.get(key) ?? []), i]);
  });
  return [...groups.entries()].sort(([a], [b]) => b - a).map(([, indices]) => indices);
}

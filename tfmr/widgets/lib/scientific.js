// Numbers of very different size as text.

import { format } from "./format.js";

const SUPERSCRIPT = { "−": "⁻", ...Object.fromEntries([..."⁰¹²³⁴⁵⁶⁷⁸⁹"].map((sign, i) => [i, sign])) };

/** A whole number as an exponent: ⁻¹². */
export function exponent(number) {
  return [...format(number, 0)].map((sign) => SUPERSCRIPT[sign]).join("");
}

const PREFIXES = [[1e-12, "p"], [1e-9, "n"], [1e-6, "µ"], [1e-3, "m"], [1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]];

/** A positive amount with three significant digits and the prefix of its unit: 1.05 GB, 34.9 µs. */
export function withUnit(amount, unit) {
  const [size, prefix] = PREFIXES.findLast(([least]) => amount >= least) ?? PREFIXES[0];
  return `${three(amount / size)} ${prefix}${unit}`;
}

/** A number with three significant digits: 0.0123, 5.66, 12.1, 1230; `digits` of them in 4.5·10⁷. */
export function three(number, digits = 2) {
  if (number !== 0 && (Math.abs(number) >= 1e5 || Math.abs(number) < 1e-3)) {
    const [mantissa, power] = number.toExponential(digits - 1).split("e").map(Number);
    return `${format(mantissa, digits - 1)}·10${exponent(power)}`;
  }
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(number) || 1)));
  return format(number, decimals);
}

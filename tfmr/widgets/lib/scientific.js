// Numbers of very different size as text.

import { format } from "./format.js";

const SUPERSCRIPT = { "−": "⁻", ...Object.fromEntries([..."⁰¹²³⁴⁵⁶⁷⁸⁹"].map((sign, i) => [i, sign])) };

/** A whole number as an exponent: ⁻¹². */
export function exponent(number) {
  return [...format(number, 0)].map((sign) => SUPERSCRIPT[sign]).join("");
}

/** A number with three significant digits: 0.0123, 5.66, 12.1, 1230, and two as in 4.5·10⁷. */
export function three(number) {
  if (number !== 0 && (Math.abs(number) >= 1e5 || Math.abs(number) < 1e-3)) {
    const [mantissa, power] = number.toExponential(1).split("e").map(Number);
    return `${format(mantissa, 1)}·10${exponent(power)}`;
  }
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(number) || 1)));
  return format(number, digits);
}

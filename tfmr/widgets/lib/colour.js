// Colours of values. The hues are custom properties of figure.css, so they follow the page's theme.

/** The background of a value from 0 (page) to `limit` in the hue `--live-HUE`. */
export function heat(value, limit = 1, hue = "blue") {
  const part = Math.min(1, Math.abs(value) / limit) || 0;
  return `color-mix(in srgb, var(--live-${hue}) calc(${part.toFixed(4)} * var(--live-depth)), var(--live-page))`;
}

/** The background of a signed value: orange below zero, blue above. */
export function signedHeat(value, limit = 1) {
  return heat(value, limit, value < 0 ? "orange" : "blue");
}

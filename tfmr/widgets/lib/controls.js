// Native, labelled controls. Each has a `label`, a `value`, and a function that takes the new value.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { format } from "./format.js";

let created = 0;

/** An id for an element of this component, unique on the page. */
export function useId() {
  return useState(() => `live-${(created += 1)}`)[0];
}

/** Whether the reader's system asks for less motion. */
export function reducedMotion() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * A slider with its value: `show(value)` is the text of the value. A finger that swipes over it to
 * scroll the page sets a value before the browser cancels the touch; the old value then returns.
 */
export function Range({ label, value, onInput, min, max, step = 1, digits = 0, show }) {
  const id = useId();
  const before = useRef(value);
  const text = show ? show(value) : format(value, digits);
  return html`<div class="live-range">
    <label for=${id}>${label}</label>
    <input id=${id} type="range" min=${min} max=${max} step=${step} value=${value}
      aria-valuetext=${text} onPointerDown=${() => { before.current = value; }}
      onPointerCancel=${() => onInput(before.current)} onInput=${(event) => onInput(Number(event.target.value))} />
    <span class="live-output" aria-hidden="true">${text}</span>
  </div>`;
}

/** One of a few values: radio buttons. `options` are pairs [value, text]. */
export function Choice({ label, value, onInput, options }) {
  const id = useId();
  return html`<fieldset class="live-choice">
    <legend>${label}</legend>
    ${options.map(([option, text]) => html`<label key=${option}>
      <input type="radio" name=${id} checked=${option === value} onInput=${() => onInput(option)} />
      <span>${text}</span>
    </label>`)}
  </fieldset>`;
}

/** One of many values: a drop-down list. `options` are pairs [value, text]. */
export function Select({ label, value, onInput, options }) {
  const id = useId();
  return html`<div class="live-select">
    <label for=${id}>${label}</label>
    <select id=${id} onInput=${(event) => onInput(options[event.target.selectedIndex][0])}>
      ${options.map(([option, text]) => html`<option key=${option} selected=${option === value}>${text}</option>`)}
    </select>
  </div>`;
}

/**
 * Views of one result, of which a narrow figure shows one at a time; the height is that of the
 * highest. label: the name of the choice. views: pairs [name, content]. together: whether a wide
 * figure shows all of them, side by side.
 */
export function Views({ label, views, together = false }) {
  const [shown, show] = useState(views[0][0]);
  return html`<div class="live-views ${together ? "live-together" : ""}">
    <${Choice} label=${label} value=${shown} onInput=${show} options=${views.map(([name]) => [name, name])} />
    <div class="live-stack">${views.map(([name, content]) =>
      html`<div key=${name} class="live-view" data-shown=${String(name === shown)}>${content}</div>`)}</div>
  </div>`;
}

/** A check box. */
export function Check({ label, value, onInput }) {
  return html`<label class="live-check">
    <input type="checkbox" checked=${value} onInput=${(event) => onInput(event.target.checked)} />
    <span>${label}</span>
  </label>`;
}

/** A button. */
export function Button({ label, onClick }) {
  return html`<button type="button" onClick=${onClick}>${label}</button>`;
}

/**
 * Steps 0 … max: back, next, a slider, and play, which is left out where the reader's system asks
 * for less motion. `show(step)` is the text of a step; `onPlaying` is told whether it plays.
 */
export function Stepper({ label, value, onInput, max, show, onPlaying = () => {}, milliseconds = 900 }) {
  const [playing, setPlaying] = useState(false);
  const runs = playing && value < max;
  useEffect(() => onPlaying(runs), [runs]);
  useEffect(() => {
    if (!runs) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => onInput(value + 1), milliseconds);
    return () => clearTimeout(timer);
  }, [runs, value]);
  const to = (step) => {
    setPlaying(false);
    onInput(step);
  };
  const play = () => {
    if (!runs && value >= max) onInput(0);
    setPlaying(!runs);
  };
  return html`<div class="live-stepper">
    <${Range} label=${label} value=${value} min=${0} max=${max} onInput=${to} show=${show} />
    <span class="live-buttons">
      <${Button} label="Back" onClick=${() => to(Math.max(0, value - 1))} />
      ${!reducedMotion() && html`<${Button} label=${runs ? "Pause" : "Play"} onClick=${play} />`}
      <${Button} label="Next" onClick=${() => to(Math.min(max, value + 1))} />
    </span>
  </div>`;
}

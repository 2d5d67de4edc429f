// What surrounds every figure: title, what to try, controls, drawing, what it shows, status line.

import { html, useContext, useLayoutEffect, useReducer, useRef } from "../vendor/preact.js";
import { LiveContext } from "./model.js";

/**
 * The status line. It is announced when its text changes, and also when the reader has operated a
 * control and the text is the same. `quiet` while a figure plays: only the last text is announced.
 */
function Status({ text, acted, quiet }) {
  const shown = useRef({ text, acted, line: text, number: 0 });
  const last = shown.current;
  if (last.text !== text) {
    shown.current = { text, acted, line: text, number: last.number + 1 };
  } else if (last.acted !== acted) {
    shown.current = { text, acted, line: `Unchanged: ${text}`, number: last.number + 1 };
  }
  const { line, number } = shown.current;
  return html`<p class="live-status" role="status" aria-live=${quiet ? "off" : "polite"}>
    <span key=${number}>${line}</span>
  </p>`;
}

/**
 * The frame of a figure.
 *
 * title: a few words. task: what to try, a sentence without "Try:". controls: the control elements.
 * children: the drawing. shows: what the figure shows, one or two sentences. status: the current
 * result as a sentence, with its numbers. quiet: whether the figure plays at the moment.
 */
export function Frame({ title, task, controls, shows, status, quiet = false, children }) {
  const { reset, wasReset } = useContext(LiveContext);
  const [acted, act] = useReducer((number) => number + 1, 0);
  const button = useRef(null);
  useLayoutEffect(() => {
    if (wasReset) button.current.focus();
  }, []);
  return html`<div class="live" role="group" aria-label="Live figure: ${title}"
    onInputCapture=${act} onClickCapture=${(event) => event.target.closest("button") && act()}>
    <p class="live-title">${title}</p>
    <p class="live-task"><b>Try:</b> ${task}</p>
    <div class="live-controls">
      ${controls}
      <button type="button" class="live-reset" ref=${button} onClick=${reset}>Reset</button>
    </div>
    <div class="live-drawing">${children}</div>
    <${Status} text=${status} acted=${acted} quiet=${quiet} />
    <p class="live-shows"><b>What it shows:</b> ${shows}</p>
  </div>`;
}

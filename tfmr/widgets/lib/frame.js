// What surrounds every figure: title, what to try, controls, drawing, what it shows, status line.

import { html, useContext, useLayoutEffect, useReducer, useRef } from "../vendor/preact.js";
import { LiveContext } from "./model.js";
import { Present, Share } from "./tools.js";

/**
 * The status line. It is announced when its text changes, and also, as unchanged, when the reader
 * has operated a control (`unchanged` counts that) and the text is the same. `quiet` while a figure
 * plays: only the last text is announced.
 */
function Status({ text, unchanged, quiet }) {
  const last = useRef({ text, unchanged, line: text, number: 0 });
  const { number } = last.current;
  if (last.current.text !== text) {
    last.current = { text, unchanged, line: text, number: number + 1 };
  } else if (last.current.unchanged !== unchanged) {
    last.current = { text, unchanged, line: `Unchanged: ${text}`, number: number + 1 };
  }
  // A new key makes a new element, which is announced even if it has the same text.
  return html`<p class="live-status" role="status" aria-live=${quiet ? "off" : "polite"}>
    <span key=${last.current.number}>${last.current.line}</span>
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
  const { reset, wasReset, fault, addresses } = useContext(LiveContext);
  const [unchanged, tellUnchanged] = useReducer((number) => number + 1, 0);
  const [isFaultRead, hideFault] = useReducer(() => true, fault === "");
  const button = useRef(null);
  const current = useRef(status);
  current.current = status;
  const compare = () => {
    hideFault();
    const before = current.current;
    setTimeout(() => current.current === before && tellUnchanged());
  };
  useLayoutEffect(() => {
    if (wasReset) button.current.focus();
  }, []);
  return html`<div class="live" role="group" aria-label="Live figure: ${title}"
    onInputCapture=${compare} onClickCapture=${(event) => event.target.closest("button:not(.live-tools *)") && compare()}>
    <div class="live-head">
      <p class="live-title">${title}</p>
      <div class="live-tools">
        ${addresses && html`<${Share} title=${title} addresses=${addresses} />`}
        <${Present} />
        <button type="button" class="live-reset" ref=${button} onClick=${reset}>Reset</button>
      </div>
    </div>
    <p class="live-task"><b>Try:</b> ${task}</p>
    <div class="live-controls">${controls}</div>
    <div class="live-drawing">${children}</div>
    <${Status} text=${isFaultRead ? status : `${fault} ${status}`} unchanged=${unchanged} quiet=${quiet} />
    <p class="live-shows"><b>What it shows:</b> ${shows}</p>
  </div>`;
}

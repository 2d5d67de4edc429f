// What surrounds every figure: title, what to try, controls, drawing, status line, what it shows.

import { html, useContext, useLayoutEffect, useReducer, useRef } from "../vendor/preact.js";
import { LiveContext } from "./model.js";
import { Present, Share } from "./tools.js";

/**
 * The status line. It is announced when its text changes, and also, as before, when the reader
 * has operated a control (`unchanged` counts that) and the text is the same. `quiet` while a figure
 * plays: only the last text is announced. `lines`: how many lines are reserved, so that no other
 * text moves what is below.
 */
function Status({ text, unchanged, quiet, lines: [wide, narrow] }) {
  const last = useRef({ text, unchanged, line: text, number: 0 });
  const { number } = last.current;
  if (last.current.text !== text) {
    last.current = { text, unchanged, line: text, number: number + 1 };
  } else if (last.current.unchanged !== unchanged) {
    last.current = { text, unchanged, line: `As before: ${text}`, number: number + 1 };
  }
  // A new key makes a new element, which is announced even if it has the same text.
  return html`<p class="live-status" role="status" aria-live=${quiet ? "off" : "polite"}
    style=${{ "--lines": wide, "--lines-narrow": narrow }}>
    <span key=${last.current.number}>${last.current.line}</span>
  </p>`;
}

/**
 * The frame of a figure. Controls and drawing are beside each other where both fit, so that a reader
 * sees what a control changes.
 *
 * title: a few words. task: what to try, one short sentence without "Try:". controls: the control
 * elements. children: the drawing. status: the current result as a sentence, with its numbers.
 * lines: the most lines of the status on a wide and on a narrow figure. shows: what the figure shows
 * and what else to try, folded. quiet: whether the figure plays at the moment. above: whether the
 * controls are above the drawing, also where the drawing would fit beside them.
 */
export function Frame({ title, task, controls, shows, status, lines = [2, 3], above = false, quiet = false, children }) {
  const { reset, wasReset, fault, addresses } = useContext(LiveContext);
  const [unchanged, tellUnchanged] = useReducer((number) => number + 1, 0);
  const [isFaultRead, hideFault] = useReducer(() => true, fault === "");
  const button = useRef(null);
  const current = useRef(status);
  current.current = status;
  const compare = ({ target }) => {
    hideFault();
    // Typing does not operate the figure yet.
    if (target.matches("textarea")) return;
    const before = current.current;
    setTimeout(() => current.current === before && tellUnchanged());
  };
  useLayoutEffect(() => {
    if (wasReset) button.current.focus();
  }, []);
  return html`<div class="live" role="group" aria-label="Live figure: ${title}"
    onInputCapture=${compare} onClickCapture=${(event) => event.target.closest("button:not(.live-tools *)") && compare(event)}>
    <div class="live-head">
      <p class="live-title">${title}</p>
      <div class="live-tools">
        ${addresses && html`<${Share} title=${title} addresses=${addresses} />`}
        <${Present} />
        <button type="button" class="live-reset" ref=${button} onClick=${reset}>Reset</button>
      </div>
    </div>
    <p class="live-task"><b>Try:</b> ${task}</p>
    <div class=${above ? "live-body" : "live-body live-beside"}>
      <div class="live-controls">${controls}</div>
      <div class="live-drawing">${children}</div>
    </div>
    <${Status} text=${isFaultRead ? status : `${fault} ${status}`} unchanged=${unchanged} quiet=${quiet} lines=${lines} />
    <details class="live-shows"><summary>What it shows</summary><p>${shows}</p></details>
  </div>`;
}

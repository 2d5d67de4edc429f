// Translation of what a reader types: the text field, the button that loads the model, and the model,
// which computes in short slices of time, so that the page responds meanwhile, also where a page may
// not start a worker.

import { Button, useId } from "./lib/controls.js";
import { format } from "./lib/format.js";
import { shared } from "./lib/page.js";
import { loadModel } from "./loading.js";
import { encodeSentence } from "./sentences.js";
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { readModel } from "./weights.js";

/** Milliseconds of computing before the page may respond to the reader. */
const SLICE = 12;

/** The result of a generator, computed in slices. `onPause` is told what it pauses with. */
async function inSlices(generator, signal, onPause) {
  for (let last = performance.now(); ; ) {
    const { value, done } = generator.next();
    if (done) return value;
    if (performance.now() - last > SLICE) {
      onPause(value);
      await new Promise((resume) => setTimeout(resume));
      last = performance.now();
    }
    signal.throwIfAborted();
  }
}

/**
 * Translations by the model `name`, one at a time. `activity` is what happens at the moment, or null.
 * `run(sentence, compute, onDone)` loads the model where needed and calls `onDone` with
 * { model, source, translation, seconds }, or with { message } for the reader; the translation is the
 * result of the generator `compute(model, source)`, such as translate() in sentences.js. `stop()` cancels,
 * and `onDone` is called with a message; after `drop()`, and when the figure is removed or reset, it is
 * not called.
 */
export function useTranslations(widget, name) {
  const [activity, setActivity] = useState(null);
  const running = useRef(null);
  const stop = () => running.current?.abort(new Error("Cancelled."));
  const drop = () => {
    stop();
    running.current = null;
    setActivity(null);
  };
  useEffect(() => drop, []);

  async function run(sentence, compute, onDone) {
    stop();
    const control = new AbortController();
    running.current = control;
    const { signal } = control;
    const current = () => running.current === control;
    const show = (next) => current() && setActivity(next);
    try {
      if (!shared.has(name)) {
        show({ text: "Loading the model", bytes: 0 });
        const onProgress = (bytes) => show({ text: "Loading the model", bytes });
        const content = await loadModel(widget, name, { signal, onProgress });
        signal.throwIfAborted();
        shared.set(name, readModel(content));
      }
      const model = shared.get(name);
      const source = encodeSentence(model, sentence);
      const start = performance.now();
      const onPause = (prefix) => show({ text: `Translating: ${prefix}` });
      const translation = await inSlices(compute(model, source), signal, onPause);
      onDone({ model, source, translation, seconds: (performance.now() - start) / 1000 });
    } catch (error) {
      if (current()) onDone({ message: error.message });
    }
    show(null);
  }

  return { activity, isLoaded: shared.has(name), run, stop, drop };
}

const megabytes = (bytes) => `${format(bytes / 1e6, 1)} MB`;

/** The text to translate; Enter translates, Shift and Enter begin a line. */
function Sentence({ label, value, language, rows, onInput, onEnter }) {
  const id = useId();
  const key = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    onEnter();
  };
  return html`<div class="tra-sentence">
    <label for=${id}>${label}</label>
    <textarea id=${id} rows=${rows} lang=${language} value=${value} spellcheck=${false}
      onInput=${(event) => onInput(event.target.value)} onKeyDown=${key}></textarea>
  </div>`;
}

/**
 * The text field and its buttons. `shipped` describes the model, `translations` is what
 * useTranslations() returns, `verb` is what the button does, in lower case.
 */
export function SentenceForm({ shipped, translations, text, onInput, onRun, verb, rows = 2 }) {
  const { activity, isLoaded, stop } = translations;
  const action = isLoaded
    ? `${verb[0].toUpperCase()}${verb.slice(1)}`
    : `Load the model (${megabytes(shipped.bytes)}) and ${verb}`;
  return html`<div class="tra-input">
    <${Sentence} label=${`Sentence in ${shipped.source}`} value=${text} language=${shipped.codes[0]} rows=${rows}
      onInput=${onInput} onEnter=${onRun} />
    <div class="tra-actions">
      <${Button} label=${action} onClick=${onRun} />
      ${activity && html`<${Button} label="Cancel" onClick=${stop} />`}
    </div>
    ${activity?.bytes !== undefined && html`<p class="tra-progress">
      <progress aria-label="Loading the model" max=${shipped.bytes} value=${activity.bytes}></progress>
      ${megabytes(activity.bytes)} of ${megabytes(shipped.bytes)}</p>`}
  </div>`;
}

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

/** The reason of an end that is not shown to the reader. */
const DROPPED = new Error("Dropped.");

/**
 * Translations by the model `name`, one at a time. `activity` is what happens at the moment, or null.
 * `run(sentence, compute, onDone)` loads the model where needed and calls `onDone` with
 * { model, source, translation, seconds }, or with { message, isLoaded }, a message for the reader and
 * whether the model is there; the translation is the result of the generator `compute(model, source)`,
 * such as translate() in sentences.js. `prepare(onDone)` only loads the model, and calls `onDone` with a
 * message if that fails. `stop()` cancels, and `onDone` is called with a message; after `drop()`, and when
 * the figure is removed or reset, it is not called. `abandon()` drops the translation, but not the loading.
 */
export function useTranslations(widget, name) {
  const [activity, setActivity] = useState(null);
  const running = useRef(null);
  const loading = useRef(null);
  const end = (reason) => {
    for (const { current } of [running, loading]) current?.control.abort(reason);
    loading.current = null;
    setActivity(null);
  };
  const stop = () => end(new Error("Cancelled."));
  const drop = () => end(DROPPED);
  const abandon = () => {
    running.current?.control.abort(DROPPED);
    if (!loading.current) setActivity(null);
  };
  useEffect(() => drop, []);

  const newControl = () => {
    const control = new AbortController();
    const show = (next) => control.signal.aborted || setActivity(next);
    return { control, signal: control.signal, show };
  };
  const tell = (onDone) => (error) =>
    error !== DROPPED && onDone({ message: error.message, isLoaded: shared.has(name) });

  /** Load the model, once, however often it is wanted meanwhile. */
  async function load() {
    if (shared.has(name)) return;
    if (loading.current?.name !== name) {
      loading.current?.control.abort(DROPPED);
      const { control, signal, show } = newControl();
      const onProgress = (bytes) => show({ text: "Loading the model", bytes });
      onProgress(0);
      const promise = loadModel(widget, name, { signal, onProgress }).then((content) => {
        signal.throwIfAborted();
        shared.set(name, readModel(content));
      }).catch((error) => {
        // Some browsers reject with an error of their own instead of the reason.
        throw signal.aborted ? signal.reason : error;
      }).finally(() => {
        if (loading.current?.control === control) loading.current = null;
        show(null);
      });
      loading.current = { name, control, promise };
    }
    await loading.current.promise;
  }
  const prepare = (onDone) => load().catch(tell(onDone));

  async function run(sentence, compute, onDone) {
    running.current?.control.abort(DROPPED);
    const { control, signal, show } = newControl();
    running.current = { control };
    try {
      await load();
      signal.throwIfAborted();
      const model = shared.get(name);
      const source = encodeSentence(model, sentence);
      const start = performance.now();
      const onPause = (prefix) => show({ text: `Translating: ${prefix}` });
      const translation = await inSlices(compute(model, source), signal, onPause);
      onDone({ model, source, translation, seconds: (performance.now() - start) / 1000 });
    } catch (error) {
      tell(onDone)(signal.aborted ? signal.reason : error);
    }
    show(null);
  }

  return { activity, isLoaded: shared.has(name), prepare, run, stop, drop, abandon };
}

export const megabytes = (bytes) => `${format(bytes / 1e6, 1)} MB`;

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
 * useTranslations() returns, `verb` is what the button does, in lower case. `isAsked`: whether the reader
 * is asked before the model is loaded.
 */
export function SentenceForm({ shipped, translations, text, onInput, onRun, verb, rows = 2, isAsked = true }) {
  const { activity, isLoaded, stop } = translations;
  const action = isLoaded || !isAsked
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

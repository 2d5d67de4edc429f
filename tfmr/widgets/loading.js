// Gets the file of a model: on a page from the site, in a notebook from Python.

import { parseModel } from "./weights.js";

/** The address of this figure's script on a page; undefined in a notebook. */
const SCRIPT = document.currentScript?.src;

/**
 * The object in the file of the model `name`. `onProgress` is told how many bytes have arrived.
 * Throws an Error with a sentence for the reader.
 */
export async function loadModel(widget, name, { signal, onProgress }) {
  if (!SCRIPT) return parseModel(await fromPython(widget, name, signal));
  // The version in the address of the script is also that of the models.
  const address = new URL(`../models/${name}.js${new URL(SCRIPT).search}`, SCRIPT).href;
  // A page that was opened from a folder may not fetch files, but it may run scripts.
  if (address.startsWith("file:")) return fromScript(address, signal);
  return parseModel(await fromSite(address, signal, onProgress));
}

async function fromSite(address, signal, onProgress) {
  const response = await fetch(address, { signal }).catch((error) => {
    if (signal.aborted) throw error;
    throw new Error("The model could not be loaded: the site cannot be reached. Try again later.");
  });
  if (!response.ok) {
    throw new Error(`The model could not be loaded: the server responded with status ${response.status}.`);
  }
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let text = "";
  for (let received = 0; ; ) {
    const { value, done } = await reader.read();
    if (done) return text + decoder.decode();
    received += value.length;
    text += decoder.decode(value, { stream: true });
    onProgress(received);
  }
}

function fromScript(address, signal) {
  return new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: address });
    const end = (settle, value) => {
      script.remove();
      settle(value);
    };
    window.tfmrModel = (content) => end(resolve, content);
    script.onload = () => end(reject, new Error("The model file is incomplete."));
    script.onerror = () =>
      end(reject, new Error("The model could not be loaded: the model file is missing from this copy of the site."));
    signal.addEventListener("abort", () => end(reject, signal.reason));
    document.head.append(script);
  });
}

/** Python answers the message { load: name } with { model: name } or { error } and a buffer. */
function fromPython(widget, name, signal) {
  return new Promise((resolve, reject) => {
    const receive = (content, buffers) => {
      if (content.model !== name) return;
      widget.off("msg:custom", receive);
      if (content.error) reject(new Error(content.error));
      else resolve(new TextDecoder().decode(buffers[0]));
    };
    widget.on("msg:custom", receive);
    signal.addEventListener("abort", () => {
      widget.off("msg:custom", receive);
      reject(signal.reason);
    });
    widget.send({ load: name });
  });
}

// What a reader does with a figure as a whole: share it in its present state, and present it.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { Button, useId } from "./controls.js";

const inAttribute = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");

/** The line of HTML that shows a figure in another page. */
function lineOf(address, title, height) {
  return `<iframe src="${inAttribute(address)}" title="${inAttribute(title)}" width="100%" height="${height}" style="border: 0" `
    + 'allow="clipboard-write; fullscreen" loading="lazy"></iframe>';
}

/** A text to copy. It can always be selected, also where a page may not write to the clipboard. */
function Copied({ label, action, text, onCopy }) {
  const id = useId();
  const field = useRef(null);
  const copy = async ({ currentTarget }) => {
    field.current.focus();
    field.current.select();
    const done = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    const copied = done || document.execCommand("copy"); // on http:// from another machine
    if (copied) currentTarget.focus();
    onCopy(copied);
  };
  return html`<div class="live-copied">
    <label for=${id}>${label}</label>
    <input id=${id} ref=${field} readonly value=${text} onFocus=${({ target }) => target.select()} />
    <${Button} label=${action} onClick=${copy} />
  </div>`;
}

/** A button that opens the addresses of the figure in its present state. */
export function Share({ title, addresses }) {
  const [isOpen, open] = useState(false);
  const [message, tell] = useState("");
  const part = useRef(null);
  const button = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const leave = ({ target }) => part.current.contains(target) || open(false);
    document.addEventListener("click", leave);
    return () => document.removeEventListener("click", leave);
  }, [isOpen]);
  const toggle = () => {
    tell("");
    open(!isOpen);
  };
  const close = ({ key }) => {
    if (key !== "Escape" || !isOpen) return;
    open(false);
    button.current.focus();
  };
  const panel = () => {
    const { page, alone } = addresses();
    if (!page) return html`<p>This state is too long for an address. Shorten the text, or reset the figure.</p>`;
    const told = (name) => (copied) => tell(copied ? `${name} copied` : `Not copied: copy the selected text yourself.`);
    const { clientWidth, clientHeight } = part.current.closest(".live");
    return html`
      <${Copied} label="This figure in this state" action="Copy link" text=${page} onCopy=${told("Link")} />
      <${Copied} label="HTML that embeds it in a page" action="Copy HTML" onCopy=${told("HTML")}
        text=${lineOf(alone, title, clientHeight + 80)} />
      <p role="status">${message}</p>`;
  };
  return html`<div class="live-share" ref=${part} onKeyDown=${close}>
    <button type="button" ref=${button} aria-expanded=${isOpen} onClick=${toggle}>Share</button>
    ${isOpen && html`<div class="live-panel" role="group" aria-label="Share this figure">${panel()}</div>`}
  </div>`;
}

/**
 * Enlarge a figure that fills a screen, as far as all of it is visible. Its text has the height of a
 * line on a slide: between a fortieth and a twenty-fifth of the height of the screen.
 */
function enlarge(live) {
  const { clientWidth, clientHeight } = live.parentElement;
  const [smallest, largest] = [576, 360].map((lines) => Math.max(1, Math.min(clientHeight / lines, clientWidth / 736)));
  const scrolls = (element) => element.scrollHeight > element.clientHeight;
  for (let zoom = largest; ; zoom = Math.max(smallest, zoom - 0.1)) {
    live.style.setProperty("zoom", zoom);
    if (zoom === smallest || ![live, ...live.querySelectorAll(".live-body, .live-body > *")].some(scrolls)) return;
  }
}

/** A button that shows the figure alone on the whole screen, and leaves it. */
export function Present() {
  const button = useRef(null);
  const [isPresented, setPresented] = useState(false);
  // The element around the figure: it remains when Reset replaces the figure.
  const place = () => button.current.closest(".live").parentElement;
  useLayoutEffect(() => {
    if (!document.fullscreenEnabled) return undefined;
    const update = () => {
      const now = document.fullscreenElement === place();
      setPresented((before) => {
        if (before && !now) button.current.focus();
        return now;
      });
      const live = button.current.closest(".live");
      if (now) enlarge(live);
      else live.style.removeProperty("zoom");
    };
    update();
    document.addEventListener("fullscreenchange", update);
    window.addEventListener("resize", update);
    return () => {
      document.removeEventListener("fullscreenchange", update);
      window.removeEventListener("resize", update);
    };
  }, []);
  if (!document.fullscreenEnabled) return null;
  const toggle = () => (isPresented ? document.exitFullscreen() : place().requestFullscreen());
  return html`<button type="button" class="live-present" ref=${button} onClick=${toggle}>
    ${isPresented ? "Exit" : "Present"}</button>`;
}

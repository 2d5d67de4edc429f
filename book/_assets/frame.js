// The frame of a page: colours, sidebars, menus, copy buttons, contents that follow the reader, and areas
// that scroll.

const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);

// What the site remembers, on the device or for the visit; where storage is blocked, a choice holds for the page.
function stored(area, name) {
  try {
    return window[area].getItem(name);
  } catch {
    return null;
  }
}

function store(area, name, value) {
  try {
    window[area].setItem(name, value);
  } catch {
    // Blocked.
  }
}

/** A function that runs another one before the next frame, once, however often it is called. */
function perFrame(run) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      run();
    });
  };
}

function svg(path) {
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const attributes = { viewBox: "0 0 16 16", width: "1em", height: "1em", fill: "currentColor", "aria-hidden": "true" };
  for (const [name, value] of Object.entries(attributes)) drawing.setAttribute(name, value);
  drawing.classList.add("icon");
  shape.setAttribute("d", path);
  drawing.append(shape);
  return drawing;
}

// Colours

const MODES = { auto: "system setting", light: "light", dark: "dark" };
const system = matchMedia("(prefers-color-scheme: dark)");

function setMode(mode) {
  root.dataset.mode = mode;
  root.dataset.theme = mode === "auto" ? (system.matches ? "dark" : "light") : mode;
  for (const button of all(".theme-switch-button")) {
    button.setAttribute("aria-label", `Colours: ${MODES[mode]}`);
    button.title = button.ariaLabel;
  }
}

function nextMode() {
  const order = system.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  const mode = order[(order.indexOf(root.dataset.mode) + 1) % order.length];
  setMode(mode);
  store("localStorage", "mode", mode);
}

setMode(root.dataset.mode in MODES ? root.dataset.mode : "auto");
system.addEventListener("change", () => setMode(root.dataset.mode));
for (const button of all(".theme-switch-button")) button.addEventListener("click", nextMode);

// For the idea, listings are folded that the reader can do without; for the code, all are open.

function setReading(reading) {
  for (const input of all(".reading input")) input.checked = input.value === reading;
  if (root.dataset.reading === reading) return; // keep what the reader has opened
  root.dataset.reading = reading;
  for (const details of all("details.folded")) details.open = reading === "code";
}

const chosenReading = () => stored("sessionStorage", "reading") ?? "idea";
for (const input of all(".reading input")) {
  input.addEventListener("change", () => {
    store("sessionStorage", "reading", input.value);
    setReading(input.value);
  });
}
setReading(chosenReading());

// A page that the reader goes back to takes the latest choices, whatever the browser has kept of it.
addEventListener("pageshow", () => {
  setMode(stored("localStorage", "mode") ?? root.dataset.mode);
  setReading(chosenReading());
});

// Buttons of the header

for (const button of all(".btn-fullscreen-button")) {
  if (!document.fullscreenEnabled) button.remove(); // as on an iPhone
  button.addEventListener("click", () =>
    document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
  );
}
// On a phone, the title of the page is in the header once the reader has scrolled beyond it.
const beyond = ([{ isIntersecting, boundingClientRect }]) => {
  one(".header-title").hidden = isIntersecting || boundingClientRect.top > 0;
};
const heading = one("article h1");
if (heading) new IntersectionObserver(beyond, { rootMargin: "-56px 0px 0px" }).observe(heading);

// Some browsers print an empty place for a picture that is not there yet because the reader has not come near it.
const loadPictures = () => Promise.all(all("img[loading=lazy]").map((picture) => {
  picture.loading = "eager";
  return picture.decode().catch(() => {});
}));
addEventListener("beforeprint", loadPictures);

// Paper has the hints and solutions that are open, or all of them.
for (const button of all(".btn-print-button")) {
  button.addEventListener("click", async () => {
    await loadPictures();
    root.classList.toggle("print-solutions", button.dataset.print === "solutions");
    print();
  });
}
addEventListener("afterprint", () => root.classList.remove("print-solutions"));

for (const toggle of all(".dropdown-toggle")) {
  const menu = toggle.parentElement.querySelector(".dropdown-menu");
  const show = (open) => {
    menu.classList.toggle("show", open);
    toggle.setAttribute("aria-expanded", String(open));
  };
  toggle.addEventListener("click", () => show(!menu.classList.contains("show")));
  document.addEventListener("click", ({ target }) => {
    if (!toggle.parentElement.contains(target)) show(false);
  });
  toggle.parentElement.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    show(false);
    toggle.focus();
  });
}

function closeOutside({ target, currentTarget }) {
  if (target === currentTarget) currentTarget.close();
}

// Sidebars: beside the text on a wide screen, in a dialog on a phone

const wide = matchMedia("(min-width: 992px)");

function move(from, to) {
  to.append(...from.childNodes);
  to.classList.add(...from.classList);
  from.className = "";
}

for (const side of ["primary", "secondary"]) {
  const sidebar = one(`#pst-${side}-sidebar`);
  const dialog = one(`#pst-${side}-sidebar-modal`);
  const toggle = one(`.${side}-toggle`);
  if (!sidebar || !dialog) {
    toggle?.remove();
    continue;
  }
  toggle?.addEventListener("click", () => {
    if (side === "primary" && wide.matches) {
      sidebar.classList.toggle("pst-sidebar-hidden");
      return;
    }
    move(sidebar, dialog);
    dialog.showModal();
  });
  dialog.addEventListener("close", () => {
    move(dialog, sidebar);
    toggle.focus();
  });
  dialog.addEventListener("click", (event) => {
    closeOutside(event);
    if (event.target.closest("a[href*='#']")) dialog.close();
  });
}

const chapter = all("#pst-primary-sidebar .current > a").at(-1);
if (wide.matches && chapter && chapter.offsetTop > innerHeight / 2) {
  one("#pst-primary-sidebar").scrollTop = chapter.offsetTop - innerHeight / 4;
}

// The contents of the page have the same links for the keyboard.
for (const link of all(".headerlink")) link.tabIndex = -1;

// Copy buttons

const COPY = "M4 2a2 2 0 0 1 2-2h8a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2zm2-1a1 1 0 0 0-1 1v8a1 1 0 0 0 1 1h8a1 1 0 0 0 1-1V2a1 1 0 0 0-1-1zM2 5a1 1 0 0 0-1 1v8a1 1 0 0 0 1 1h8a1 1 0 0 0 1-1v-1h1v1a2 2 0 0 1-2 2H2a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2h1v1z";
const DONE = "M13.854 3.646a.5.5 0 0 1 0 .708l-7 7a.5.5 0 0 1-.708 0l-3.5-3.5a.5.5 0 1 1 .708-.708L6.5 10.293l6.646-6.647a.5.5 0 0 1 .708 0";

const PRINTED = ".cell_output :is(.highlight-myst-ansi, .highlight-default)";

function code(block) {
  const copy = block.cloneNode(true);
  for (const prompt of copy.querySelectorAll(".linenos, .gp, .go, .copybtn")) prompt.remove();
  return copy.textContent.trimEnd();
}

/** Whether the code was copied; if not, it is selected. */
async function copy(block) {
  try {
    await navigator.clipboard.writeText(code(block));
    return true;
  } catch {
    // Not allowed, or an address with http:// on another machine, where a page has no clipboard.
  }
  const write = (event) => {
    event.clipboardData.setData("text/plain", code(block));
    event.preventDefault();
  };
  getSelection().selectAllChildren(block);
  document.addEventListener("copy", write, { once: true });
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", write);
  return copied;
}

for (const block of all("div.highlight pre").filter((each) => !each.closest(PRINTED))) {
  const button = document.createElement("button");
  button.className = "copybtn";
  button.type = "button";
  const look = (name, shape) => {
    button.setAttribute("aria-label", name);
    button.title = name;
    button.replaceChildren(svg(shape));
  };
  look("Copy", COPY);
  button.addEventListener("click", async () => {
    const copied = await copy(block);
    button.focus();
    look(copied ? "Copied" : "Press Ctrl+C to copy the selected code", copied ? DONE : COPY);
    setTimeout(look, 4000, "Copy", COPY);
  });
  block.prepend(button);
}

// Areas that scroll sideways can be reached with the keyboard. Formulas within a line never can.

const AREAS = [
  ["div.highlight pre", "Code"],
  ["div.math", "Formula"],
  [".pst-scrollable-table-container", "Table"],
  [".figure-body", "Figure"],
  [".cell_output > .output, div.cell_output", "Output"],
];

// What continues beyond the right edge fades there.
const rest = (area) => area.scrollWidth - area.clientWidth - area.scrollLeft;
const fadeEdge = ({ target }) => target.classList.toggle("continues", rest(target) > 2);

// All sizes are read before anything is changed, since reading after a change computes the layout again.
function markAreas() {
  // What is in closed details has no layout. Reading its size would compute one; opening them measures again.
  const shown = (selector) => all(selector).filter((area) => !area.closest("details:not([open])"));
  const found = AREAS.flatMap(([selector, label]) => shown(selector).map((area) => [area, label]));
  const sizes = found.map(([area]) => {
    const wider = area.scrollWidth > area.clientWidth + 1;
    const scrolls = wider && getComputedStyle(area).overflowX !== "visible";
    return [scrolls, scrolls && rest(area) > 2];
  });
  found.forEach(([area, label], i) => {
    const [scrolls, continues] = sizes[i];
    if (scrolls) {
      area.tabIndex = 0;
      area.setAttribute("role", "group");
      area.setAttribute("aria-label", `${label}, scrolls sideways`);
      area.addEventListener("scroll", fadeEdge, { passive: true });
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) area.removeAttribute(name);
      area.removeEventListener("scroll", fadeEdge);
    }
    area.classList.toggle("continues", continues);
  });
}

// An address that leads into closed details opens them. The place of a section that is on another page now
// has a link to that page; a page that is gone has nothing but such places.
function openTarget() {
  // The state of a live figure follows its name after "&".
  const [name, ...state] = location.hash.slice(1).split("&");
  const target = name ? document.getElementById(decodeURIComponent(name)) : null;
  const place = target ?? one("article .moved > li");
  if (place?.matches(".moved > li")) {
    const { href } = place.firstElementChild;
    return location.replace(target ? [href, ...state].join("&") : href);
  }
  const closed = [];
  for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) closed.push(at);
  if (closed.every((details) => details.open)) return;
  for (const details of closed) details.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();

let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(markAreas, 200);
});
const markSoon = perFrame(markAreas);
for (const details of all("details")) details.addEventListener("toggle", markSoon);
if (document.readyState === "complete") markAreas();
else addEventListener("load", markAreas);

// Where the page has no margin, a term of the glossary opens its note below the paragraph, and closes it again.

const margin = matchMedia("(min-width: 1276px)");
for (const link of all(".noted > p a[href*='glossary.html#']")) {
  const note = link.closest(".noted").querySelector(`[data-of="${CSS.escape(decodeURIComponent(link.hash.slice(1)))}"]`);
  if (!note) continue;
  const show = (open) => {
    note.classList.toggle("open", open);
    if (margin.matches) link.removeAttribute("aria-expanded");
    else link.setAttribute("aria-expanded", String(open));
  };
  show(false);
  margin.addEventListener("change", () => show(false));
  link.addEventListener("click", (event) => {
    if (margin.matches || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (!note.querySelector("a")) note.append(" ", Object.assign(document.createElement("a"), { href: link.href, textContent: "Glossary" }));
    show(!note.classList.contains("open"));
  });
}

// The contents of the page follow the reader.

const contents = one("#pst-page-toc-nav");
const places = all("a[href^='#']", contents ?? document.createElement("div"))
  .map((link) => [link, document.getElementById(decodeURIComponent(link.hash.slice(1)))])
  .filter(([, place]) => place);

let marked;

function follow() {
  const line = innerHeight * 0.3;
  const shown = places.filter(([, place]) => place.getBoundingClientRect().height > 0);
  const end = scrollY > 0 && scrollY + innerHeight >= root.scrollHeight - 2;
  const passed = shown.filter(([, place]) => end || place.getBoundingClientRect().top <= line);
  const [current] = passed.at(-1) ?? [];
  if (current === marked) return;
  marked = current;
  for (const [link] of places) {
    link.classList.toggle("active", link === current);
    if (link === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const entry of all(".toc-entry", contents)) entry.classList.toggle("active", entry.contains(current));
  const frame = contents.closest(".bd-sidebar-secondary");
  if (!frame || !current) return;
  const [outer, inner] = [frame.getBoundingClientRect(), current.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    frame.scrollTop += inner.top - outer.top - outer.height / 2;
  }
}

if (places.length) {
  const soon = perFrame(follow);
  addEventListener("scroll", soon, { passive: true });
  addEventListener("load", soon);
}

// place.js remembers where the reader stopped, if the reader asks for it.

const stopped = one(".place input");
const { src: thisScript } = document.currentScript;
function loadPlace() {
  const onerror = () => { stopped.checked = false; };
  document.head.append(Object.assign(document.createElement("script"), { src: thisScript.replace("frame.js", "place.js"), onerror }));
}
if (stopped) {
  stopped.onchange = loadPlace;
  stopped.checked = stored("localStorage", "tfmr-place") !== null;
  if (stopped.checked) loadPlace();
}

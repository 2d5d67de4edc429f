// Runs the book's live figures in a page, without a kernel. It reads the state that the notebook
// stored, loads the code of a figure when the figure comes near the window, and mounts it.
// It is a classic script and loads classic scripts, so it also works from a disk (file://).

(() => {
  "use strict";

  // The version in the address of this script is that of everything it loads.
  const HERE = new URL(document.currentScript.src);
  const WIDGETS = new URL("../widgets/", HERE);
  const PAGES = new URL(document.documentElement.dataset.content_root ?? "./", location.href);
  const NEAR = "800px";

  /** The subset of an anywidget model that a figure may use. */
  function makeModel(state) {
    const values = structuredClone(state);
    const listeners = new Map();
    return {
      get: (name) => values[name],
      set(name, value) {
        if (JSON.stringify(values[name]) === JSON.stringify(value)) return;
        values[name] = value;
        for (const listener of listeners.get(`change:${name}`) ?? []) listener();
      },
      save_changes() {},
      on(event, listener) {
        listeners.set(event, [...(listeners.get(event) ?? []), listener]);
      },
      off(event, listener) {
        listeners.set(event, (listeners.get(event) ?? []).filter((each) => each !== listener));
      },
    };
  }

  /** "tfmr.widgets.attention.AttentionFigure" is in attention.js and attention.css. */
  function fileOf(state) {
    return state._anywidget_id.split(".").at(-2);
  }

  const loading = new Map();
  /** For each place with a figure that runs, the function that removes it. */
  const stops = new Map();

  /** Load a script or a style once; what failed is loaded again. */
  function load(file) {
    if (!loading.has(file)) {
      const address = new URL(file + HERE.search, WIDGETS).href;
      const element = file.endsWith(".css")
        ? Object.assign(document.createElement("link"), { rel: "stylesheet", href: address })
        : Object.assign(document.createElement("script"), { src: address });
      loading.set(file, new Promise((done, fail) => {
        element.onload = done;
        element.onerror = () => {
          loading.delete(file);
          element.remove();
          fail(new Error(`${file} could not be loaded`));
        };
      }));
      document.head.append(element);
    }
    return loading.get(file);
  }

  async function loadFigure(name) {
    const styles = Promise.all(["shared.css", `${name}.css`].map(load));
    await load("shared.js");
    await Promise.all([load(`${name}.js`), styles]);
    return window.tfmrModules[`${name}.js`];
  }

  /** The figure and its state in the address of the page, #live-04-self-attention-1&selected=2. */
  function addressed() {
    const { name, state } = /^#(?<name>live-[^&]*)(?<state>&.*)?$/s.exec(location.hash)?.groups ?? {};
    const place = places.find(({ id }) => id === name);
    if (place || state === undefined) return { place, state };
    return { place: places[0], state: "", fault: `this page has no figure ${name.slice(0, 40)}` };
  }

  /** What a figure needs to know of its place. */
  function placeOf(element) {
    const { place, state = "", fault = "" } = addressed();
    const [, page, number] = /^live-(.*)-(\d+)$/.exec(element.id);
    const addresses = (text) => (text === undefined ? {} : {
      page: new URL(`${page}.html#${element.id}${text}`, PAGES).href,
      alone: new URL(`embed/${page}-${number}.html#${element.id}${text}`, PAGES).href,
    });
    return place === element ? { addresses, state, fault } : { addresses, state: "", fault: "" };
  }

  async function mount(place, models) {
    const view = JSON.parse(place.querySelector('script[type$="widget-view+json"]').textContent);
    const state = models[view.model_id]?.state;
    if (!state?._anywidget_id) throw new Error(`the page has no state of the figure ${view.model_id}`);
    const { render } = await loadFigure(fileOf(state));
    const el = document.createElement("div");
    el.addEventListener("live:failed", (event) => fail(place, event.detail));
    place.querySelector(".live-figure__reason")?.remove();
    // Firefox lays a figure out before it applies container queries, and scrolls by the difference.
    place.style.height = `${place.offsetHeight}px`;
    place.append(el);
    const stop = render({ model: makeModel(state), el, place: placeOf(place) });
    stops.set(place, () => {
      stop();
      el.remove();
    });
    if (place.dataset.live === "failed") return;
    place.querySelector(".live-figure__note").hidden = true;
    place.dataset.live = "ready";
  }

  /** Show the text of the figure again, the reason, and, if the figure has not begun, a button that starts it. */
  function fail(place, error) {
    place.dataset.live = "failed";
    place.querySelector(".live-figure__note").hidden = false;
    let line = place.querySelector(".live-figure__reason");
    if (!line) {
      line = document.createElement("p");
      line.className = "live-figure__reason";
      place.append(line);
    }
    line.textContent = `The live figure could not run: ${error.message}. `;
    if (place.querySelector(".live")) return;
    const again = Object.assign(document.createElement("button"), { type: "button", className: "btn", textContent: "Try again" });
    again.addEventListener("click", () => start(place).then(() => (place.querySelector("button") ?? place).focus()));
    line.append(again);
  }

  const saved = [...document.querySelectorAll('script[type$="widget-state+json"]')].map(
    (script) => JSON.parse(script.textContent).state,
  );
  const models = Object.assign({}, ...saved);
  const start = (place) => {
    place.dataset.live = "loading";
    return mount(place, models).catch((error) => fail(place, error)).finally(() => {
      place.getBoundingClientRect(); // with the height that mount sets
      place.style.removeProperty("height");
    });
  };
  const startOnce = (place) => place.dataset.live || start(place);
  const places = [...document.querySelectorAll(".live-figure")];
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) startOnce(entry.target);
  }, { rootMargin: NEAR });
  for (const place of places) observer.observe(place);
  window.addEventListener("beforeprint", () => places.forEach(startOnce));

  /** Go to the figure that the address names, and show its state. */
  function followAddress() {
    const { place, state } = addressed();
    if (!place || state === undefined) return;
    if (place.dataset.live !== "loading") {
      stops.get(place)?.();
      start(place);
    }
    place.scrollIntoView();
  }
  window.addEventListener("hashchange", followAddress);
  followAddress();
})();

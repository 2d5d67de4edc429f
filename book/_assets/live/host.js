// Runs the book's live figures in a page, without a kernel. It reads the state that the notebook
// stored, loads the code of a figure when the figure comes near the window, and mounts it.
// It is a classic script and loads classic scripts, so it also works from a disk (file://).

(() => {
  "use strict";

  // The version in the address of this script is that of everything it loads.
  const HERE = new URL(document.currentScript.src);
  const WIDGETS = new URL("../widgets/", HERE);
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

  async function mount(place, models) {
    const view = JSON.parse(place.querySelector('script[type$="widget-view+json"]').textContent);
    const state = models[view.model_id]?.state;
    if (!state?._anywidget_id) throw new Error(`the page has no state of the figure ${view.model_id}`);
    const { render } = await loadFigure(fileOf(state));
    const el = document.createElement("div");
    el.addEventListener("live:failed", (event) => fail(place, event.detail));
    place.querySelector(".live-figure__reason")?.remove();
    place.append(el);
    render({ model: makeModel(state), el });
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
    return mount(place, models).catch((error) => fail(place, error));
  };
  const startOnce = (place) => place.dataset.live || start(place);
  const places = [...document.querySelectorAll(".live-figure")];
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) startOnce(entry.target);
  }, { rootMargin: NEAR });
  for (const place of places) observer.observe(place);
  window.addEventListener("beforeprint", () => places.forEach(startOnce));
})();

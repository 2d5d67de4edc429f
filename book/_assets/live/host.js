// Runs the book's live figures in a page, without a kernel. It reads the state that the notebook
// stored, loads the code of a figure when the figure comes near the window, and mounts it.
// It is a classic script and loads classic scripts, so it also works from a disk (file://).

(() => {
  "use strict";

  const WIDGETS = new URL("../widgets/", document.currentScript.src);
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

  /** Load a script or a style once. */
  function load(file) {
    if (!loading.has(file)) {
      const address = new URL(file, WIDGETS).href;
      const element = file.endsWith(".css")
        ? Object.assign(document.createElement("link"), { rel: "stylesheet", href: address })
        : Object.assign(document.createElement("script"), { src: address });
      loading.set(file, new Promise((done, fail) => {
        element.onload = done;
        element.onerror = () => fail(new Error(`${file} could not be loaded`));
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
    place.append(el);
    render({ model: makeModel(state), el });
    if (place.dataset.live === "failed") return;
    place.querySelector(".live-figure__note").hidden = true;
    place.dataset.live = "ready";
  }

  /** Show the text of the figure again, and one line with the reason. */
  function fail(place, error) {
    place.dataset.live = "failed";
    place.querySelector(".live-figure__note").hidden = false;
    let line = place.querySelector(".live-figure__reason");
    if (!line) {
      line = document.createElement("p");
      line.className = "live-figure__reason";
      place.append(line);
    }
    line.textContent = `The live figure could not run: ${error.message}.`;
  }

  const saved = [...document.querySelectorAll('script[type$="widget-state+json"]')].map(
    (script) => JSON.parse(script.textContent).state,
  );
  const models = Object.assign({}, ...saved);
  const start = (place) => {
    if (place.dataset.live) return;
    place.dataset.live = "loading";
    mount(place, models).catch((error) => fail(place, error));
  };
  const places = [...document.querySelectorAll(".live-figure")];
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) start(entry.target);
  }, { rootMargin: NEAR });
  for (const place of places) observer.observe(place);
  window.addEventListener("beforeprint", () => places.forEach(start));
})();

// Runs the book's interactive figures in a page, without a kernel: reads the state that the notebook
// stored, loads the module of each figure, and calls it with a model.

const WIDGETS = new URL("../widgets/", import.meta.url);

/** The subset of an anywidget model that a figure may use. */
function makeModel(state) {
  const values = structuredClone(state);
  const listeners = new Map();
  let changed = new Set();
  return {
    get: (name) => values[name],
    set(name, value) {
      if (JSON.stringify(values[name]) === JSON.stringify(value)) return;
      values[name] = value;
      changed.add(name);
      for (const listener of listeners.get(`change:${name}`) ?? []) listener();
    },
    save_changes() {
      if (!changed.size) return;
      changed = new Set();
      for (const listener of listeners.get("change") ?? []) listener();
    },
    on(event, listener) {
      listeners.set(event, [...(listeners.get(event) ?? []), listener]);
    },
    off(event, listener) {
      const left = (listeners.get(event) ?? []).filter((each) => listener && each !== listener);
      listeners.set(event, left);
    },
  };
}

/** "tfmr.widgets.attention.AttentionFigure" is in attention.js and attention.css. */
function fileOf(state) {
  return state._anywidget_id.split(".").at(-2);
}

function addStyle(name) {
  const address = new URL(`${name}.css`, WIDGETS).href;
  if (document.querySelector(`link[href="${address}"]`)) return Promise.resolve();
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: address });
  document.head.append(link);
  return new Promise((done) => {
    link.onload = link.onerror = done;
  });
}

async function mount(place, models) {
  const view = JSON.parse(place.querySelector('script[type$="widget-view+json"]').textContent);
  const state = models[view.model_id]?.state;
  if (!state?._anywidget_id) throw new Error(`no state for the live figure ${view.model_id}`);
  const name = fileOf(state);
  const [code] = await Promise.all([import(new URL(`${name}.js`, WIDGETS).href), addStyle(name)]);
  const model = makeModel(state);
  const el = document.createElement("div");
  await code.default.initialize?.({ model });
  await code.default.render({ model, el });
  place.replaceChildren(el);
}

const saved = [...document.querySelectorAll('script[type$="widget-state+json"]')].map(
  (script) => JSON.parse(script.textContent).state,
);
const models = Object.assign({}, ...saved);
for (const place of document.querySelectorAll(".live-figure")) {
  mount(place, models).catch((failure) => console.error("A live figure could not start.", failure));
}

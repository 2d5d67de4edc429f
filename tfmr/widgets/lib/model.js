// The connection of a figure with its state: a notebook's widget model, or the page's copy of it.

import { html, render, createContext, useLayoutEffect, useErrorBoundary, useState } from "../vendor/preact.js";

/** What a frame needs from the figure around it: `reset()`, and whether it was just called. */
export const LiveContext = createContext({ reset: () => {}, wasReset: false });

/**
 * The value of a trait and a function that sets it, like `useState`, but shared with Python.
 * Do not change the value in place; set a changed copy.
 */
export function useTrait(model, name) {
  const [value, setValue] = useState(() => model.get(name));
  useLayoutEffect(() => {
    const update = () => setValue(() => model.get(name));
    update();
    model.on(`change:${name}`, update);
    return () => model.off(`change:${name}`, update);
  }, [model, name]);
  const set = (next) => {
    model.set(name, next);
    model.save_changes();
  };
  return [value, set];
}

function Root({ model, Component, first, el }) {
  const [round, setRound] = useState(0);
  const [failure] = useErrorBoundary((error) => {
    console.error(error);
    el.dispatchEvent(new CustomEvent("live:failed", { bubbles: true, detail: error }));
  });
  if (failure) {
    return html`<div class="live"><p class="live-failure" role="alert">
      This live figure stopped: ${failure.message}
    </p></div>`;
  }
  const reset = () => {
    for (const [name, value] of Object.entries(first)) model.set(name, structuredClone(value));
    model.save_changes();
    setRound(round + 1);
  };
  // A new key discards what the components remember, so that Reset resets every control.
  return html`<${LiveContext.Provider} value=${{ reset, wasReset: round > 0 }}>
    <${Component} key=${round} model=${model} />
  <//>`;
}

/** The `render` function of a figure: its component, and the traits that a reader can change. */
export function live(Component, traits) {
  return ({ model, el }) => {
    const first = structuredClone(Object.fromEntries(traits.map((name) => [name, model.get(name)])));
    render(html`<${Root} model=${model} Component=${Component} first=${first} el=${el} />`, el);
    return () => render(null, el);
  };
}

// The connection of a figure with its state: a notebook's widget model, or the page's copy of it.

import { html, render, createContext, useLayoutEffect, useErrorBoundary, useState } from "../vendor/preact.js";
import { readState, writeState } from "./state.js";

/**
 * What a frame needs from the figure around it: `reset()`, whether it was just called, `fault`, a
 * sentence about a state that could not be used, and, on a page, `addresses()` of the present state.
 */
export const LiveContext = createContext({ reset: () => {}, wasReset: false, fault: "" });

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

function Root({ model, Component, first, el, fault, addresses }) {
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
  const context = { reset, wasReset: round > 0, fault: round > 0 ? "" : fault, addresses };
  return html`<${LiveContext.Provider} value=${context}>
    <${Component} key=${round} model=${model} />
  <//>`;
}

/** Set the state that an address gives, all of it or nothing; return a sentence if it cannot be used. */
function setState(model, kinds, { state, fault }) {
  try {
    if (fault) throw new Error(fault);
    for (const [name, value] of Object.entries(readState(kinds, state))) model.set(name, value);
    return "";
  } catch (error) {
    return `The state in the address was not used: ${error.message}.`;
  }
}

/**
 * The `render` function of a figure: its component, and `kindsOf(model)`, the traits that a reader can
 * change, each with its kind of values (state.js). On a page, `place` has the state in its address, or
 * a `fault`, and `addresses(state)`, those of the figure in a state.
 */
export function live(Component, kindsOf) {
  return ({ model, el, place }) => {
    const kinds = kindsOf(model);
    const names = Object.keys(kinds);
    const first = structuredClone(Object.fromEntries(names.map((name) => [name, model.get(name)])));
    const fault = place ? setState(model, kinds, place) : "";
    const addresses = place && (() => place.addresses(writeState(kinds, first, (name) => model.get(name))));
    render(html`<${Root} model=${model} Component=${Component} first=${first} el=${el} fault=${fault}
      addresses=${addresses} />`, el);
    return () => render(null, el);
  };
}

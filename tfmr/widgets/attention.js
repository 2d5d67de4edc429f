// Interactive self-attention. All numbers are computed here; a test compares them with tfmr.attention.

/** An element with attributes and children. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const show = (number, digits) => {
  const text = number.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "\u2212");
};

const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);

/** softmax(scores); a score of -Infinity has weight 0. */
export function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, each) => sum + each, 0);
  return powers.map((power) => power / total);
}

/** The four steps for one query: dot products, scaled and masked scores, weights, output. */
export function attend({ q, k, v, d_k, causal, scaled }, i) {
  const products = k.map((key) => dot(q[i], key));
  const scores = products.map((product, j) =>
    causal && j > i ? -Infinity : scaled ? product / Math.sqrt(d_k) : product,
  );
  const weights = softmax(scores);
  const output = v[0].map((_, c) => dot(weights, v.map((value) => value[c])));
  return { products, scores, weights, output };
}

const STATE = ["tokens", "q", "k", "v", "d_k", "causal", "scaled", "selected"];
let figures = 0;

function render({ model, el }) {
  const id = `attention-${(figures += 1)}`;
  const read = () => Object.fromEntries(STATE.map((name) => [name, model.get(name)]));
  const first = structuredClone(read());
  const { tokens, d_k: width } = first;
  const write = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };

  const choices = tokens.map((_, i) =>
    h("input", { type: "radio", name: `${id}-query`, value: i, onchange: () => write({ selected: i }) }),
  );
  const words = h("fieldset", { className: "att-words" },
    h("legend", {}, "Query"),
    ...tokens.map((token, i) => h("label", {}, choices[i], h("span", {}, token))));

  const toggle = (name, ...label) => {
    const box = h("input", { type: "checkbox", onchange: () => write({ [name]: box.checked }) });
    return [box, h("label", { className: "att-toggle" }, box, h("span", {}, ...label))];
  };
  const [scaledBox, scaledLabel] = toggle("scaled", "divide by √", h("i", {}, "d"), h("sub", {}, "k"));
  const [causalBox, causalLabel] = toggle("causal", "causal mask");
  const reset = h("button", { type: "button", onclick: () => write(structuredClone(first)) }, "Reset");

  const steps = tokens.map((token, j) => {
    const cells = {
      product: h("td", { className: "att-number" }),
      score: h("td", { className: "att-number" }),
      bar: h("span", { className: "att-bar" }),
      weight: h("span", { className: "att-weight" }),
      value: h("td", { className: "att-values" }, ...first.v[j].map(() => h("span"))),
    };
    cells.row = h("tr", {}, h("th", { scope: "row" }, token), cells.product, cells.score,
      h("td", {}, h("span", { className: "att-track" }, cells.bar), cells.weight), cells.value);
    return cells;
  });
  const scoreHead = h("th", { scope: "col" });
  const stepsName = h("caption", {});
  const stepsTable = h("table", { className: "att-steps" }, stepsName,
    h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "key"), h("th", { scope: "col" }, h("i", {}, "q · k")), scoreHead,
      h("th", { scope: "col" }, "softmax"), h("th", { scope: "col" }, "value"))),
    h("tbody", {}, ...steps.map((cells) => cells.row)));

  const output = first.v[0].map(() => h("span"));
  const sum = h("p", { className: "att-output" },
    h("span", {}, "Weighted sum of the values:"), h("span", { className: "att-vector" }, ...output));

  const tiles = tokens.map(() => tokens.map(() => h("td")));
  const lines = tokens.map((token, i) =>
    h("tr", { onclick: () => write({ selected: i }) }, h("th", { scope: "row" }, token), ...tiles[i]));
  const long = tokens.some((token) => token.length > 4);
  const map = h("table", { className: long ? "att-map att-long" : "att-map" },
    h("caption", {}, "Attention weights of all queries (rows)"),
    h("colgroup", {}, h("col", { style: `inline-size: ${1 + Math.max(...tokens.map((t) => t.length))}ch` })),
    h("thead", {}, h("tr", {}, h("td"), ...tokens.map((token) => h("th", { scope: "col" }, h("span", {}, token))))),
    h("tbody", {}, ...lines));

  const vector = h("select", { id: `${id}-vector`, onchange: () => draw() },
    h("option", { value: "query" }),
    ...tokens.map((token, j) => h("option", { value: j }, `key of “${token}”`)));
  const picked = () => {
    const { selected } = read();
    return vector.value === "query" ? ["q", selected] : ["k", Number(vector.value)];
  };
  const reach = Math.max(3, ...[...first.q, ...first.k].flat().map((each) => Math.ceil(Math.abs(each))));
  const sliders = Array.from({ length: width }, (_, c) => {
    const value = h("span", { className: "att-slid" });
    const name = h("span", {});
    const range = h("input", {
      type: "range", min: -reach, max: reach, step: 0.1,
      oninput: () => {
        const [matrix, row] = picked();
        const changed = structuredClone(model.get(matrix));
        changed[row][c] = Number(range.value);
        write({ [matrix]: changed });
      },
    });
    return { range, value, name, label: h("label", {}, name, range, value) };
  });
  const touch = h("fieldset", { className: "att-touch" },
    h("legend", {}, "Change the numbers"),
    h("label", { htmlFor: `${id}-vector`, className: "att-select" }, "Vector: ", vector),
    ...sliders.map(({ label }) => label));

  const summary = h("p", { className: "att-summary", role: "status" });

  function draw() {
    const state = read();
    const { selected, causal, scaled } = state;
    const { products, scores, weights, output: mixed } = attend(state, selected);
    const largest = Math.max(1e-9, ...state.v.flat().map(Math.abs));
    const paint = (cell, number) => cell.style.setProperty("--fill", Math.min(1, Math.abs(number) / largest))
      ?? cell.classList.toggle("att-negative", number < 0);

    choices.forEach((choice, i) => { choice.checked = i === selected; });
    scaledBox.checked = scaled;
    causalBox.checked = causal;
    stepsName.textContent = `Attention weights of “${tokens[selected]}”`;
    scoreHead.replaceChildren(...(scaled ? ["÷ √", h("i", {}, "d"), h("sub", {}, "k")] : ["score"]));
    steps.forEach((cells, j) => {
      const hidden = scores[j] === -Infinity;
      cells.row.classList.toggle("att-hidden", hidden);
      cells.product.textContent = show(products[j], 2);
      cells.score.textContent = hidden ? "\u2212∞" : show(scores[j], 2);
      cells.bar.style.inlineSize = `${100 * weights[j]}%`;
      cells.weight.textContent = show(weights[j], 3);
      cells.value.title = `(${state.v[j].map((each) => show(each, 2)).join(", ")})`;
      cells.value.setAttribute("aria-label", cells.value.title);
      [...cells.value.children].forEach((dotted, c) => paint(dotted, state.v[j][c]));
    });
    output.forEach((cell, c) => { cell.textContent = show(mixed[c], 2); paint(cell, mixed[c]); });
    tiles.forEach((row, i) => {
      const rowWeights = i === selected ? weights : attend(state, i).weights;
      lines[i].classList.toggle("att-selected", i === selected);
      row.forEach((tile, j) => {
        tile.textContent = causal && j > i ? "" : show(rowWeights[j], 2);
        tile.style.setProperty("--fill", rowWeights[j]);
      });
    });

    vector.options[0].textContent = `query of “${tokens[selected]}”`;
    const [matrix, row] = picked();
    sliders.forEach(({ range, value, name }, c) => {
      const number = state[matrix][row][c];
      name.replaceChildren(h("i", {}, matrix), h("sub", {}, c + 1));
      range.value = number;
      value.textContent = show(number, 2);
    });

    const order = weights.map((_, j) => j).sort((a, b) => weights[b] - weights[a]);
    const [most, second] = order;
    const then = second === undefined || weights[second] < 0.0005 ? "" :
      `, then to “${tokens[second]}” (${show(weights[second], 3)})`;
    summary.textContent =
      `“${tokens[selected]}” attends most to “${tokens[most]}” (${show(weights[most], 3)})${then}. ` +
      `The ${tokens.length} weights sum to 1.`;
  }

  el.classList.add("att");
  el.setAttribute("role", "group");
  el.setAttribute("aria-label", "Interactive figure: self-attention, one query at a time");
  el.append(words, h("div", { className: "att-options" }, scaledLabel, causalLabel, reset),
    stepsTable, sum, h("div", { className: "att-columns" }, map, touch), summary);
  for (const name of STATE) model.on(`change:${name}`, draw);
  draw();
  return () => { for (const name of STATE) model.off(`change:${name}`, draw); };
}

export default { render };

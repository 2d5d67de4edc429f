// The whole architecture as a map: point at a part for its shapes, parameters and FLOPs.
// tfmr/widgets/architecture.py counts the same in the package's model.

import { html, useState } from "./vendor/preact.js";
import { Range, Select, Views } from "./lib/controls.js";
import { count, format } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { clamp } from "./lib/math.js";
import { heat } from "./lib/colour.js";
import { live, useTrait } from "./lib/model.js";
import { oneOf, whole } from "./lib/state.js";
import { chapterAddress, sourceAddress } from "./lib/site.js";

const MOVES = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 };

const LONGEST = 128;
const COLOURS = ["side", "parameters", "FLOPs"];
const DEEPEST = 0.35;
const ATTENTION = "computes the scores, the softmax and the weighted sum of the values in every head";
const HEADS = "projects its input to queries, keys and values, and the concatenated heads to the output";
const NORM = "adds the input of the sublayer to its output, then normalises every vector";
const NETWORK = "applies the same two linear layers to every position, with a ReLU between them";

/**
 * What each kind of block does, its shapes, and its costs in one block of the stack:
 * parameters and FLOPs as pairs [formula, number]. `times` blocks have the same costs.
 */
function describeKinds({ d_model: d, n_heads: h, d_ff: f, n_encoder, n_decoder, vocab: V }, S, T) {
  const heads = (n) => ({ does: HEADS, parameters: ["4 (d² + d)", 4 * (d * d + d)], flops: ["8 n d²", 8 * n * d * d] });
  const products = (n) => ({ does: ATTENTION, parameters: ["none", 0], flops: ["4 n² d", 4 * n * n * d] });
  // Between the stacks: n is the target's length, m the source's.
  const between = {
    heads: { ...heads(T), flops: ["4 (n + m) d²", 4 * (T + S) * d * d] },
    products: { ...products(T), flops: ["4 n m d", 4 * T * S * d] },
  };
  const norm = { does: NORM, parameters: ["2 d", 2 * d], flops: ["no matrix multiplication", 0] };
  const network = (n) => ({
    does: NETWORK,
    parameters: ["2 d f + f + d", 2 * d * f + f + d],
    flops: ["4 n d f", 4 * n * d * f],
  });
  const sum = (parts) => ({
    parameters: parts.reduce((total, part) => total + part.parameters[1], 0),
    flops: parts.reduce((total, part) => total + part.flops[1], 0),
  });
  const encoder = sum([heads(S), products(S), norm, network(S), norm]);
  const decoder = sum([heads(T), products(T), norm, between.heads, between.products, norm, network(T), norm]);
  const stack = (total, does) => ({
    does, parameters: ["sum of its parts", total.parameters], flops: ["sum of its parts", total.flops],
  });
  const matrix = ["|V| d, one matrix shared by three parts", V * d];
  const one = { times: 1 };
  const inEncoder = { times: n_encoder, input: [S, d], output: [S, d] };
  const inDecoder = { times: n_decoder, input: [T, d], output: [T, d] };
  return {
    embedding: { ...one, does: "looks up the row of each token in the matrix and multiplies it by √d",
      input: ["n"], output: ["n", d], parameters: matrix, flops: ["a look-up", 0] },
    position: { ...one, does: "adds a fixed vector for each position", input: ["n", d], output: ["n", d],
      parameters: ["none", 0], flops: ["no matrix multiplication", 0] },
    encoder: { ...inEncoder,
      ...stack(encoder, "consists of self-attention and a feed-forward network, each with add & norm") },
    "encoder-heads": { ...inEncoder, ...heads(S), inside: ["queries, keys, values", [h, S, d / h]] },
    "encoder-attention": { ...inEncoder, ...products(S), input: [h, S, d / h], output: [h, S, d / h],
      inside: ["attention weights", [h, S, S]] },
    "encoder-norm": { ...inEncoder, ...norm },
    "encoder-feed-forward": { ...inEncoder, ...network(S), inside: ["between the layers", [S, f]] },
    decoder: { ...inDecoder,
      ...stack(decoder,
        "consists of masked self-attention, cross-attention and a feed-forward network, each with add & norm") },
    "decoder-heads": { ...inDecoder, ...heads(T), inside: ["queries, keys, values", [h, T, d / h]] },
    "decoder-attention": { ...inDecoder, ...products(T),
      does: `${ATTENTION}; the causal mask hides later tokens`, input: [h, T, d / h], output: [h, T, d / h],
      inside: ["attention weights", [h, T, T]] },
    "decoder-norm": { ...inDecoder, ...norm },
    "cross-heads": { ...inDecoder, ...between.heads, also: ["encoder output", [S, d]],
      inside: ["queries", [h, T, d / h]] },
    "cross-attention": { ...inDecoder, ...between.products, input: [h, T, d / h], output: [h, T, d / h],
      also: ["keys and values, from the encoder output", [h, S, d / h]], inside: ["attention weights", [h, T, S]] },
    "decoder-feed-forward": { ...inDecoder, ...network(T), inside: ["between the layers", [T, f]] },
    output: { ...one, does: "computes the dot product of each vector with each row of the matrix", input: [T, d],
      output: [T, V], parameters: matrix, flops: ["2 n d |V|", 2 * T * d * V] },
    softmax: { ...one, does: "turns the logits of each position into probabilities", input: [T, V], output: [T, V],
      parameters: ["none", 0], flops: ["no matrix multiplication", 0] },
    loss: { ...one, does: "compares the probabilities with the target tokens, in training only", input: [T, V],
      output: ["one number"], parameters: ["none", 0], flops: ["no matrix multiplication", 0] },
    decoding: { ...one, does: "selects the next token, at inference time only", input: [1, V],
      output: ["one token"], parameters: ["none", 0], flops: ["no matrix multiplication", 0] },
    total: {
      parameters: V * d + n_encoder * encoder.parameters + n_decoder * decoder.parameters,
      flops: n_encoder * encoder.flops + n_decoder * decoder.flops + 2 * T * d * V,
    },
  };
}

/** A number in words: 63.1 million. */
function inWords(number) {
  const unit = [[1e9, "billion"], [1e6, "million"]].find(([size]) => number >= size);
  return unit ? `${format(number / unit[0], 1)} ${unit[1]}` : count(number);
}

const inTokens = (number) => `${number} ${number === 1 ? "token" : "tokens"}`;
/** A cost in the status line: the number in words, and its share of the whole model. */
const costText = (number, share, whole) => `${number}, ${format(100 * share, 1)} % of ${inWords(whole)}`;
const percent = (part, whole) => `${format((100 * part) / whole, 1)} %`;
const shape = (parts) => (parts.length > 1 ? `(${parts.join(", ")})` : String(parts[0]));
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const sideOf = ({ side }) => ({ encoder: "of the encoder", decoder: "of the decoder", output: "" })[side];
/** "N × encoder block" is the name of a frame; in a sentence the number of blocks follows. */
const nameOf = (block) => capital(block.name.replace("N × ", ""));

function Arrow({ kind, points }) {
  const path = `M${points.map((point) => point.join(" ")).join("L")}`;
  if (kind === "tied") return html`<path class="arch-line arch-tied" d=${path} />`;
  const [[x0, y0], [x, y]] = points.slice(-2);
  const [ax, ay] = [Math.sign(x - x0) * 5, Math.sign(y - y0) * 5];
  const head = `M${x - ax - ay * 0.6} ${y - ay + ax * 0.6}L${x} ${y}L${x - ax + ay * 0.6} ${y - ay - ax * 0.6}Z`;
  return html`<g class="arch-${kind}"><path class="arch-line" d=${path} /><path class="arch-head" d=${head} /></g>`;
}

function Block({ block, on, fill, events }) {
  const [x, y, width, height] = block.place;
  const row = block.frame ? 25 : height;
  const middle = y + row / 2;
  const first = middle + 4.5 - 8 * (block.lines.length - 1);
  return html`<g class="arch-block arch-${block.side} ${on ? "arch-on" : ""}" role="radio" aria-checked=${on}
    tabindex=${on ? 0 : -1} aria-label="${nameOf(block)} ${sideOf(block)}" ...${events}>
    ${block.frame && html`<rect class="arch-frame" x=${x} y=${y} width=${width} height=${height} rx="5" />`}
    <rect class="arch-name" x=${x} y=${y} width=${width} height=${row} rx="5" style=${fill && { fill }} />
    ${block.lines.map((line, i) => html`<text key=${i} x=${x + 7} y=${first + 16 * i}>${line}</text>`)}
    <circle cx=${x + width - 13} cy=${middle} r="10" />
    <text class="arch-number" x=${x + width - 13} y=${middle + 4.8} text-anchor="middle">${block.chapter}</text>
  </g>`;
}

function ArchitectureMap({ drawing, part, select, preview, fillOf }) {
  const focus = (event, next) => {
    select(next);
    event.currentTarget.parentNode.querySelectorAll(".arch-block")[next].focus();
  };
  const events = (i) => ({
    onClick: () => select(i),
    onMouseEnter: () => preview(i),
    onMouseLeave: () => preview(null),
    onKeyDown: (event) => {
      const move = MOVES[event.key];
      if (!move) return;
      event.preventDefault();
      preview(null);
      focus(event, clamp(i + move, 0, drawing.blocks.length - 1));
    },
  });
  return html`<svg class="arch-map" viewBox=${drawing.view.join(" ")} role="radiogroup"
    aria-label="Map of the Transformer, from bottom to top: the parts of the encoder, the decoder and the output">
    ${drawing.blocks.map((block, i) => html`<${Block} key=${i} block=${block} on=${i === part} fill=${fillOf(block)}
      events=${events(i)} />`)}
    <g aria-hidden="true">
      ${drawing.arrows.map((arrow, i) => html`<${Arrow} key=${i} ...${arrow} />`)}
      ${drawing.labels.map(([x, y, anchor, text], i) =>
        html`<text key=${i} x=${x} y=${y} text-anchor=${anchor}>${text}</text>`)}
    </g>
  </svg>`;
}

/** The table of costs: the number of one block, of all blocks, and the share of the model. A dash stands for
 * FLOPs that are not counted, since the part multiplies no matrices. */
function Costs({ kind, total }) {
  const line = (name, [formula, number], whole) => html`<tr data-cost=${name}>
    <th scope="row">${name}<small>${formula}</small></th>
    <td><b>${name === "FLOPs" && number === 0 ? "–" : count(number)}</b>${number > 0 && kind.times > 1 && html`<small>× ${kind.times} blocks</small>`}</td>
    <td>${number > 0 ? percent(number * kind.times, whole) : "–"}</td>
  </tr>`;
  return html`<table class="arch-costs">
    <caption>Costs</caption>
    <thead><tr><td></td><th scope="col">number</th>
      <th scope="col">share</th></tr></thead>
    <tbody>
      ${line("parameters", kind.parameters, total.parameters)}
      ${line("FLOPs", kind.flops, total.flops)}
    </tbody>
  </table>`;
}

function Details({ block, kind, total, length }) {
  const named = (parts) => shape(parts.map((part) => (part === "n" ? length : part)));
  const source = sourceAddress(block.source);
  const name = block.source.split(".").at(-1);
  const row = (label, value) => html`<tr><th scope="row">${label}</th><td>${value}</td></tr>`;
  return html`<div class="arch-details">
    <p class="arch-title">${nameOf(block)} <span>${sideOf(block)}</span></p>
    <p>${capital(kind.does)}.</p>
    <table class="arch-shapes">
      <caption>Shapes</caption>
      <tbody>
        ${row("input", named(kind.input))}
        ${kind.also && row(kind.also[0], named(kind.also[1]))}
        ${kind.inside && row(kind.inside[0], named(kind.inside[1]))}
        ${row("output", named(kind.output))}
      </tbody>
    </table>
    <${Costs} kind=${kind} total=${total} />
    <p class="arch-links"><a href=${chapterAddress(block.file)}>Chapter ${block.chapter}</a>${" "}
      ${source ? html`<a href=${source}><code>${name}</code></a>` : html`<code>${name}</code>`}</p>
  </div>`;
}

function Architecture({ model }) {
  const drawing = model.get("drawing");
  const models = model.get("models");
  const [name, setName] = useTrait(model, "model_name");
  const [S, setS] = useTrait(model, "source_length");
  const [T, setT] = useTrait(model, "target_length");
  const [part, select] = useTrait(model, "part");
  const [colour, setColour] = useTrait(model, "colour");
  const [hovered, preview] = useState(null);
  const sizes = models.find((each) => each.name === name);
  const kinds = describeKinds(sizes, S, T);
  const { total } = kinds;
  const costOf = (kind) => ({
    parameters: (kind.times * kind.parameters[1]) / total.parameters,
    FLOPs: (kind.times * kind.flops[1]) / total.flops,
  });
  const fillOf = (block) => {
    if (colour === "side") return undefined;
    // The costs of a stack are those of its parts, so its own box has no colour.
    const own = block.kind === "encoder" || block.kind === "decoder" ? 0 : costOf(kinds[block.kind])[colour];
    return heat(own, DEEPEST);
  };
  const shown = drawing.blocks[hovered ?? part];
  const block = drawing.blocks[part];
  const kind = kinds[block.kind];
  const share = costOf(kind);
  const { d_model, n_heads, d_ff, n_encoder, n_decoder, vocab } = sizes;

  const controls = html`
    <${Select} label="Model" value=${name} onInput=${setName} options=${models.map((each) => [each.name, each.name])} />
    <${Select} label="Colour by" value=${colour} onInput=${setColour}
      options=${COLOURS.map((each) => [each, each === "side" ? "stack" : each])} />
    <${Select} label="Part" value=${part} onInput=${select}
      options=${drawing.blocks.map((each, i) => [i, `${i + 1}. ${each.name} ${sideOf(each)}`])} />
    <${Range} label="Source" value=${S} onInput=${setS} min=${1} max=${LONGEST} show=${inTokens} />
    <${Range} label="Target" value=${T} onInput=${setT} min=${1} max=${LONGEST} show=${inTokens} />`;

  return html`<${Frame} title="The Transformer" controls=${controls} lines=${[2, 4]}
    task="colour the map by FLOPs, and set both lengths to 128 tokens."
    shows=${html`Point at a part, or move through the map with the arrow keys. Most parameters are in the
      feed-forward networks and the projections. Which part's FLOPs grow fastest with the lengths? The FLOPs of attention itself
      grow with the square of the number of tokens, all others in proportion to the number of tokens. Only the matrix
      multiplications of one forward pass are counted, with two FLOPs for each multiply-add; <i>d</i> is d_model,${" "}
      <i>f</i> is d_ff, <i>n</i> and <i>m</i> are numbers of tokens. The deepest colour stands for a share of ${format(100 * DEEPEST, 0)} % or more. Model${" "}
      <i>${name}</i>: d_model ${d_model}, ${n_heads} heads, d_ff ${d_ff}, ${n_encoder} + ${n_decoder} blocks, ${
      count(vocab)} tokens in the vocabulary.`}
    status=${`${nameOf(block)} ${sideOf(block)}${kind.times > 1 ? ` (${kind.times} blocks)` : ""}: ${kind.parameters[1] === 0 ? "no parameters"
      : costText(`${inWords(kind.times * kind.parameters[1])} parameters${kind.parameters === kinds.output.parameters ? " (shared by three parts)" : ""}`,
        share.parameters, total.parameters)}; ${kind.flops[1] === 0 ? "no matrix multiplication, so its FLOPs are not counted"
      : costText(`${inWords(kind.times * kind.flops[1])} FLOPs`, share.FLOPs, total.flops)}.`.replace(" :", ":")}>
    <div class="arch-views"><${Views} label="View" together=${true} views=${[
      ["map", html`<${ArchitectureMap} drawing=${drawing} part=${part} select=${select} preview=${preview} fillOf=${fillOf} />`],
      ["part", html`<${Details} block=${shown} kind=${kinds[shown.kind]} total=${total} length=${shown.side === "encoder" ? S : T} />`],
    ]} /></div>
  <//>`;
}

export const render = live(Architecture, (model) => ({
  model_name: oneOf(model.get("models").map(({ name }) => name)),
  source_length: whole(1, LONGEST),
  target_length: whole(1, LONGEST),
  part: whole(0, model.get("drawing").blocks.length - 1),
  colour: oneOf(COLOURS),
}));

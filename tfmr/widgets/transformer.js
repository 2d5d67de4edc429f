// The forward pass of a Transformer: the third version of the book's model, after the formula and
// the Python code.
// The functions are in the order of those in tfmr/layers.py, attention.py, kv_cache.py,
// position.py, encoder.py, decoder.py and model.py, and most have the same names; tests compare
// their outputs with Python's.
//
// A sequence of vectors is a list of Float32Arrays, one per position. Sentences are processed one
// at a time, so there is no batch axis and no padding. A module is an object with the weights and
// the submodules of the Python module of the same name (see makeModel). The functions marked with *
// pause between blocks (yield), so that a page can respond while they compute.

// ---- layers.py

/** x W^T + b for every vector of x; W has one row per output. */
export function linear({ weight, bias }, x) {
  const [rows, columns] = weight.shape;
  return x.map((vector) => {
    const out = new Float32Array(rows);
    for (let row = 0; row < rows; row += 1) {
      out[row] = dot(weight.data, vector, row * columns) + (bias ? bias.data[row] : 0);
    }
    return out;
  });
}

/** Normalise every vector to mean 0 and variance 1, then scale and shift each dimension. */
export function layerNorm({ weight, bias }, x, eps = 1e-5) {
  return x.map((vector) => {
    const mean = sum(vector) / vector.length;
    const variance = sum(vector.map((value) => (value - mean) ** 2)) / vector.length;
    const scale = 1 / Math.sqrt(variance + eps);
    return vector.map((value, i) => weight.data[i] * (value - mean) * scale + bias.data[i]);
  });
}

/** Two linear layers with a ReLU between them, applied to every position separately. */
export function feedForward({ expand, contract }, x) {
  const relu = (vector) => vector.map((value) => Math.max(0, value));
  return linear(contract, linear(expand, x).map(relu));
}

/** A residual connection around a sublayer: norm(x + f(x)), or x + f(norm(x)) if pre-norm. */
export function residual({ norm }, config, x, sublayer) {
  if (config.norm === "pre") return add(x, sublayer(layerNorm(norm, x)));
  return layerNorm(norm, add(x, sublayer(x)));
}

// ---- attention.py

/** Whether query i may attend to key j; the queries are at the last positions. */
export const causalMask = (query, key) => (i, j) => j <= key - query + i;

/**
 * Average the values, weighted by the similarity of each key to the query:
 * softmax(Q K^T / sqrt(d_k)) V. Query i may attend to key j if mask(i, j).
 * Returns the outputs and the attention weights, one row per query.
 */
export function scaledDotProductAttention(q, k, v, mask) {
  const scale = 1 / Math.sqrt(q[0].length);
  const weights = q.map((query, i) => {
    const score = (key, j) => (mask(i, j) ? dot(query, key) * scale : -Infinity);
    return softmax(k.map(score));
  });
  const outputs = weights.map((row) => {
    const out = new Float32Array(v[0].length);
    row.forEach((weight, j) => {
      for (let c = 0; c < out.length; c += 1) out[c] += weight * v[j][c];
    });
    return out;
  });
  return { outputs, weights };
}

/**
 * Several attention heads in parallel, each on its own columns, joined by one projection.
 *
 * Queries are projected from `x`; keys and values from `memory` (cross-attention) or from `x`.
 * Self-attention appends its keys and values to those of the earlier positions in `cache`;
 * cross-attention projects `memory` in the first call only, when `cache` is empty. If `recorded` is
 * a list, the attention weights [head][query][key] are appended to it.
 */
export function multiHeadAttention(module, config, x, { memory, isCausal, cache, recorded }) {
  const split = (vectors) => splitHeads(vectors, config.n_heads);
  const q = split(linear(module.w_q, x));
  if (!memory || cache.length === 0) {
    const attended = memory ?? x;
    extend(cache, split(linear(module.w_k, attended)), split(linear(module.w_v, attended)));
  }
  const mask = isCausal ? causalMask(x.length, cache.length) : () => true;
  const heads = q.map((query, head) =>
    scaledDotProductAttention(query, cache.keys[head], cache.values[head], mask),
  );
  recorded?.push(heads.map(({ weights }) => weights));
  const joined = x.map((_, i) => concatenate(heads.map(({ outputs }) => outputs[i])));
  return linear(module.w_o, joined);
}

/** Give each head its own d_k consecutive columns: [head][position]. */
function splitHeads(x, nHeads) {
  const dK = x[0].length / nHeads;
  return Array.from({ length: nHeads }, (_, head) =>
    x.map((vector) => vector.subarray(head * dK, (head + 1) * dK)),
  );
}

// ---- kv_cache.py

/** The keys and values of the earlier positions, [head][position]; initially empty. */
export const kvCache = () => ({ length: 0, keys: [], values: [] });

/** Append the keys and values of new positions. */
function extend(cache, k, v) {
  cache.keys = k.map((keys, head) => [...(cache.keys[head] ?? []), ...keys]);
  cache.values = v.map((values, head) => [...(cache.values[head] ?? []), ...values]);
  cache.length += k[0].length;
}

// ---- position.py

/** One row per position, with one sine and one cosine per frequency. */
export function sinusoidal(length, dModel, base = 10000) {
  return Array.from({ length }, (_, position) =>
    Float32Array.from({ length: dModel }, (_, column) => {
      const angle = position * base ** -((column - (column % 2)) / dModel);
      return column % 2 === 0 ? Math.sin(angle) : Math.cos(angle);
    }),
  );
}

// ---- encoder.py

/** Self-attention and a feed-forward network, each with a residual connection. */
export function encoderBlock(module, config, x, recorded) {
  const [attentionResidual, feedForwardResidual] = module.residuals;
  const options = { cache: kvCache(), recorded };
  x = residual(attentionResidual, config, x, (y) =>
    multiHeadAttention(module.attention, config, y, options),
  );
  return residual(feedForwardResidual, config, x, (y) => feedForward(module.feed_forward, y));
}

/** A stack of blocks in which every source position attends to every source position. */
export function* encoder(module, config, x, recorded) {
  for (const block of module.blocks) {
    x = encoderBlock(block, config, x, recorded);
    yield;
  }
  return module.norm ? layerNorm(module.norm, x) : x;
}

// ---- decoder.py

/**
 * Causal self-attention, cross-attention and a feed-forward network, each with a residual
 * connection.
 */
export function decoderBlock(module, config, x, memory, cache, recorded) {
  const [selfResidual, crossResidual, feedForwardResidual] = module.residuals;
  x = residual(selfResidual, config, x, (y) =>
    multiHeadAttention(module.self_attention, config, y, {
      isCausal: true,
      cache: cache.self,
      recorded: recorded?.self,
    }),
  );
  x = residual(crossResidual, config, x, (y) =>
    multiHeadAttention(module.cross_attention, config, y, {
      memory,
      cache: cache.cross,
      recorded: recorded?.cross,
    }),
  );
  return residual(feedForwardResidual, config, x, (y) =>
    feedForward(module.feed_forward, y),
  );
}

/** A stack of decoder blocks. */
export function* decoder(module, config, x, memory, caches, recorded) {
  for (const [index, block] of module.blocks.entries()) {
    x = decoderBlock(block, config, x, memory, caches[index], recorded);
    if (x.length > 1) yield; // a single position takes little time
  }
  return module.norm ? layerNorm(module.norm, x) : x;
}

/** Empty caches, one pair per block. */
export const newCaches = ({ blocks }) => blocks.map(() => ({ self: kvCache(), cross: kvCache() }));

// ---- model.py

/** The encoder output of a sentence. If `recorded` is a list, it gets the maps of each block. */
export function* encodeSource(model, source, recorded) {
  return yield* encoder(model.encoder, model.config, embed(model, "source", source), recorded);
}

/**
 * The decoder output at each position of `target`; these positions follow the cached ones.
 * If `recorded` is { self: [], cross: [] }, the lists get the maps of each block.
 */
export function* decodeTarget(model, target, memory, caches, recorded) {
  const x = embed(model, "target", target, caches[0].self.length);
  return yield* decoder(model.decoder, model.config, x, memory, caches, recorded);
}

/** For each vector, one logit per token of the target vocabulary. */
export const scores = (model, x) => linear(model.output, x);

/** Encode the source for incremental decoding. */
export function* start(model, source) {
  const memory = yield* encodeSource(model, source);
  return { memory, caches: newCaches(model.decoder) };
}

/** Append one token to a state; return the logits of the next token. */
export function step(model, token, { memory, caches }) {
  const { value: out } = decodeTarget(model, [token], memory, caches).next();
  return scores(model, out)[0];
}

/**
 * A copy of a decoding state that can be continued independently. Keys and values are shared,
 * because appending to a cache creates new lists and leaves the old ones unchanged.
 */
export const copyState = ({ memory, caches }) => ({
  memory,
  caches: caches.map(({ self, cross }) => ({ self: { ...self }, cross: { ...cross } })),
});

/** Embed, scale by sqrt(d_model), and add the positional encodings. */
export function embed(model, side, ids, first = 0) {
  const { weight } = model[`${side}_embedding`];
  const dModel = model.config.d_model;
  return ids.map((id, i) => {
    const row = weight.data.subarray(id * dModel, (id + 1) * dModel);
    const position = model.position[first + i];
    return row.map((value, c) => value * Math.sqrt(dModel) + position[c]);
  });
}

/**
 * Build the model from `tensors`, which maps the names of the Python parameters to { shape, data }:
 * "encoder.blocks.0.attention.w_q.weight" is model.encoder.blocks[0].attention.w_q.weight.
 */
export function makeModel(config, tensors) {
  const model = { config, position: sinusoidal(config.max_length, config.d_model) };
  for (const [name, tensor] of Object.entries(tensors)) {
    const path = name.split(".");
    let module = model;
    path.slice(0, -1).forEach((part, depth) => {
      module[part] ??= /^\d+$/.test(path[depth + 1]) ? [] : {};
      module = module[part];
    });
    module[path.at(-1)] = tensor;
  }
  if (config.tie === "three-way") model.source_embedding = model.target_embedding;
  if (config.tie !== "none") model.output = { weight: model.target_embedding.weight };
  return model;
}

// ---- arithmetic

/** Weights that sum to one; a score of -Infinity has weight 0. */
export function softmax(scores) {
  let top = -Infinity;
  for (const score of scores) if (score > top) top = score;
  const powers = scores.map((score) => Math.exp(score - top));
  const total = sum(powers);
  return powers.map((power) => power / total);
}

/** The logarithm of the softmax. */
export function logSoftmax(scores) {
  let top = -Infinity;
  for (const score of scores) if (score > top) top = score;
  let total = 0;
  for (const score of scores) total += Math.exp(score - top);
  const logTotal = top + Math.log(total);
  return scores.map((score) => score - logTotal);
}

/** The dot product of b and the b.length values of a that begin at index `start`. */
function dot(a, b, start = 0) {
  let total = 0;
  for (let i = 0; i < b.length; i += 1) total += a[start + i] * b[i];
  return total;
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

const add = (x, y) => x.map((vector, i) => vector.map((value, c) => value + y[i][c]));

function concatenate(parts) {
  const out = new Float32Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

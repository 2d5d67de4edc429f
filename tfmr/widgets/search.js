// Greedy decoding and beam search, as in tfmr/decode/greedy.py, beam.py and generate.py: the same
// length penalty, the same order of ties, the same maximum length. The functions marked with * pause
// after every step (yield) with the ids of the currently best prefix.

import { BOS, EOS } from "./bpe.js";
import {
  copyState, decodeTarget, encodeSource, logSoftmax, newCaches, scores, softmax, start, step,
} from "./transformer.js";

/** A translation may have this many tokens more than its source. */
export const EXTRA_LENGTH = 50;
/** The exponent of the length penalty in Vaswani et al. (2017), section 6.1. */
export const ALPHA = 0.6;

/** The maximum number of tokens of a translation, EOS included. */
export const maxOutputLength = (model, source) =>
  Math.min(source.length + EXTRA_LENGTH, model.config.max_length);

/** The divisor of a log-probability that compensates for the length of a hypothesis. */
export const lengthPenalty = (length, alpha = ALPHA) => ((5 + length) / 6) ** alpha;

/**
 * Translate a sentence: generate the most probable next token until EOS.
 * Returns ids without BOS and EOS. PAD and BOS, the ids below EOS, are never generated.
 */
export function* greedySearch(model, source) {
  const state = yield* start(model, source);
  const generated = [];
  let token = BOS;
  while (generated.length < maxOutputLength(model, source)) {
    [token] = topK(step(model, token, state), 1);
    if (token === EOS) break;
    generated.push(token);
    yield generated;
  }
  return generated;
}

/**
 * The `nBest` translations of a sentence by beam search, best first: { ids, logProb, score, finished }.
 *
 * Each step extends every live hypothesis by every token and ranks these candidates by probability
 * (ties by hypothesis, then by id). Candidates among the first `beam` that end in EOS become finished
 * hypotheses. The first `beam` candidates that do not end in EOS are the live hypotheses of the next
 * step. The search ends when `beam` hypotheses are finished, when no live one can become one of the
 * `nBest`, or at the maximum length, where the live hypotheses rank below all finished ones.
 */
export function* beamSearch(model, source, beam = 4, alpha = ALPHA, nBest = 1) {
  const maxLength = maxOutputLength(model, source);
  const maxPenalty = lengthPenalty(maxLength, alpha);
  const finished = [];
  let live = [{ ids: [], logProb: 0, state: yield* start(model, source) }];
  let length = 0;
  const hasEnded = () => {
    const worst = finished[nBest - 1]?.score ?? -Infinity;
    return finished.length >= beam || live[0].logProb / maxPenalty <= worst;
  };
  while (length < maxLength && !hasEnded()) {
    length += 1;
    const candidates = [];
    for (const { ids, logProb, state } of live) {
      const logProbs = logSoftmax(step(model, ids.at(-1) ?? BOS, state));
      // At most `beam` candidates end in EOS, one per hypothesis, so at least `beam` continue.
      for (const token of topK(logProbs, 2 * beam)) {
        // As in Python, log-probabilities are added in single precision.
        const total = Math.fround(logProb + logProbs[token]);
        candidates.push({ ids: [...ids, token], logProb: total, state });
      }
      yield live[0].ids;
    }
    candidates.sort((a, b) => b.logProb - a.logProb);
    for (const { ids, logProb } of candidates.slice(0, beam)) {
      if (ids.at(-1) === EOS) {
        const score = logProb / lengthPenalty(length, alpha);
        finished.push({ ids: ids.slice(0, -1), logProb, score, finished: true });
      }
    }
    finished.sort((a, b) => b.score - a.score);
    live = candidates
      .filter(({ ids }) => ids.at(-1) !== EOS)
      .slice(0, beam)
      .map((candidate) => ({ ...candidate, state: copyState(candidate.state) }));
  }
  if (length === maxLength) {
    const penalty = lengthPenalty(length, alpha);
    for (const { ids, logProb } of live) {
      finished.push({ ids, logProb, score: logProb / penalty, finished: false });
    }
  }
  return finished.slice(0, nBest);
}

/**
 * What the model predicts at each generated token, and what it attends to: one pass over the whole
 * translation (teacher forcing), with the causal mask. `generated` includes EOS if the model
 * generated it.
 *
 * Returns `steps`, for each generated token its probability and the `n` most probable tokens,
 * { id, probability, alternatives: [{ id, logit, probability }] }, and the attention weights
 * `maps.encoder`, `maps.self` and `maps.cross`, each [block][head][query][key].
 */
export function* explain(model, source, generated, n = 5) {
  const maps = { encoder: [], self: [], cross: [] };
  const memory = yield* encodeSource(model, source, maps.encoder);
  const target = [BOS, ...generated.slice(0, -1)];
  const hidden = yield* decodeTarget(model, target, memory, newCaches(model.decoder), maps);
  const steps = [];
  for (const [i, id] of generated.entries()) {
    const [logits] = scores(model, [hidden[i]]);
    const probabilities = softmax(logits);
    const alternatives = topK(probabilities, n).map((other) => ({
      id: other,
      logit: logits[other],
      probability: probabilities[other],
    }));
    steps.push({ id, probability: probabilities[id], alternatives });
    yield generated.slice(0, i);
  }
  return { steps, maps };
}

/** The ids from EOS on with the `k` largest values, in descending order; ties by id. */
export function topK(values, k) {
  const top = [];
  for (let id = EOS; id < values.length; id += 1) {
    if (top.length === k && !(values[id] > values[top[k - 1]])) continue;
    let place = top.length;
    while (place > 0 && values[id] > values[top[place - 1]]) place -= 1;
    top.splice(place, 0, id);
    if (top.length > k) top.pop();
  }
  return top;
}

// What a sentence passes through in the model, from its tokens to the hypotheses of beam search.
// tfmr/widgets/flow.py computes the same numbers.

import { ALPHA, beamSearch } from "./search.js";
import { textOf, translate, withText } from "./sentences.js";
import { embed, encoderBlock, layerNorm } from "./transformer.js";

/** The hypotheses of the beam search. */
export const BEAM = 4;

/**
 * Translate the ids of a sentence by greedy decoding and by beam search. Returns what translate() does
 * for greedy decoding, `stream`, see encoderStream(), and `hypotheses` of the beam search, best first:
 * { text, length, logProb, score }, where `length` counts all generated tokens.
 */
export function* trace(whole, source) {
  const { model, tokenizer } = whole;
  const translation = yield* translate(whole, source, 1);
  const toText = () => translation.text;
  const stream = yield* withText(encoderStream(model, source), toText);
  const found = yield* withText(beamSearch(model, source, BEAM, ALPHA, BEAM), toText);
  const hypotheses = found.map(({ ids, logProb, score, finished }) =>
    ({ text: textOf(tokenizer, ids), length: ids.length + (finished ? 1 : 0), logProb, score }));
  return { ...translation, stream, hypotheses };
}

/**
 * The vectors of all source positions: the embeddings with positions, the residual stream after each
 * encoder block, and the encoder output, which is the layer norm of the last of them.
 */
function* encoderStream(model, source) {
  const stream = [embed(model, "source", source)];
  for (const block of model.encoder.blocks) {
    stream.push(encoderBlock(block, model.config, stream.at(-1)));
    yield;
  }
  return [...stream, layerNorm(model.encoder.norm, stream.at(-1))];
}

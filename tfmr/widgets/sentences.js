// From a sentence to its translation and back to what a reader can see, as in
// tfmr/decode/sentences.py.

import { EOS, UNK, decode, encode, tokens } from "./bpe.js";
import { beamSearch, explain, greedySearch, maxOutputLength } from "./search.js";
import { canonical, fromForm, split, toForm } from "./text.js";

/**
 * The ids of a sentence. Throws an Error with a sentence for the reader if the text is empty or too
 * long, or has words that are not in the vocabulary.
 */
export function encodeSentence({ model, tokenizer }, text) {
  const sentence = toForm(text, tokenizer.form);
  if (sentence === "") throw new Error("There is nothing to translate: type a sentence.");
  const ids = encode(tokenizer, sentence);
  const maxLength = model.config.max_length;
  if (ids.length > maxLength) {
    throw new Error(
      `The sentence has ${ids.length} tokens and the model accepts at most ${maxLength}: shorten the sentence.`,
    );
  }
  if (ids.includes(UNK)) {
    const unknown = split(sentence).filter((word) => encode(tokenizer, word).includes(UNK));
    const listed = [...new Set(unknown)].map((word) => `“${word}”`).join(", ");
    throw new Error(
      `The model's vocabulary lacks ${listed}: use words of the pocket grammar, as in the examples.`,
    );
  }
  return ids;
}

/** The characters of a sentence that no token spells, so that the model gets their single bytes. */
export function splitCharacters({ tokenizer }, text) {
  if (tokenizer.kind === "words") return [];
  const hasBytes = (part) =>
    tokens(tokenizer, encode(tokenizer, part)).some((token) => /^<[0-9a-f]+>$/.test(token));
  const sentence = toForm(text, tokenizer.form);
  if (!hasBytes(sentence)) return [];
  return [...new Set(sentence)].filter((each) => each > "\u007f" && hasBytes(each));
}

/** The text of generated ids in ordinary spelling. */
export const textOf = (tokenizer, ids) => fromForm(canonical(decode(tokenizer, ids)), tokenizer.form);

/**
 * Translate the ids of a sentence. Returns { generated, text, finished, steps, maps }: the generated
 * ids, with EOS if the translation is `finished` and not cut at its maximum length; see explain() for
 * `steps` and `maps`. It pauses with the text of the current prefix.
 */
export function* translate({ model, tokenizer }, source, beam) {
  const toText = (prefix) => textOf(tokenizer, prefix);
  let ids;
  let finished;
  if (beam > 1) {
    [{ ids, finished }] = yield* withText(beamSearch(model, source, beam), toText);
  } else {
    ids = yield* withText(greedySearch(model, source), toText);
    finished = ids.length < maxOutputLength(model, source);
  }
  const generated = finished ? [...ids, EOS] : ids;
  const text = toText(ids);
  const { steps, maps } = yield* withText(explain(model, source, generated), () => text);
  return { generated, text, finished, steps, maps };
}

/** The same pauses, with a text instead of ids. */
export function* withText(generator, toText) {
  for (;;) {
    const { value, done } = generator.next();
    if (done) return value;
    yield toText(value ?? []);
  }
}

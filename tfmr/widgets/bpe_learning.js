// Learning a byte-pair encoding, as tfmr/data/bpe.py does it. A test compares the merges with Python's.

import { mergePair } from "./bpe.js";

/** The figure takes this many different words, of this many characters, and learns this many merges. */
export const LIMITS = { words: 20, characters: 24, merges: 60 };

// The characters at which Python's str.split splits: \p{White_Space} and four separators.
const SPACE = /[\p{White_Space}\x1c-\x1f]+/u;

/** The white-space separated parts of a text in Unicode normal form C. */
export function splitText(text) {
  return text.toWellFormed().normalize("NFC").split(SPACE).filter((part) => part !== "");
}

/**
 * The words of a text with their counts, as `read_words` of tfmr/widgets/merges.py reads them: "sing*5"
 * stands for a word that occurs five times. Returns `words`, pairs [word, count] in the order of their
 * first occurrence, and how many parts were left out because they are `long`, and how many because there
 * were `more` words than the limit.
 */
export function readWords(text) {
  const counts = new Map();
  const leftOut = { long: 0, more: 0 };
  for (const part of splitText(text)) {
    const [, word, count] = /^(.+)[*×]([1-9][0-9]{0,3})$/u.exec(part) ?? [null, part, 1];
    if ([...word].length > LIMITS.characters) leftOut.long += 1;
    else if (!counts.has(word) && counts.size === LIMITS.words) leftOut.more += 1;
    else counts.set(word, (counts.get(word) ?? 0) + Number(count));
  }
  return { words: [...counts], ...leftOut };
}

/** A pair of symbols as one string, unambiguous for any symbols. */
const keyOf = (left, right) => `${left.length} ${left}${right}`;

/** Replace every occurrence of the pair in a list of symbols, left to right, by one symbol. */
export function merge(symbols, [left, right]) {
  const found = symbols.map((symbol, i) => symbol === left && symbols[i + 1] === right);
  return mergePair(symbols, found, true, left + right);
}

/**
 * The pairs of adjacent symbols, the next one to merge first.
 *
 * words: objects { count, symbols }. age: a Map from each symbol to its number; an older symbol has a
 * smaller one. Returns objects { pair, count, terms }; `terms` has [occurrences in the word, count of
 * the word] for each word that contains the pair, and `count` is the sum of their products. Pairs of
 * the same count are a tie: the pair with the older left symbol is first, then the older right one.
 */
export function countPairs(words, age) {
  const found = new Map();
  for (const { symbols, count } of words) {
    const inWord = new Map();
    for (let i = 0; i + 1 < symbols.length; i += 1) {
      const key = keyOf(symbols[i], symbols[i + 1]);
      if (!found.has(key)) found.set(key, { pair: [symbols[i], symbols[i + 1]], count: 0, terms: [] });
      inWord.set(key, (inWord.get(key) ?? 0) + 1);
    }
    for (const [key, times] of inWord) {
      const entry = found.get(key);
      entry.count += times * count;
      entry.terms.push([times, count]);
    }
  }
  return [...found.values()].sort((a, b) => b.count - a.count
    || age.get(a.pair[0]) - age.get(b.pair[0]) || age.get(a.pair[1]) - age.get(b.pair[1]));
}

/** The characters of a text in the order of their code points, as Python sorts them. */
function alphabet(text) {
  return [...new Set(text)].sort((a, b) => a.codePointAt(0) - b.codePointAt(0));
}

/**
 * Learn at most `n` merges from `words`, a list of pairs [word, count].
 *
 * Returns all states of the learning, from before the first merge to after the last one. A state is
 * { words: [{ word, count, symbols }], vocabulary, pairs }: the words as symbols, the symbols from the
 * oldest to the newest, and the pairs as `countPairs` returns them. Each state merges its first pair.
 */
export function learnMerges(words, n) {
  const stateOf = (spelled, vocabulary) => ({
    words: spelled,
    vocabulary,
    pairs: countPairs(spelled, new Map(vocabulary.map((symbol, i) => [symbol, i]))),
  });
  const letters = words.map(([word, count]) => ({ word, count, symbols: [...word] }));
  const states = [stateOf(letters, alphabet(words.map(([word]) => word).join("")))];
  while (states.length <= n && states.at(-1).pairs.length > 0) {
    const { words: before, vocabulary, pairs: [{ pair }] } = states.at(-1);
    const symbol = pair.join("");
    states.push(stateOf(
      before.map((each) => ({ ...each, symbols: merge(each.symbols, pair) })),
      vocabulary.includes(symbol) ? vocabulary : [...vocabulary, symbol],
    ));
  }
  return states;
}

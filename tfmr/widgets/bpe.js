// From text to token ids and back, as tfmr/data/tokenizer.py does it; the algorithm is that of
// tfmr/data/bpe.py. A test compares the ids with Python's.

import { split, toForm } from "./text.js";

export const PAD = 0;
export const BOS = 1;
export const EOS = 2;
export const UNK = 3;
export const SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"];

// A word with the space before it, a number, punctuation, or white space (Radford et al., 2019).
// The class \s of JavaScript differs from White_Space in two characters.
const WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/**
 * A tokenizer from the content of its file: `kind` ("bpe" or "words"), `vocabulary` (the tokens with
 * the ids 4, 5, 6, …), `merges` (pairs of tokens in the order of learning) and the `form` of its text.
 */
export function makeTokenizer({ kind, vocabulary, merges, form = "plain" }) {
  const entries = [...SPECIAL, ...vocabulary];
  const ids = new Map(vocabulary.map((entry, index) => [entry, index + SPECIAL.length]));
  const tokenizer = { kind, entries, ids, form, vocabSize: entries.length };
  if (kind === "words") {
    ids.set(SPECIAL[UNK], UNK);
  } else {
    tokenizer.ranks = mergeRanks(ids, merges);
  }
  return tokenizer;
}

/** Encode a text as ids without BOS and EOS; UNK for words outside the vocabulary. */
export function encode(tokenizer, text) {
  const sentence = toForm(text, tokenizer.form);
  if (tokenizer.kind === "words") {
    return split(sentence).map((word) => tokenizer.ids.get(word) ?? UNK);
  }
  if (sentence === "") return [];
  const words = ` ${sentence}`.match(WORDS);
  return words.flatMap((word) => bpeSplit(spell(word, tokenizer.ids), tokenizer.ranks));
}

/** Decode ids to text; PAD, BOS and EOS are skipped. */
export function decode(tokenizer, ids) {
  const kept = ids.filter((id) => id > EOS || id < PAD).map((id) => tokenizer.entries[id]);
  if (tokenizer.kind === "words") return kept.join(" ");
  return bytesToText(kept.join("")).replace(/^ /, "");
}

/**
 * A readable string for each id. The space before a word is shown as "▁"; an incomplete character
 * is shown as its bytes in hexadecimal, such as "<ed95>".
 */
export function tokens(tokenizer, ids) {
  return ids.map((id) => {
    const entry = tokenizer.entries[id];
    if (tokenizer.kind === "words" || id < SPECIAL.length) return entry;
    const text = bytesToText(entry);
    if (!text.includes("\uFFFD")) return text.replaceAll(" ", "▁");
    const hexadecimal = [...entry].map((symbol) => RAW.get(symbol).toString(16).padStart(2, "0"));
    return `<${hexadecimal.join("")}>`;
  });
}

/**
 * Split a word into tokens: apply the merges in the order of learning, each to every occurrence of
 * its pair, left to right. Returns `word`, a list of ids, with the pairs merged.
 */
export function bpeSplit(word, ranks) {
  let symbols = word;
  let pairs = pairRanks(symbols, ranks);
  for (;;) {
    let first = Infinity;
    for (const rank of pairs) if (rank < first) first = rank;
    if (first === Infinity) return symbols;
    symbols = mergePair(symbols, pairs, first, ranks.merged[first]);
    pairs = pairRanks(symbols, ranks);
  }
}

/**
 * Replace every occurrence of the pair with the given rank, left to right, by the symbol `merged`.
 * `pairs[i]` is the rank of the pair of symbols i and i + 1.
 */
export function mergePair(symbols, pairs, rank, merged) {
  const spelling = [];
  let i = 0;
  while (i < symbols.length) {
    if (pairs[i] === rank) {
      spelling.push(merged);
      i += 2;
    } else {
      spelling.push(symbols[i]);
      i += 1;
    }
  }
  return spelling;
}

/** For each pair of adjacent symbols, the rank of its merge: 0 was learned first. */
function pairRanks(symbols, { rank, base }) {
  const found = new Array(symbols.length).fill(Infinity);
  for (let i = 0; i + 1 < symbols.length; i += 1) {
    found[i] = rank.get(symbols[i] * base + symbols[i + 1]) ?? Infinity;
  }
  return found;
}

/** The merges by pair of ids. A pair is stored as one number, `left * base + right`. */
function mergeRanks(ids, merges) {
  const base = ids.size + SPECIAL.length;
  const key = ([left, right]) => ids.get(left) * base + ids.get(right);
  return {
    base,
    rank: new Map(merges.map((pair, index) => [key(pair), index])),
    merged: merges.map((pair) => ids.get(pair.join(""))),
  };
}

/** The ids of the UTF-8 bytes of a word, so that 256 symbols spell any text. */
function spell(word, ids) {
  return Array.from(new TextEncoder().encode(word), (byte) => ids.get(ALPHABET[byte]));
}

/** The text that symbols of the byte alphabet spell; U+FFFD for an incomplete character. */
function bytesToText(symbols) {
  const bytes = Uint8Array.from([...symbols].map((symbol) => RAW.get(symbol)));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/**
 * The symbol of each byte. A printable Latin-1 character represents its own byte; the remaining
 * bytes are represented, in order, by the characters from U+0100 on.
 */
function byteAlphabet() {
  const printable = (byte) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad && byte <= 0xff);
  let others = 0;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode(printable(byte) ? byte : 256 + others++),
  );
}

const ALPHABET = byteAlphabet();
const RAW = new Map(ALPHABET.map((symbol, byte) => [symbol, byte]));

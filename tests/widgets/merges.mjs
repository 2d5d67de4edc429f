// Learns the merges of texts for the tests in Python: reads a JSON list of texts from standard input,
// and answers with what is read and learned from each.

import { readFileSync } from "node:fs";

import { LIMITS, learnMerges, readWords } from "../../tfmr/widgets/bpe_learning.js";

function learn(text) {
  const { words } = readWords(text);
  const states = learnMerges(words, LIMITS.merges);
  const last = states.at(-1);
  return {
    words,
    merges: states.slice(0, -1).map(({ pairs }) => pairs[0].pair),
    vocabulary: last.vocabulary,
    spellings: last.words.map(({ symbols }) => symbols),
    pairs: states[0].pairs,
  };
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(learn)));

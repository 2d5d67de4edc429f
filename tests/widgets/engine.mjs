// Runs the page's translator for the tests in Python: `node engine.mjs MODEL` reads requests from
// standard input, one JSON object a line, and answers each with one line.

import { openSync, readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

import { decode, encode, tokens } from "../../tfmr/widgets/bpe.js";
import { encodeSentence, translate } from "../../tfmr/widgets/sentences.js";
import { beamSearch, explain, greedySearch } from "../../tfmr/widgets/search.js";
import { trace } from "../../tfmr/widgets/tracing.js";
import {
  copyState, decodeTarget, encodeSource, newCaches, scores, start, step,
} from "../../tfmr/widgets/transformer.js";
import { parseModel, readModel } from "../../tfmr/widgets/weights.js";

const { model, tokenizer } = readModel(parseModel(readFileSync(process.argv[2], "utf8")));

/** The result of a generator that pauses. */
function finish(generator) {
  for (;;) {
    const { value, done } = generator.next();
    if (done) return value;
  }
}

const commands = {
  encode: ({ text }) => encode(tokenizer, text),
  /** What the page translates a typed text to, or the message of an error. */
  translate({ text, beam }) {
    try {
      const whole = { model, tokenizer };
      return finish(translate(whole, encodeSentence(whole, text), beam)).text;
    } catch (error) {
      return `Error: ${error.message}`;
    }
  },
  decode: ({ ids }) => decode(tokenizer, ids),
  tokens: ({ ids }) => tokens(tokenizer, ids),
  greedy: ({ source }) => finish(greedySearch(model, source)),
  beam: ({ source, beam, alpha, n_best }) => finish(beamSearch(model, source, beam, alpha, n_best)),
  explain: ({ source, generated }) => finish(explain(model, source, generated)),
  trace({ source }) {
    const { stream, ...rest } = finish(trace({ model, tokenizer }, source));
    return { stream: stream.map((vectors) => vectors.map((vector) => [...vector])), ...rest };
  },
  /** Writes the encoder output and the logits to `file`, as 32-bit floats. */
  teacher({ source, target, file }) {
    const memory = finish(encodeSource(model, source));
    const hidden = finish(decodeTarget(model, target, memory, newCaches(model.decoder)));
    const out = openSync(file, "w");
    for (const vector of [...memory, ...scores(model, hidden)]) writeSync(out, vector);
    return memory.length;
  },
  /** The logits of the last of several steps, and again after another continuation of a copy. */
  steps({ source, target }) {
    const state = finish(start(model, source));
    for (const token of target.slice(0, -1)) step(model, token, state);
    step(model, 5, copyState(state));
    return [...step(model, target.at(-1), state)];
  },
  /** The message of the error that reading a file throws. */
  read({ file }) {
    try {
      readModel(parseModel(readFileSync(file, "utf8")));
    } catch (error) {
      return error.message;
    }
    return "";
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...options } = JSON.parse(line);
  console.log(JSON.stringify(commands[command](options)));
}

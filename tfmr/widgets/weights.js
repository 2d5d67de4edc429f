// Reads the file of a model, which tfmr/widgets/page_model.py writes and describes.

import { makeTokenizer } from "./bpe.js";
import { makeModel } from "./transformer.js";

const FORMAT = "tfmr-page-model-1";
const PREFIX = "tfmrModel(";
const SUFFIX = ");\n";

/** The object in the text of a file. Throws an Error with a sentence for the reader. */
export function parseModel(text) {
  if (!text.startsWith(PREFIX)) throw new Error("The file is not a model of this book.");
  if (!text.endsWith(SUFFIX)) throw new Error("The model file is incomplete.");
  try {
    return JSON.parse(text.slice(PREFIX.length, -SUFFIX.length));
  } catch {
    throw new Error("The model file is damaged.");
  }
}

/**
 * The model and the tokenizer of a file's object: { name, corpus, direction, model, tokenizer }.
 * Throws an Error with a sentence for the reader.
 */
export function readModel(content) {
  if (content.format !== FORMAT) {
    throw new Error(
      `The model file has the format ${content.format}, but this page reads ${FORMAT}.`,
    );
  }
  const { name, corpus, direction, config } = content;
  const tensors = unpack(content.shapes, content.weights);
  const model = makeModel(config, tensors);
  return { name, corpus, direction, model, tokenizer: makeTokenizer(content.tokenizer) };
}

/** The parameters by name, { shape, data }: floats and row scales, then 8-bit integers. */
function unpack(shapes, weights) {
  const all = Object.values(shapes);
  const nFloats = all.reduce((total, [rows]) => total + rows, 0);
  const nIntegers = all.reduce((total, [rows, columns = 0]) => total + rows * columns, 0);
  const bytes = fromBase64(weights);
  if (bytes.length !== 4 * nFloats + nIntegers) {
    throw new Error("The model file is incomplete.");
  }
  const view = new DataView(bytes.buffer);
  const integers = new Int8Array(bytes.buffer, 4 * nFloats);
  let atFloat = 0;
  let atInteger = 0;
  return Object.fromEntries(
    Object.entries(shapes).map(([name, shape]) => {
      const [rows, columns] = shape;
      const floats = Float32Array.from({ length: rows }, (_, i) =>
        view.getFloat32(4 * (atFloat + i), true),
      );
      atFloat += rows;
      if (shape.length === 1) return [name, { shape, data: floats }];
      const data = new Float32Array(rows * columns);
      for (let i = 0; i < data.length; i += 1) {
        data[i] = integers[atInteger + i] * floats[Math.floor(i / columns)];
      }
      atInteger += data.length;
      return [name, { shape, data }];
    }),
  );
}

function fromBase64(text) {
  let decoded;
  try {
    decoded = atob(text);
  } catch {
    throw new Error("The model file is damaged.");
  }
  const bytes = new Uint8Array(decoded.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = decoded.charCodeAt(i);
  return bytes;
}

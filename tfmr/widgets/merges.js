// Byte-pair encoding, merge by merge: words as symbols, counts of pairs, vocabulary, and another word
// that is split with the merges so far. The algorithm is in bpe_learning.js.

import { html, useState } from "./vendor/preact.js";
import { LIMITS, learnMerges, merge, readWords, splitText } from "./bpe_learning.js";
import { Select, Stepper, useId, Views } from "./lib/controls.js";
import { count, listed } from "./lib/format.js";
import { Frame } from "./lib/frame.js";
import { live, useTrait } from "./lib/model.js";
import { anyText, whole } from "./lib/state.js";

/** So many pairs are in the table. */
const SHOWN_PAIRS = 6;
/** So many words are named in the sum of a count. */
const SHOWN_TERMS = 6;

const EXAMPLES = [
  { name: "four words of the chapter", text: "sing*5 singing*3 ring*4 ringing*2", word: "bringing" },
  { name: "example of Sennrich et al.", text: "low*5 lower*2 newest*6 widest*3", word: "lowest" },
  {
    name: "German compounds",
    text: "Haus*4 Haustür*2 Türschloss*2 Schlossgarten*1 Gartenhaus*3 Gartentür*2",
    word: "Hausgarten",
  },
  { name: "Korean words with particles", text: "학교*3 학교에*2 학교에서*2 집에*3 집에서*2", word: "집에서는" },
  {
    name: "a sentence",
    text: "the wolf and the owl follow the other wolves over the lower hollow",
    word: "fellow",
  },
];
const OWN = "own";

/** A symbol as visible text: a character that cannot be seen is shown by its code point. */
function visible(symbol) {
  if (/^[\p{C}\p{Z}\u{FE00}-\u{FE0F}]+$/u.test(symbol)) {
    return [...symbol].map((each) => `U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ");
  }
  return /^\p{M}/u.test(symbol) ? `◌${symbol}` : symbol;
}

const quoted = (pair) => `“${pair.map(visible).join(" ")}”`;
const times = (n) => ["never", "once", "twice"][n] ?? `${count(n)} times`;
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** A field for text, of one line or of several. */
function Field({ label, value, onInput, lines = 1 }) {
  const id = useId();
  const input = (event) => onInput(event.target.value);
  return html`<div class="mer-field">
    <label for=${id}>${label}</label>
    ${lines > 1
      ? html`<textarea id=${id} rows=${lines} value=${value} spellcheck=${false} onInput=${input}></textarea>`
      : html`<input id=${id} type="text" value=${value} spellcheck=${false} autocomplete="off" autocapitalize="off"
          onInput=${input} />`}
  </div>`;
}

/** Symbols in a row; `look(symbol, i)` is what they are marked as: "new", "next" or "unknown". */
function Symbols({ symbols, look }) {
  return html`<span class="mer-symbols" dir="auto">${symbols.map((symbol, i) =>
    html`<span key=${i} class="mer-symbol" data-look=${look(symbol, i)}>${visible(symbol)}</span>`)}</span>`;
}

/** For each position, whether the symbol there is the left or the right part of the pair to merge. */
function partsOf(symbols, pair) {
  const parts = [];
  while (pair && parts.length < symbols.length) {
    const i = parts.length;
    if (symbols[i] === pair[0] && symbols[i + 1] === pair[1]) parts.push("next-left", "next-right");
    else parts.push(undefined);
  }
  return parts;
}

/** The words as symbols: what the last merge made is filled, what is merged next is joined. */
function Words({ words, pair, made }) {
  return html`<section class="mer-box" tabindex="0" aria-label="Words, scrollable"><p class="mer-caption">Words as symbols</p>
    <ul class="mer-words">${words.map(({ word, count: n, symbols }) => {
      const parts = partsOf(symbols, pair);
      return html`<li key=${word}><${Symbols} symbols=${symbols}
        look=${(symbol, i) => parts[i] ?? (symbol === made ? "new" : undefined)} />
        <span class="mer-count">${count(n)}×</span></li>`;
    })}</ul>
  </section>`;
}

/** A count as the sum over the words: 5 + 2·3 + 4 + 2·2. */
function sumOf(terms) {
  const products = terms.map(([inWord, n]) => (inWord === 1 ? count(n) : `${inWord}·${count(n)}`));
  if (products.length > SHOWN_TERMS) products.splice(SHOWN_TERMS, Infinity, "…");
  return products.join(" + ");
}

/** The pairs with their counts, and why the first one is merged next. Those of the same count are its tie. */
function Pairs({ pairs, tied, why }) {
  const others = pairs.length - SHOWN_PAIRS;
  const note = (i) => (i === 0 ? "merged next" : i < tied ? "tie" : "");
  return html`<section class="mer-box" tabindex="0" aria-label="Pairs, scrollable"><table class="mer-pairs">
      <caption>Pairs of adjacent symbols</caption>
      <thead><tr><th scope="col">pair</th><th scope="col">count</th><th scope="col">
        <span class="mer-hidden">verdict</span></th></tr></thead>
      <tbody>${pairs.slice(0, SHOWN_PAIRS).map(({ pair, count: n, terms }, i) => html`<tr key=${pair.join("\0")}
          data-rank=${i === 0 ? "next" : i < tied ? "tie" : "other"}>
        <th scope="row"><${Symbols} symbols=${pair} look=${(_, k) => (i > 0 ? undefined : k ? "next-right" : "next-left")} /></th>
        <td><b>${count(n)}</b>${terms.length > 1 || terms[0][0] > 1 ? html`${" "}= ${sumOf(terms)}` : ""}</td>
        <td>${note(i)}</td>
      </tr>`)}</tbody>
    </table>
    ${others > 0 && html`<p class="mer-hint">and ${plural(others, "other pair")}${
      tied > SHOWN_PAIRS ? `, ${count(tied - SHOWN_PAIRS)} of them in the tie` : ""}.</p>`}
    <p class="mer-reason">${why}</p>
  </section>`;
}

/** Why the first pair is merged next. */
function reason(pairs, tied, vocabulary) {
  const [first, second] = pairs;
  if (tied === 1) return `${quoted(first.pair)} is the most frequent pair (${times(first.count)}), so it is merged next.`;
  const side = first.pair[0] === second.pair[0] ? 1 : 0;
  const number = (symbol) => `“${visible(symbol)}” (number ${vocabulary.indexOf(symbol) + 1})`;
  const names = tied === 2 ? `${quoted(first.pair)} and ${quoted(second.pair)}` : `${count(tied)} pairs`;
  return `Tie: ${names} occur ${times(first.count)} each. The pair with the older symbols is merged:
    ${side ? "the left symbols are the same, and on the right" : "on the left,"} ${number(first.pair[side])} is older than ${
    number(second.pair[side])}.`.replace(/\s+/g, " ");
}

/** The symbols with their numbers, from the oldest to the newest. */
function Vocabulary({ vocabulary, made }) {
  return html`<section class="mer-box" tabindex="0" aria-label="Vocabulary, scrollable">
    <p class="mer-caption">Vocabulary: ${plural(vocabulary.length, "symbol")}</p>
    <ol class="mer-vocabulary">${vocabulary.map((symbol, i) => html`<li key=${symbol}>
      <span class="mer-number">${i + 1}</span><span class="mer-symbol"
        data-look=${symbol === made ? "new" : undefined} dir="auto">${visible(symbol)}</span></li>`)}</ol>
  </section>`;
}

/** The symbols of a word after each merge that changes it: objects { number, pair, symbols }. */
function splitWord(word, merges) {
  const steps = [{ number: 0, symbols: [...word] }];
  merges.forEach((pair, i) => {
    const symbols = merge(steps.at(-1).symbols, pair);
    if (symbols.length < steps.at(-1).symbols.length) steps.push({ number: i + 1, pair, symbols });
  });
  return steps;
}

/** Notes about a text or a word that is not used as a whole. */
function notesOf({ long, more }, parts) {
  const notes = [];
  if (more) notes.push(`The figure uses the first ${LIMITS.words} different words; ${plural(more, "later word")} ${more === 1 ? "is" : "are"} left out.`);
  if (long) notes.push(`${long === 1 ? "A word" : `${count(long)} words`} of more than ${LIMITS.characters} characters ${long === 1 ? "is" : "are"} left out.`);
  if (parts.length > 1) notes.push("Only the first word is split.");
  if (parts.length && [...parts[0]].length > LIMITS.characters) notes.push(`The word is cut after ${LIMITS.characters} characters.`);
  return notes;
}

/** How the new word is split by the merges so far. */
function NewWord({ steps, vocabulary }) {
  const unknown = [...new Set(steps[0].symbols)].filter((symbol) => !vocabulary.includes(symbol));
  const look = (symbol) => (vocabulary.includes(symbol) ? undefined : "unknown");
  return html`<section class="mer-box mer-new" tabindex="0" aria-label="New word, scrollable"><div>
    <p class="mer-caption">The new word, merge by merge</p>
    <ol class="mer-splits">${steps[0].symbols.length > 0 && steps.map(({ number, pair, symbols }) => html`<li key=${number}>
      <span class="mer-when">${number ? html`merge ${number}: ${quoted(pair)}` : "characters"}</span>
      <${Symbols} symbols=${symbols} look=${look} /></li>`)}</ol>
    ${unknown.length > 0 && html`<p class="mer-note">${listed(unknown.map((each) => `“${visible(each)}”`))}
      ${unknown.length > 1 ? " are" : " is"} in none of the words, so the vocabulary has no such symbol. Merging bytes
      instead of characters avoids this.</p>`}
  </div></section>`;
}

function Merges({ model }) {
  const [text, setText] = useTrait(model, "text");
  const [word, setWord] = useTrait(model, "word");
  const [wanted, setStep] = useTrait(model, "step");
  const [playing, setPlaying] = useState(false);

  const read = readWords(text);
  const states = learnMerges(read.words, LIMITS.merges);
  const last = states.length - 1;
  const step = Math.min(wanted, last);
  const { words, vocabulary, pairs } = states[step];
  const merges = states.slice(0, step).map((state) => state.pairs[0].pair);
  const made = merges.at(-1)?.join("");
  const tied = pairs.filter((each) => each.count === pairs[0].count).length;
  const parts = splitText(word);
  const steps = splitWord([...(parts[0] ?? "")].slice(0, LIMITS.characters).join(""), merges);
  const isEmpty = words.length === 0;

  const change = (next) => {
    setText(next);
    setStep(0);
  };
  const example = EXAMPLES.find((each) => each.text === text)?.name ?? OWN;
  const choose = (name) => {
    const chosen = EXAMPLES.find((each) => each.name === name);
    if (!chosen) return;
    change(chosen.text);
    setWord(chosen.word);
  };
  const end = pairs.length === 0 ? "Every word is a single symbol, so there is no pair left to merge."
    : step === LIMITS.merges ? `The figure stops after ${LIMITS.merges} merges.` : "";
  const next = () => end
    || `Merged next: ${quoted(pairs[0].pair)}, ${times(pairs[0].count)}${tied > 1 ? `, a tie of ${count(tied)} pairs` : ""}.`;
  const result = steps[0].symbols.length > 0
    ? ` “${steps[0].symbols.map(visible).join("")}” is split into ${plural(steps.at(-1).symbols.length, "symbol")}: ${
      steps.at(-1).symbols.map(visible).join(" ")}.` : "";
  const status = isEmpty ? "There are no words to learn from: write at least one word."
    : `${step ? `After ${plural(step, "merge")}` : "Before the first merge"}: ${plural(vocabulary.length, "symbol")}. ${next()}${result}`;

  const options = EXAMPLES.map(({ name }) => [name, name]);
  const controls = html`
    <${Select} label="Example" value=${example} onInput=${choose} options=${[...options, [OWN, "your own words"]]} />
    <${Field} label="Split a new word" value=${word} onInput=${setWord} />
    <${Field} label="Words to learn from (sing*5: five times)" lines=${2} value=${text} onInput=${change} />
    ${last > 0 && html`<${Stepper} label="Merges" value=${step} max=${last} onInput=${setStep} onPlaying=${setPlaying}
      milliseconds=${1600} show=${(n) => `${n} of ${last}`} />`}`;

  const views = isEmpty ? [] : [
    ["words", html`<${Words} words=${words} pair=${pairs[0]?.pair} made=${made} />`],
    ["pairs", html`<${Pairs} pairs=${pairs} tied=${tied} why=${end || reason(pairs, tied, vocabulary)} />`],
    ["symbols", html`<${Vocabulary} vocabulary=${vocabulary} made=${made} />`],
    ["new word", html`<${NewWord} steps=${steps} vocabulary=${vocabulary} />`],
  ];
  return html`<${Frame} title="Byte-pair encoding" controls=${controls} quiet=${playing} status=${status} lines=${[2, 4]}
    task="step through the merges, and predict the next one from the counts of the pairs."
    shows=${html`Each merge replaces every occurrence of the most frequent pair by a new symbol and adds this symbol
      to the vocabulary, which lists the oldest symbols first. Frequent
      words and stems become single symbols. An unseen word is split into known symbols by the same merges in the same
      order: write your own words, and split a word that is not among them. This figure merges characters; the package's tokenizer merges bytes.`}>
    ${notesOf(read, parts).map((note) => html`<p class="mer-note" key=${note}>${note}</p>`)}
    ${isEmpty ? html`<p class="mer-note">Write a few words, such as “sing singing ring”.</p>`
      : html`<div class="mer-views"><${Views} label="View" together=${true} views=${views} /></div>`}
  <//>`;
}

export const render = live(Merges, () => ({ text: anyText, word: anyText, step: whole(0, LIMITS.merges) }));

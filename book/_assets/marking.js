// Marks answers in the page, without a kernel: numbers, and predictions. The values and the texts come from
// tools/site/answers.py, and the rules are those of tfmr/exercises/exercise.py.

window.bookAnswers = {};

(() => {
  "use strict";

  const NUMBER = /^[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[+-]?\d+)?$/i;
  const list = new Intl.ListFormat("en-GB");

  /** The number that a text denotes, as a decimal or as a fraction; NaN if it denotes none. */
  function numberIn(text) {
    const parts = text.replaceAll("−", "-").split("/").map((part) => part.trim());
    if (parts.length > 2 || !parts.every((part) => NUMBER.test(part))) return NaN;
    const [above, below = 1] = parts.map((part) => Number(part.replace(",", ".")));
    return Number.isFinite(above / below) ? above / below : NaN;
  }

  /** A text as Python shows it. */
  function quoted(text) {
    const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
    return mark + text.replace(mark === "'" ? /[\\']/g : /\\/g, "\\$&") + mark;
  }

  /** The verdict on what the fields contain, as Exercise.check gives it. */
  function mark(data, texts) {
    if (texts.some((text) => !text.trim())) return data.nothing;
    if (data.options) return data.options[texts[0]];
    const given = texts.map((text) => Math.fround(numberIn(text)));
    if (given.some(Number.isNaN)) {
      const shown = texts.map(quoted).join(", ");
      const headline = data.malformed.headline.replace("…", () => (data.single ? shown : `[${shown}]`));
      return { ...data.malformed, headline };
    }
    const { tolerance } = data;
    const agrees = (values) =>
      values.every((value, i) => Math.abs(given[i] - value) <= tolerance + tolerance * Math.abs(value));
    if (agrees(data.expected)) return data.right;
    const explained = data.mistakes.filter(({ values }) => agrees(values));
    if (explained.length === 1) return explained[0].verdict;
    const correct = data.rounded.flatMap((value, i) =>
      Math.abs(given[i] - value) <= tolerance ? [`number ${i + 1}`] : []);
    const details = correct.length ? data.partly.replace("number 1", list.format(correct)) : "";
    return { ...data.wrong, details };
  }

  const paragraph = (text) => Object.assign(document.createElement("p"), { textContent: text });

  function show(place, verdict, texts) {
    const read = texts.map((text) => String(Number(numberIn(text).toPrecision(6))));
    const unclear = !read.includes("NaN") && texts.some((text) => /[,/]/.test(text));
    place.setAttribute("data-kind", verdict.kind);
    place.replaceChildren(
      ...[verdict.headline, ...verdict.details.split("\n")].filter(Boolean).map(paragraph),
      ...(unclear ? [paragraph(`Your answer was read as ${list.format(read)}.`)] : []),
    );
  }

  for (const form of document.querySelectorAll("form.answer")) {
    const data = JSON.parse(form.querySelector("script").textContent);
    const fields = [...form.querySelectorAll('input[type="text"]')];
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const texts = data.options
        ? [form.querySelector("input:checked")?.value ?? ""]
        : fields.map((field) => field.value);
      for (const field of fields) field.setAttribute("aria-invalid", Number.isNaN(numberIn(field.value)));
      show(form.querySelector(".verdict"), mark(data, texts), texts);
    });
  }
  window.bookAnswers.mark = mark;
})();

// Marks answers in the page, without a kernel: numbers, and predictions. The values and the texts come from
// tools/site/answers.py, and the rules are those of tfmr/exercises/exercise.py. Only if the reader asks for it,
// the browser remembers the answers.

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

  /** The verdict on what the fields contain: where Exercise.check could read it, as that gives it. */
  function mark(data, texts) {
    if (texts.some((text) => !text.trim())) {
      const missing = data.options ? "choose an option" : "fill in all fields";
      return { kind: "not attempted", headline: `Not attempted: ${missing}, and check again.`, details: "There are hints below." };
    }
    if (data.options) return data.options[texts[0]];
    const given = texts.map((text) => Math.fround(numberIn(text)));
    const unread = texts.flatMap((text, i) => (Number.isNaN(given[i])
      ? [`Number${texts.length > 1 ? ` ${i + 1}` : ""}: expected a number, such as 0.5, 0,5 or 1/2; got “${text.trim()}”.`] : []));
    if (unread.length) return { kind: "wrong", headline: unread[0], details: unread.slice(1).join("\n") };
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

  const [count, remember, removal] = document.querySelector(".answers").querySelectorAll("p, input, button");
  const forms = [...document.querySelectorAll("form.answer")];
  const fieldsOf = (form) => [...form.querySelectorAll('[type="text"]')];
  const nameOf = (form) => form.getAttribute("aria-label");

  function countSolved(before = "") {
    const solved = forms.filter((form) => form.querySelector('[data-kind="right"]'));
    count.textContent = `${before}Solved in the forms on this page: ${solved.length} of ${forms.length}`;
  }

  /** The texts in the fields of a form; of options, the one that is chosen. */
  function read(form) {
    const texts = fieldsOf(form).map(({ value }) => value);
    return texts.length ? texts : [form.querySelector(":checked")?.value ?? ""];
  }

  function check(form) {
    const texts = read(form);
    for (const field of fieldsOf(form)) field.setAttribute("aria-invalid", Number.isNaN(numberIn(field.value)));
    const verdict = mark(JSON.parse(form.querySelector("script").textContent), texts);
    show(form.querySelector(".verdict"), verdict, texts);
    if (verdict.kind !== "not attempted") checked[nameOf(form)] = texts;
    countSolved();
  }

  // What the browser remembers: the texts of each form as they were last checked, by the name of the form.
  const KEY = "tfmr-answers";
  const checked = {};

  /** The answers that are remembered; whatever `store` does not write is ignored. */
  function remembered() {
    try {
      const entries = Object.entries(JSON.parse(localStorage.getItem(KEY)));
      return Object.fromEntries(entries.filter(([, texts]) => Array.isArray(texts)));
    } catch {
      return {};
    }
  }

  /** Remember the answers, or forget those of all pages. */
  function store() {
    try {
      if (remember.checked) localStorage.setItem(KEY, JSON.stringify({ ...remembered(), ...checked }));
      else localStorage.removeItem(KEY);
    } catch {
      remember.checked = false;
      countSolved("Your answers cannot be remembered, because the browser does not let this page store data. ");
    }
    removal.hidden = !remember.checked;
  }

  /** Fill in the answers that are remembered, and check them. A screen reader does not read the verdicts aloud. */
  function restore() {
    const answers = remembered();
    for (const form of forms.filter((each) => nameOf(each) in answers)) {
      const texts = answers[nameOf(form)];
      fieldsOf(form).forEach((field, i) => { field.value = texts[i] ?? ""; });
      for (const option of form.querySelectorAll('[type="radio"]')) option.checked = option.value === texts[0];
      form.querySelector(".verdict").ariaLive = "off";
      check(form);
    }
    remember.checked = true;
    removal.hidden = false;
  }

  removal.addEventListener("click", () => {
    remember.checked = false;
    store();
    for (const form of forms) {
      form.reset();
      delete checked[nameOf(form)];
      form.querySelector(".verdict").replaceChildren();
      form.querySelector(".verdict").removeAttribute("data-kind");
      for (const field of fieldsOf(form)) field.removeAttribute("aria-invalid");
    }
    remember.focus();
    countSolved("All your answers have been removed. ");
  });

  window.bookAnswers = {
    mark,
    restore,
    store,
    check(form) {
      form.querySelector(".verdict").ariaLive = "polite";
      check(form);
      // The reader may have stopped remembering on another page.
      if (remember.checked && localStorage.getItem(KEY) === null) {
        remember.checked = false;
        removal.hidden = true;
      }
      if (remember.checked) store();
    },
  };
})();

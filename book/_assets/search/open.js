// The search: Ctrl+K (⌘K on a Mac), the theme's search buttons, and the page search.html.
// Everything else that it needs is loaded at its first use, by classic scripts, which also work from file://.

(() => {
  // The version in the address of this script is that of everything it loads.
  const here = new URL(document.currentScript.src);
  const parts = ["../minisearch/index.js", "engine.js", "box.js"];
  let opener = null;
  let dialog = null;

  const add = (tag, name, properties) =>
    new Promise((resolve, reject) => {
      const element = document.createElement(tag);
      element.onload = resolve;
      element.onerror = () => {
        element.remove();
        reject(new Error(`${name} could not be loaded`));
      };
      Object.assign(element, properties(new URL(name + here.search, here).href));
      document.head.append(element);
    });
  const script = (name) => add("script", name, (src) => ({ src, async: false })); // run in this order

  let loading = null;
  function load() {
    loading ??= Promise.all([
      add("link", "search.css", (href) => ({ rel: "stylesheet", href })),
      ...parts.map(script),
    ]).catch((problem) => {
      loading = null;
      throw problem;
    });
    return loading;
  }
  const index = () => script("index.js").then(() => window.bookIndex);

  const problemText = ({ message }) => `The search could not be loaded: ${message}. Try again when the site can be reached.`;

  /** Tell the reader why the search does not open. */
  function report(problem) {
    const frame = document.createElement("dialog");
    const close = Object.assign(document.createElement("button"), { className: "btn", textContent: "Close" });
    const text = Object.assign(document.createElement("p"), { textContent: problemText(problem) });
    frame.setAttribute("aria-label", "Search");
    frame.append(text, close);
    close.addEventListener("click", () => frame.close());
    frame.addEventListener("close", () => frame.remove());
    document.body.append(frame);
    frame.showModal();
  }

  async function open(event) {
    const page = document.querySelector("#search-page input");
    if (page) {
      page.focus();
      return;
    }
    opener = event.currentTarget instanceof HTMLElement ? event.currentTarget : document.activeElement;
    try {
      await load();
    } catch (problem) {
      report(problem);
      return;
    }
    dialog ??= window.bookSearch.dialog(index, document.documentElement.dataset.content_root ?? "./");
    dialog.showModal();
    dialog.onclose = () => opener?.focus({ preventScroll: true });
  }

  const mac = /^(Mac|iPhone|iPad)/.test(navigator.platform);
  window.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || event.shiftKey || event.altKey) return;
    if (mac ? !event.metaKey || event.ctrlKey : !event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (dialog?.open) dialog.close();
    else open(event);
  });
  for (const button of document.querySelectorAll(".search-button__button")) {
    button.addEventListener("click", open);
  }

  const page = document.getElementById("search-page");
  if (page) {
    load().then(
      () => window.bookSearch.page(page, index, "./"),
      (problem) => page.append(problemText(problem)),
    );
  }
})();

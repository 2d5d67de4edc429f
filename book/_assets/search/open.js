// The search: Ctrl+K (⌘K on a Mac), the theme's search buttons, and the page search.html.
// Everything else that it needs is loaded at its first use, by classic scripts, which also work from file://.

(() => {
  const here = document.currentScript.src;
  const parts = ["../minisearch/index.js", "engine.js", "box.js"];
  let opener = null;
  let dialog = null;

  const add = (tag, properties) =>
    new Promise((resolve, reject) => {
      const element = document.createElement(tag);
      element.onload = resolve;
      element.onerror = () => reject(new Error(`${element.src || element.href} could not be loaded`));
      Object.assign(element, properties);
      document.head.append(element);
    });
  const address = (name) => new URL(name, here).href;
  const script = (name) => add("script", { src: address(name), async: false }); // run in this order

  let loading = null;
  function load() {
    loading ??= Promise.all([
      add("link", { rel: "stylesheet", href: address("search.css") }),
      ...parts.map(script),
    ]);
    return loading;
  }
  const index = () => script("index.js").then(() => window.bookIndex);

  async function open(event) {
    const page = document.querySelector("#search-page input");
    if (page) {
      page.focus();
      return;
    }
    opener = event.currentTarget instanceof HTMLElement ? event.currentTarget : document.activeElement;
    await load();
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
  if (page) load().then(() => window.bookSearch.page(page, index, "./"));
})();

// The search box: a field and a list of results that follows every key, in a dialog or on a page.
//
// It is a combobox with a list box (WAI-ARIA): the focus stays in the field, and the arrow keys
// move the selected result. Text enters the page as text nodes only, never as markup.

(() => {
  const { create, mark, snippet } = window.bookSearch;
  const NOTHING = "No section matches. Try fewer or other words, or start here:";
  const SUGGESTED = 6;
  const HELP = "Type a term or a question, for example: why divide by √d_k";

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const marked = (pieces) => pieces.map(([text, hit]) => (hit ? make("mark", {}, text) : text));

  /** A search box for at most `limit` results; `index` loads the index, `root` leads to the site's root. */
  function box(index, root, limit) {
    const field = make("input", {
      ...{ type: "search", name: "q", role: "combobox", placeholder: "Search this book" },
      ...{ "aria-label": "Search this book", "aria-controls": "search-results", "aria-expanded": "false" },
      ...{ "aria-autocomplete": "list", autocomplete: "off", autocapitalize: "off", spellcheck: "false" },
    });
    const form = make("form", { action: `${root}search.html`, role: "search", class: "search-form" }, field);
    const state = make("p", { role: "status", class: "search-state" }, HELP);
    const list = make("div", { id: "search-results", role: "listbox", "aria-label": "Results", "aria-busy": "true" });
    let engine = null;
    let loading = false;
    let selected = -1;

    function option({ title, page, text, address, matched }, number) {
      const where = page === title ? [] : [make("span", { class: "search-page-title" }, page)];
      const excerpt = text ? [make("span", { class: "search-snippet" }, ...marked(snippet(text, matched)))] : [];
      const heading = make("span", { class: "search-title" }, ...marked(mark(title, matched)));
      const attributes = { role: "option", id: `search-result-${number}`, tabindex: "-1", "aria-selected": "false" };
      return make("a", { ...attributes, href: root + address }, heading, ...where, ...excerpt);
    }

    function select(number) {
      list.children[selected]?.setAttribute("aria-selected", "false");
      selected = number;
      const chosen = list.children[selected];
      chosen?.setAttribute("aria-selected", "true");
      chosen?.scrollIntoView({ block: "nearest" });
      if (chosen) field.setAttribute("aria-activedescendant", chosen.id);
      else field.removeAttribute("aria-activedescendant");
    }

    function show() {
      const query = field.value.trim();
      const found = engine && query ? engine.search(query, limit) : [];
      const suggested = engine && query && !found.length ? engine.suggest(query, SUGGESTED) : [];
      list.replaceChildren(...[...found, ...suggested].map(option));
      list.scrollTop = 0;
      field.setAttribute("aria-expanded", String(list.children.length > 0));
      select(found.length ? 0 : -1);
      if (!query) state.textContent = HELP;
      else if (!engine) start();
      else if (!found.length) state.textContent = NOTHING;
      else if (found.length === limit) state.textContent = `The first ${limit} results`;
      else state.textContent = found.length === 1 ? "1 result" : `${found.length} results`;
    }

    /** Load the index; if that failed, the next letter loads it again. */
    function start() {
      state.textContent = "Loading the index …";
      if (loading) return;
      loading = true;
      index().then(create).then(
        (created) => {
          engine = created;
          list.removeAttribute("aria-busy");
          show();
        },
        (problem) => {
          loading = false;
          state.textContent = `The search cannot start: ${problem.message}. It is tried again when you type.`;
        },
      );
    }

    field.addEventListener("input", show);
    field.addEventListener("keydown", (event) => {
      const count = list.children.length;
      if (event.isComposing || !count) return;
      if (event.key === "ArrowDown") select((selected + 1) % count);
      else if (event.key === "ArrowUp") select((selected - 1 + count) % count);
      else return;
      event.preventDefault();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      list.children[selected]?.click();
    });
    start();
    return { field, form, state, list };
  }

  /** The search as a dialog, which closes when a result is opened. */
  function dialog(index, root) {
    const { field, form, state, list } = box(index, root, 12);
    const close = make("button", { type: "button", class: "search-close" }, "Close");
    form.append(close);
    const frame = make("dialog", { id: "search-dialog", class: "book-search", "aria-label": "Search" }, form, state, list);
    close.addEventListener("click", () => frame.close());
    frame.addEventListener("click", (event) => {
      const onBackdrop = event.target === frame;
      const opens = event.target.closest("[role=option]") && !event.ctrlKey && !event.metaKey && !event.shiftKey;
      if (onBackdrop || opens) frame.close();
    });
    // In a search field the first Escape would only clear the text.
    frame.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      frame.close();
    });
    frame.addEventListener("focusin", () => field.select(), { once: true });
    document.body.append(frame);
    return frame;
  }

  /** The search as a page, whose address has the query. */
  function page(place, index, root) {
    const { field, form, state, list } = box(index, root, 30);
    place.classList.add("book-search");
    place.append(form, state, list);
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    field.addEventListener("input", () => {
      const query = field.value.trim().slice(0, 200);
      history.replaceState(null, "", query ? `?q=${encodeURIComponent(query)}` : location.pathname);
    });
    field.focus();
  }

  Object.assign(window.bookSearch, { dialog, page });
})();

// Remembers where the reader stopped: the chapter and its section, in this browser. frame.js loads this script if
// the reader asks for it, or has asked before. The cover then offers to continue there.

(() => {
  const KEY = "tfmr-place";
  const box = one(".place input");
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  box.closest(".place").append(status);

  /** Store the place, unless the reader has stopped that, here or on another page. */
  function keep() {
    box.checked = stored("localStorage", KEY) !== null;
    const [page] = /\d\d-[^/]*\.html$/.exec(location.pathname) ?? [];
    if (!box.checked || !page) return;
    const link = one("#pst-page-toc-nav [aria-current]")?.cloneNode(true);
    link?.querySelector(".katex-mathml")?.remove();
    store("localStorage", KEY, JSON.stringify({ page, hash: link?.hash ?? "", section: link?.textContent.trim() ?? "" }));
  }

  /** On the cover, a link to the place; whatever `keep` does not write is ignored. */
  function offer() {
    one(".place-link")?.remove();
    let place;
    try {
      place = JSON.parse(stored("localStorage", KEY));
    } catch {
      // No page of the book has written this.
    }
    const entry = all(".bd-links a").find((link) => link.getAttribute("href") === place?.page);
    if (!entry || !one(".cover-lead")) return;
    const names = [entry.textContent.replace(/^(\d+) .*/, "Chapter $1"), place.section];
    one(".cover-lead .button").before(Object.assign(document.createElement("a"), {
      className: "place-link button button-first",
      href: `${place.page}${place.hash}`,
      textContent: `Continue: ${names.filter(Boolean).join(", ")}`,
    }), " ");
  }

  function tell(text) {
    status.textContent = text;
    status.scrollIntoView({ block: "nearest" });
  }

  box.onchange = () => {
    if (box.checked) {
      store("localStorage", KEY, "{}");
      keep();
      tell(box.checked
        ? "The first page offers a link to the section that you read last."
        : "Your place cannot be remembered, because the browser does not let this page store data.");
    } else {
      localStorage.removeItem(KEY);
      offer();
      tell("The stored place has been removed.");
    }
  };

  if (stored("localStorage", KEY) === null) box.onchange();
  offer();
  addEventListener("pagehide", keep);
  document.addEventListener("visibilitychange", () => document.hidden && keep());
  addEventListener("pageshow", () => {
    box.checked = stored("localStorage", KEY) !== null;
    offer();
  });
})();

// Runs before the page is shown, so that it appears in the reader's colours and typeface at once.
// The site remembers this choice, and for a visit whether the reader wants the code.

{
  const root = document.documentElement;
  let mode = "auto";
  try {
    mode = localStorage.getItem("mode") ?? mode;
  } catch {
    // Storage is blocked: the colours of the system.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.mode = mode;
  root.dataset.theme = mode === "auto" ? (dark ? "dark" : "light") : mode;
  root.classList.add("js", "waits");

  // In another typeface the lines break elsewhere, so the page is shown when its typefaces are ready,
  // or one second after its style sheet.
  document.addEventListener("load", ({ target }) => {
    if (target.rel !== "stylesheet") return;
    const faces = [...document.querySelectorAll('link[as="font"]')].map(({ href }) =>
      document.fonts.load(`${/italic/.test(href) ? "italic" : ""} ${/\d{3}/.exec(href)} 1em "Source Serif 4"`));
    const late = new Promise((resolve) => setTimeout(resolve, 1000));
    Promise.race([Promise.allSettled(faces), late]).then(() => root.classList.remove("waits"));
  }, true);
}

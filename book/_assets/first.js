// Runs before the page is shown, so that it appears in the reader's colours at once.
// The colour theme is all that the site stores about a reader.

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
  root.classList.add("js");
}

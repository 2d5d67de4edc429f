// Runs before the page is shown, so that it appears in the reader's colours at once.
// The choice of colours is all that the site remembers about a reader, and only until the tab is closed.

{
  const root = document.documentElement;
  let mode = "auto";
  try {
    mode = sessionStorage.getItem("mode") ?? mode;
  } catch {
    // Storage is blocked: the colours of the system.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.mode = mode;
  root.dataset.theme = mode === "auto" ? (dark ? "dark" : "light") : mode;
  root.classList.add("js");
}

// Accessibility fixes for the theme: accessible names that match the visible text, and keyboard scrolling.

window.addEventListener("load", () => {
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.removeAttribute("aria-label");
    button.querySelector(".search-button__kbd-shortcut")?.setAttribute("aria-hidden", "true");
  }
  for (const button of document.querySelectorAll(".theme-switch-button")) {
    button.setAttribute("aria-label", "Colour mode: light, dark or as the system");
    for (const icon of button.querySelectorAll("[title]")) icon.setAttribute("aria-hidden", "true");
  }
  for (const button of document.querySelectorAll(".copybtn")) button.setAttribute("aria-label", "Copy");
  for (const table of document.querySelectorAll(".bd-article table.table, .bd-article table.docutils, table.indextable")) {
    if (table.parentElement.classList.contains("pst-scrollable-table-container")) continue;
    const frame = document.createElement("div");
    frame.className = "wide-table";
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const area of document.querySelectorAll("div.highlight pre, .wide-table, div.math, .figure-body")) {
    if (area.scrollWidth > area.clientWidth) area.tabIndex = 0;
  }
});

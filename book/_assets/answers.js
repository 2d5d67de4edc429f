// Loads marking.js when the reader first checks an answer, or if the browser remembers answers.

(() => {
  // The version in the address of this script is that of the script that it loads.
  const here = new URL(document.currentScript.src);
  const box = document.querySelector(".answers");
  const remember = box.querySelector("input");

  let loading = null;
  function load() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.onload = resolve;
      script.onerror = () => {
        loading = null;
        script.remove();
        reject();
      };
      script.src = new URL(`marking.js${here.search}`, here).href;
      document.head.append(script);
    });
    return loading;
  }
  const problem = "The script that checks answers could not be loaded. Try again when the site can be reached.";

  for (const form of document.querySelectorAll("form.answer")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      load().then(() => window.bookAnswers.check(form), () => form.querySelector(".verdict").replaceChildren(problem));
    });
  }
  remember.addEventListener("change", () => load().then(() => window.bookAnswers.store(), () => {
    remember.checked = false;
    box.querySelector("p").textContent = problem;
  }));
  try {
    if (localStorage.getItem("tfmr-answers")) load().then(() => window.bookAnswers.restore(), () => {});
  } catch {
    // Storage is blocked.
  }
})();

"use strict";
(() => {
  const form = document.querySelector("form.filters");
  if (!form) return;
  const clips = [...document.querySelectorAll("article.clip")];
  const selects = [...form.querySelectorAll("select")];
  const told = form.querySelector("output");
  const show = () => {
    let count = 0;
    for (const clip of clips) {
      const fits = selects.every((s) => s.value === "" || clip.getAttribute("data-" + s.dataset.filter) === s.value);
      clip.hidden = !fits;
      if (fits) count += 1;
    }
    told.textContent = count + " of " + clips.length + " shown";
  };
  form.addEventListener("change", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show));
  form.hidden = false;
  show();
})();

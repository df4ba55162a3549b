"use strict";
(() => {
  const form = document.querySelector("form.filters");
  if (!form) return;
  const PAGE = 24;
  const clips = [...document.querySelectorAll("article.clip")];
  const selects = [...form.querySelectorAll("select")];
  const told = form.querySelector("output");
  const more = document.querySelector("button.more");
  let most = PAGE;
  const show = () => {
    let fitting = 0;
    for (const clip of clips) {
      const fits = selects.every((s) => s.value === "" || clip.getAttribute("data-" + s.dataset.filter) === s.value);
      if (fits) fitting += 1;
      clip.hidden = !fits || fitting > most;
    }
    more.hidden = fitting <= most;
    told.textContent = Math.min(fitting, most) + " shown of " + fitting + " that fit, " + clips.length + " in all";
  };
  const restart = () => {
    most = PAGE;
    show();
  };
  form.addEventListener("change", restart);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(restart));
  more.addEventListener("click", () => {
    const next = clips.filter((clip) => !clip.hidden).length;
    most += PAGE;
    show();
    const visible = clips.filter((clip) => !clip.hidden);
    if (visible[next]) visible[next].focus();
  });
  form.hidden = false;
  show();
})();

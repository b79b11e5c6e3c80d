"use strict";
(() => {
  const form = document.getElementById("filters");
  const list = document.getElementById("answers");
  const shown = document.getElementById("shown");
  const written = Array.from(list.children);
  const cards = written.map((card) => ({
    card,
    kinds: card.dataset.kinds.split(" "),
    scores: card.dataset.scores.split(" ").map((word) => (word === "-" ? NaN : Number(word))),
    codes: card.dataset.codes.split(" "),
  }));

  function choose() {
    const kind = form.elements.kind.value;
    const score = Number(form.elements.score.value);
    const most = form.elements.most.value === "" ? NaN : Number(form.elements.most.value);
    const columns = Array.from(form.querySelectorAll("[data-column]")).filter((field) => field.value);
    let count = 0;
    for (const answer of cards) {
      const fits =
        (kind === "" || answer.kinds.includes(kind)) &&
        (Number.isNaN(most) || answer.scores[score] <= most) &&
        columns.every((column) => answer.codes[Number(column.dataset.column)] === column.value);
      answer.card.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent = `${count} of ${cards.length}`;
  }

  function arrange() {
    const by = form.elements.order.value;
    const ranked = cards.slice();
    const rank = (answer) => (Number.isNaN(answer.scores[by]) ? Infinity : answer.scores[by]);
    if (by !== "") ranked.sort((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0));
    list.append(...ranked.map((answer) => answer.card));
  }

  function unfold(open) {
    for (const details of list.querySelectorAll("details")) details.open = open;
  }

  function step(way) {
    const open = Array.from(list.children).filter((card) => !card.hidden);
    const at = open.indexOf(document.activeElement.closest("article"));
    const next = open[at < 0 ? 0 : Math.min(open.length - 1, Math.max(0, at + way))];
    if (next) {
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "start" });
    }
  }

  // The sources of the sentence under the pointer or with the focus are marked; the focus unfolds
  // them, and a click or a tap on a sentence moves the focus to its first link.
  function mark(event, on) {
    const sentence = event.target.closest(".tv-sentence");
    for (const link of sentence ? sentence.querySelectorAll("a") : []) {
      for (const id of link.dataset.places.split(" ")) {
        const source = document.getElementById(id);
        source.classList.toggle("tv-lit", on || sentence.matches(":focus-within"));
        if (event.type === "focusin") source.closest("details").open = true;
      }
    }
  }
  for (const [name, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]])
    list.addEventListener(name, (event) => mark(event, on));
  list.addEventListener("click", (event) => {
    const sentence = event.target.closest(".tv-sentence");
    const link = event.target.closest("a") || (sentence && sentence.querySelector("a"));
    if (!link || !getSelection().isCollapsed) return;
    link.focus({ preventScroll: true });
    if (!link.contains(event.target))
      document.getElementById(link.hash.slice(1)).scrollIntoView({ block: "nearest" });
  });

  form.addEventListener("input", (event) => {
    const name = event.target.name;
    if (name === "order") arrange();
    else if (name === "unfold") unfold(event.target.checked);
    else if (name === "numbers") list.classList.toggle("tv-numbers", event.target.checked);
    else choose();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=radio], [type=checkbox]), select")) return;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "o") {
      const card = document.activeElement.closest("article");
      for (const details of card ? card.querySelectorAll("details") : []) details.open = !details.open;
    }
  });
  // Unfold everything for printing.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = Array.from(list.querySelectorAll("details:not([open])"));
    for (const details of folded) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });
  form.reset();
  form.hidden = false;
  choose();
})();

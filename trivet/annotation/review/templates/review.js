"use strict";
(() => {
  const main = document.getElementById("row");
  const state = document.getElementById("state");
  const said = document.getElementById("said");
  const buttons = Array.from(document.querySelectorAll("#bar button"));
  const count = Number(state.dataset.count);
  let left = state.dataset.left.split(" ").filter(Boolean).map(Number);
  let place = left.length ? left[0] : 0;
  let busy = false;

  const units = () => Array.from(main.querySelectorAll(".unit"));
  const words = (unit) => Array.from(unit.querySelectorAll(".word"));
  const known = (field) => main.querySelector(`.known[data-field=${field}]`);
  const isOn = (mark) => mark.getAttribute(attribute(mark)) === "true";
  const attribute = (mark) => (mark.matches(".word") ? "aria-checked" : "aria-pressed");

  function set(marks, on) {
    for (const mark of marks) {
      mark.setAttribute(attribute(mark), String(on));
      known(mark.dataset.field || "unsupported").checked = true;
    }
  }

  function toggle(unit, field) {
    const marks = unit.matches(".response") ? words(unit) : Array.from(unit.querySelectorAll(`[data-field=${field}]`));
    set(marks, !marks.every(isOn));
  }

  function marked(field) {
    const box = known(field);
    if (!box || !box.checked) return null;
    const marks = field === "unsupported" ? main.querySelectorAll(".word") : main.querySelectorAll(`.unit [data-field=${field}]`);
    return Array.from(marks).filter(isOn).map((mark) => Number(mark.dataset.n));
  }

  async function ask(body) {
    const options = { cache: "no-store" };
    if (body) Object.assign(options, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    let answer;
    try {
      answer = await fetch(`rows/${place}`, options);
    } catch {
      throw new Error("The server does not answer; nothing was saved.");
    }
    if (answer.ok) return answer;
    throw new Error((await answer.json()).error);
  }

  async function guarded(act) {
    if (busy) return;
    busy = true;
    for (const one of buttons) one.disabled = true;
    said.textContent = "";
    try {
      await act();
    } catch (error) {
      said.textContent = error.message;
    }
    for (const one of buttons) one.disabled = false;
    busy = false;
  }

  async function show(next) {
    const before = place;
    place = next;
    try {
      main.innerHTML = await (await ask()).text(); // the server has escaped every text
    } catch (error) {
      place = before;
      throw error;
    }
    state.textContent = left.length ? `${count - left.length} of ${count} reviewed` : `all ${count} reviewed`;
    const first = main.querySelector(".unit") || main;
    first.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  const later = () => show(left.find((one) => one > place) ?? left.find((one) => one !== place) ?? Math.min(place + 1, count - 1));
  const accept = () =>
    guarded(async () => {
      const body = { seen: main.firstElementChild.dataset.seen };
      for (const field of ["unsupported", "relevant", "utilized"]) body[field] = marked(field);
      left = (await (await ask(body)).json()).left;
      await (left.length ? later() : show(place));
    });

  function go(from, list, way) {
    const at = list.indexOf(from);
    const next = list[at < 0 ? 0 : Math.min(list.length - 1, Math.max(0, at + way))];
    if (next) {
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "center" });
    }
  }

  function nextMark(unit) {
    const all = units();
    const marks = all.filter((one) => Array.from(one.querySelectorAll(".word, [data-field]")).some(isOn));
    const next = marks.find((one) => all.indexOf(one) > all.indexOf(unit)) || marks[0];
    if (next) go(next, [next], 0);
  }

  const keys = {
    ArrowDown: (unit) => go(unit, units(), 1),
    ArrowUp: (unit) => go(unit, units(), -1),
    ArrowRight: (unit, word) => unit && go(word, words(unit), 1),
    ArrowLeft: (unit, word) => unit && go(word, words(unit), -1),
    " ": (unit, word) => (word ? set([word], !isOn(word)) : unit && toggle(unit, "relevant")),
    r: (unit) => unit && unit.matches(".context") && toggle(unit, "relevant"),
    u: (unit) => unit && unit.matches(".context") && toggle(unit, "utilized"),
    m: nextMark,
    Enter: accept,
    n: () => guarded(later),
    p: () => guarded(() => show(Math.max(0, place - 1))),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    // A focused button or box takes its own space and enter.
    if ([" ", "Enter"].includes(event.key) && event.target.closest("button, input")) return;
    event.preventDefault();
    if (event.key === "Enter" && event.repeat) return;
    keys[event.key](event.target.closest(".unit"), event.target.closest(".word"));
  });
  main.addEventListener("click", (event) => {
    const mark = event.target.closest(".word, .unit [data-field]");
    if (mark) set([mark], !isOn(mark));
  });
  document.getElementById("accept").addEventListener("click", accept);
  document.getElementById("later").addEventListener("click", () => guarded(later));
  document.getElementById("previous").addEventListener("click", () => guarded(() => show(Math.max(0, place - 1))));
  guarded(() => show(place));
})();

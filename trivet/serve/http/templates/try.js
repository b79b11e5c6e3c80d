"use strict";
(() => {
  const form = document.getElementById("try");
  const result = document.getElementById("result");
  const button = form.querySelector("[type=submit]");
  const text = (name) => form.elements[name].value;

  async function ask() {
    const contexts = text("contexts").split(/\n[^\S\n]*\n/).filter((passage) => passage.trim());
    const headers = { "Content-Type": "application/json" };
    if (form.elements.key) headers.Authorization = `Bearer ${text("key")}`;
    const body = JSON.stringify({ question: text("question"), contexts, response: text("response") });
    const answer = await fetch("try/verdict", { method: "POST", headers, body, cache: "no-store" });
    const received = await answer.text();
    if (answer.ok) result.innerHTML = received; // the server has escaped every text
    else result.textContent = JSON.parse(received).error;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    result.textContent = "Judging …";
    try {
      await ask();
    } catch {
      result.textContent = "The server does not answer.";
    }
    button.disabled = false;
    result.focus();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  document.getElementById("example").addEventListener("click", () => {
    for (const field of form.querySelectorAll("[data-example]")) field.value = field.dataset.example;
  });
})();

// Shows how a task gets on, and goes to its service when it is ready.

const EVERY_MS = 1500;
const stateUrl = document.getElementById("wait")?.dataset.state ?? "";

/** @param {string} id @param {string} text */
function show(id, text) {
  const element = document.getElementById(id);
  if (!element) return;
  // Screen readers read out what is set, even if it is the same.
  if (element.textContent !== text) element.textContent = text;
}

async function look() {
  const answer = await fetch(stateUrl, { cache: "no-store" });
  if (answer.status >= 500) throw new Error("the master cannot answer");
  if (answer.redirected || !answer.ok) return location.reload();
  const task = await answer.json();
  if (task.next) return location.replace(document.documentElement.dataset.root + task.next);
  if (task.over) return location.reload();
  document.querySelector(".state")?.setAttribute("class", `state ${task.state}`);
  show("symbol", task.symbol);
  show("state", task.state);
  show("sentence", task.sentence);
  show("end", task.end);
  show("log", task.lines.map((/** @type {string} */ line) => `${line}\n`).join("") || "None yet.\n");
  setTimeout(watch, EVERY_MS);
}

async function watch() {
  try {
    await look();
  } catch {
    show("sentence", "The master does not answer. Trying again.");
    setTimeout(watch, EVERY_MS);
  }
}

setTimeout(watch, EVERY_MS);

// Several examples at once: pasted into a box or into a cell.

import { byId, put } from "./elements.js";
import { changed, setTask } from "./form.js";
import { say } from "./problems.js";
import { addRow, renumber, setRows } from "./rows.js";
import { isTask, LONGEST_PASTE, parsed, readLines } from "./tasks.js";

/** What the box for several lines holds goes into the form. */
export function takePaste(replace) {
  const text = byId("paste").value;
  const task = text.length <= LONGEST_PASTE ? parsed(text) : undefined;
  const { examples, problem } = isTask(task) ? { examples: [] } : readLines(text, byId("template").value);
  byId("paste-error").hidden = !problem;
  put(byId("paste-error"), problem ?? "");
  if (problem) return;
  if (isTask(task)) setTask(task);
  else if (replace) setRows("examples", examples);
  else examples.forEach((example) => addRow("examples", example));
  renumber("examples");
  byId("paste").value = "";
  say(
    isTask(task)
      ? "The task was read."
      : `${examples.length} ${examples.length === 1 ? "example was" : "examples were"} read.`,
  );
  changed();
}

/** Several lines pasted into a cell become rows, if every one of them is an example. */
export function pasteIntoCell(event) {
  const text = event.clipboardData?.getData("text/plain") ?? "";
  if (!/[\t\n]/.test(text.trim())) return;
  const { examples } = readLines(text, byId("template").value);
  if (!examples) return;
  event.preventDefault();
  const row = event.target.closest("tr");
  const blank = [...row.querySelectorAll("[data-key]")].every((field) => field.value === "");
  const next = row.nextElementSibling;
  const added = examples.map((example) => addRow("examples", example, next));
  if (blank) row.remove();
  renumber("examples");
  added.at(-1).querySelector("[data-key]").focus();
  changed();
}

// What is wrong, beside the field at fault and in a live region.

import { byId, element, put } from "./elements.js";
import { form } from "./form.js";
import { isRecord, isText, parsed } from "./tasks.js";

export const say = (...content) => put(byId("status"), ...content);

export function clearProblems() {
  put(byId("problem"));
  for (const note of form.querySelectorAll(".field-error")) note.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    const others = (field.getAttribute("aria-describedby") ?? "")
      .split(" ")
      .filter((id) => !id.startsWith("error-"));
    if (others.join("")) field.setAttribute("aria-describedby", others.join(" "));
    else field.removeAttribute("aria-describedby");
  }
}

/** The first of several queries stands where a task's only query does. */
const nameInForm = (name) => name.replace(/^task\./, "").replace(/^queries\[0\]/, "query");

/** The field that a problem names, or the nearest one: `examples[3].z`, else `examples[3]`, else `examples`. */
function fieldOf(name) {
  const fields = [...form.querySelectorAll("[data-field]")];
  for (let wanted = nameInForm(name); wanted; wanted = wanted.replace(/(^|[.[])[^.[]*$/, "")) {
    const found = fields.find(
      (field) => field.dataset.field === wanted || field.dataset.field.startsWith(`${wanted}.`),
    );
    if (found) return found;
  }
  return null;
}

/** Writes a problem beside its field; under its row, if it is a cell of a table. */
function mark(field, text, index) {
  const [row, id] = [field.closest("tr"), `error-${index}`];
  const note = element(row ? "td" : "p", { class: "error", id, colspan: row && row.cells.length }, text);
  if (row) row.after(element("tr", { class: "field-error" }, note));
  else {
    note.classList.add("field-error");
    field.after(note);
  }
  field.setAttribute("aria-invalid", "true");
  const described = [field.getAttribute("aria-describedby"), id].filter(Boolean);
  field.setAttribute("aria-describedby", described.join(" "));
  for (let box = field.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
}

/** Shows problems beside their fields and in the live region, and goes to the first field. */
export function showProblems(problems) {
  clearProblems();
  say("");
  const fields = problems.map(({ field }) => (field ? fieldOf(field) : null));
  problems.forEach(({ detail }, index) => fields[index] && mark(fields[index], detail, index));
  const texts = problems.map(({ title, detail, field, retry }) => {
    const place = field ? `${field.replace(/^task\./, "")}: ` : "";
    return [title, place + detail, retry].filter(Boolean).join(". ");
  });
  put(
    byId("problem"),
    texts.map((text) => element("p", { class: "error" }, text)),
  );
  const first = fields.find(Boolean);
  const typed = first?.matches("input, select, textarea")
    ? first
    : first?.querySelector("input, select, textarea, summary");
  typed?.focus();
}

/** When to try again, from a header that holds seconds or a date. */
export function retryText(header, now = new Date()) {
  if (!header) return null;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - now.getTime()) / 1000;
  if (!Number.isFinite(seconds)) return null;
  const wait = Math.max(0, Math.ceil(seconds));
  const clock = new Date(now.getTime() + 1000 * wait).toLocaleTimeString();
  return `Try again in ${wait} s, after ${clock}`;
}

/** The problem that came in place of an answer. */
export async function problemOf(response) {
  const found = parsed(await response.text());
  const { title, detail, field } = isRecord(found) ? found : {};
  return {
    title: isText(title) ? title : `The service answers with ${response.status}`,
    detail: isText(detail) ? detail : "",
    field: isText(field) ? field : response.status === 401 ? "token" : null,
    retry: retryText(response.headers.get("Retry-After")),
  };
}

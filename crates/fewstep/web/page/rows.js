// The tables of the form: examples, labels and further queries.

import { byId, element } from "./elements.js";
import { changed } from "./form.js";
import { escaped } from "./tasks.js";

/** What the tables of the form have in common, and what they do not. */
const TABLES = {
  examples: {
    body: byId("examples"),
    one: "example",
    columns: [
      { key: "x", make: (value) => area(value) },
      { key: "y", make: (value) => line(escaped(value), { list: "label-texts" }) },
    ],
    blank: { x: "", y: "" },
  },
  labels: {
    body: byId("labels"),
    one: "label",
    columns: [
      { key: "text", make: (value) => line(escaped(value)) },
      { key: "value", make: (value) => line(String(value ?? ""), { inputmode: "decimal" }) },
    ],
    blank: { text: "", value: "" },
  },
  queries: {
    body: byId("queries"),
    one: "query",
    // The first query of a task has fields of its own.
    first: 1,
    columns: [
      { key: "x", make: (value) => area(value) },
      { key: "y", make: (value) => line(escaped(value ?? ""), { list: "label-texts" }) },
    ],
    blank: { x: "", y: "" },
  },
};

function line(value, attributes) {
  const input = element("input", { autocomplete: "off", spellcheck: "false", ...attributes });
  input.value = value;
  return input;
}

function area(value) {
  const input = element("textarea", { rows: 1, spellcheck: "false" });
  input.value = value;
  return input;
}

/** A row for a record, behind the others or before `next`. */
export function addRow(name, record, next = null) {
  const table = TABLES[name];
  const row = element("tr", {}, element("th", { scope: "row" }));
  for (const { key, make } of table.columns) {
    const input = make(record[key]);
    input.dataset.key = key;
    row.append(element("td", {}, input));
  }
  const remove = element("button", { type: "button", class: "remove" }, "×");
  remove.addEventListener("click", () => removeRow(name, row));
  row.append(element("td", {}, remove));
  table.body.insertBefore(row, next);
  return row;
}

/** The rows of a table, without what is said about them. */
const rowsOf = (name) => [...TABLES[name].body.querySelectorAll("tr:not(.field-error)")];

/** Takes a row away; the focus goes to its neighbour, so that a keyboard can go on from there. */
function removeRow(name, row) {
  const rows = rowsOf(name);
  const place = rows.indexOf(row);
  const neighbour = rows[place + 1] ?? rows[place - 1];
  if (row.nextElementSibling?.matches(".field-error")) row.nextElementSibling.remove();
  row.remove();
  renumber(name);
  (neighbour?.querySelector(".remove") ?? byId(`add-${TABLES[name].one}`)).focus();
  changed();
}

/** Names every field of a table after its place, counted from 0 as in messages, for people and for problems. */
export function renumber(name) {
  const { one, first = 0 } = TABLES[name];
  rowsOf(name).forEach((row, place) => {
    const index = first + place;
    row.cells[0].textContent = index;
    for (const input of row.querySelectorAll("[data-key]")) {
      input.dataset.field = `${name}[${index}].${input.dataset.key}`;
      input.setAttribute("aria-label", `${input.dataset.key} of ${one} ${index}`);
    }
    row.querySelector(".remove").setAttribute("aria-label", `Remove ${one} ${index}`);
  });
}

export function setRows(name, records) {
  TABLES[name].body.replaceChildren();
  for (const record of records) addRow(name, record);
  renumber(name);
}

/** An empty row at the end, ready to be typed in. */
export function appendRow(name) {
  const row = addRow(name, TABLES[name].blank);
  renumber(name);
  row.querySelector("[data-key]").focus();
  changed();
}

/** The rows of a table as records. */
export function records(name, read) {
  return rowsOf(name).map((row) => {
    const fields = [...row.querySelectorAll("[data-key]")];
    return Object.fromEntries(fields.map((field) => [field.dataset.key, read(field)]));
  });
}

// The form: from a task and options to fields, and back.

import { byId, element, put } from "./elements.js";
import { describePolicy } from "./policy.js";
import { records, setRows } from "./rows.js";
import { state } from "./state.js";
import { escaped, isText, unescaped } from "./tasks.js";

export const form = byId("form");

/** The policy of requests that name none. */
export const DEFAULT_POLICY = "default";

/** Chooses a policy and clears whatever overrides it. */
export function setPolicy(name) {
  setChoice(byId("policy"), name);
  for (const input of overrides()) input.value = "";
}

const overrides = () => [...byId("overrides").querySelectorAll("[data-option]")];

/** Writes a task into the form. */
export function setTask(task) {
  byId("task-id").value = task.id;
  byId("template").value = task.template;
  byId("separator").value = escaped(task.separator ?? "\n");
  const labels = task.labels ?? [];
  setRows(
    "labels",
    labels.map((label) => (isText(label) ? { text: label } : label)),
  );
  setRows("examples", task.examples);
  const [query, ...further] = task.queries ?? [task.query];
  byId("query-x").value = query.x;
  byId("query-y").value = escaped(query.y ?? "");
  setRows("queries", further);
  byId("queries-box").open = further.length > 0 && further.length <= 3;
  byId("labels-box").open = labels.length > 0 && labels.length <= 3;
}

/** Writes options into the form; those that are not named become the default ones. */
export function setOptions(action, options) {
  byId("action").value = action;
  for (const input of form.querySelectorAll("[data-option]")) {
    const value = options[input.dataset.option];
    if (input.id === "horizon") setHorizon(value);
    else if (input.id === "model") chooseModel(value);
    else if (input.id === "policy") setChoice(input, value || DEFAULT_POLICY);
    else setChoice(input, value === undefined ? "" : String(value));
  }
}

/** A model or rule that this form does not know is kept: the service says what is wrong with it. */
function setChoice(input, value) {
  const choices = [...(input.options ?? [])].map((option) => option.value);
  if (input.options && !choices.includes(value)) input.append(element("option", { value }, value));
  input.value = value;
}

function setHorizon(value) {
  const steps = /^\d+$/.test(String(value));
  setChoice(byId("horizon"), steps ? "number" : (value ?? ""));
  if (steps) byId("steps").value = String(value);
}

/** A query with its answer, if that is known. */
const queryOf = (x, y) => ({ x, ...(y === "" ? {} : { y: unescaped(y) }) });

/** A label; without a value it is a class. */
function labelOf({ text, value }, problems) {
  return { text: unescaped(text.value), ...(value.value.trim() === "" ? {} : { value: readNumber(value, problems) }) };
}

/** The task in the form. What is not a number is noted in `problems`. */
export function readTask(problems) {
  const labels = records("labels", (field) => field).map((label) => labelOf(label, problems));
  const query = queryOf(byId("query-x").value, byId("query-y").value);
  const further = records("queries", (field) => field.value).map(({ x, y }) => queryOf(x, y));
  return {
    id: byId("task-id").value,
    template: byId("template").value,
    separator: unescaped(byId("separator").value),
    // Without labels the answers of the examples are classes.
    ...(labels.length > 0 ? { labels } : {}),
    examples: records("examples", (field) =>
      field.dataset.key === "y" ? unescaped(field.value) : field.value,
    ),
    ...(further.length > 0 ? { queries: [query, ...further] } : { query }),
  };
}

/** A number from a field; only what JSON can hold is asked for here, the rest is the service's. */
function readNumber(field, problems) {
  const text = field.value.trim();
  const value = Number(text);
  const whole = field.dataset.kind === "whole";
  const fits = whole
    ? /^\d+$/.test(text) && Number.isSafeInteger(value)
    : text !== "" && Number.isFinite(value);
  if (!fits) {
    const wanted = whole ? "a whole number from 0" : "a number such as 0.5";
    problems.push({
      field: field.dataset.field,
      detail: `${text === "" ? "nothing" : `“${text}”`} stands here; it must be ${wanted}`,
    });
  }
  return value;
}

/** The options that are set. */
function readOptions(problems) {
  const options = {};
  for (const input of form.querySelectorAll("[data-option]")) {
    if (input.value === "") continue;
    const numeric = input.value === "number" && input.id === "horizon" ? byId("steps") : input;
    options[input.dataset.option] = numeric.dataset.kind ? readNumber(numeric, problems) : numeric.value;
  }
  return options;
}

/** All that is asked for, and what cannot be sent as it stands. */
export function readForm() {
  const problems = [];
  const asked = { action: byId("action").value, task: readTask(problems), options: readOptions(problems) };
  return { asked, problems };
}

/** Brings everything up to date that depends on what is typed. */
export function changed() {
  const texts = records("labels", (field) => field.value).map((label) => label.text);
  put(
    byId("label-texts"),
    texts.map((text) => element("option", { value: text })),
  );
  put(byId("labels-summary"), texts.length > 0 ? texts.join(" ") : "the answers of the examples");
  const further = records("queries", (field) => field.value).length;
  put(byId("queries-summary"), further > 0 ? `${further} more` : "none");
  byId("steps-field").hidden = byId("horizon").value !== "number";
  describePolicy();
  const set = overrides().filter((input) => input.value !== "");
  const changes = set.length > 0 ? `, with ${set.map(optionText).join(", ")}` : "";
  put(byId("decision-summary"), byId("policy").value + changes);
  const reading = [...form.querySelectorAll("#reading-box [data-option]")].filter(
    (input) => input.value !== "",
  );
  const action = byId("action").value === "decide" ? ["decide only"] : [];
  put(byId("reading-summary"), [...action, ...reading.map(optionText)].join(", ") || "default");
  byId("stale").hidden = !state.answered || JSON.stringify(readForm().asked) === state.answered;
}

const optionText = (input) =>
  `${input.dataset.option} ${input.value === "number" ? byId("steps").value : input.value}`;

/** A model by its name, or the service's own. */
export function chooseModel(name) {
  const first = state.models.find((model) => model.default) ?? state.models[0];
  setChoice(byId("model"), name || first?.name || "");
  describeModel();
}

export function describeModel() {
  const model = state.models.find(({ name }) => name === byId("model").value);
  const counts = model && [
    `${model.layers} layers`,
    `${model.heads} heads`,
    model.key_value_heads < model.heads && `${model.key_value_heads} key-value heads`,
    `width ${model.width}`,
    `${model.positions} positions`,
    `${model.vocabulary} tokens`,
  ];
  put(byId("model-note"), counts ? counts.filter(Boolean).join(", ") : "");
}

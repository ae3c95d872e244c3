// The report on the page: words, figures with their numbers, and the walk through T.

import { ARMS, LOSSES } from "./arms.js";
import { MAP } from "./blocks.js";
import { CONFUSION } from "./confusion.js";
import { byId, element, put, shown } from "./elements.js";
import { EVIDENCE } from "./evidence.js";
import { changed } from "./form.js";
import { member } from "./json.js";
import { at, number } from "./numbers.js";
import { PATH } from "./path.js";
import { showPolicy } from "./policy.js";
import { PREDICTION } from "./prediction.js";
import { ofClasses, PROBABILITIES, shortened } from "./probabilities.js";
import { say } from "./problems.js";
import { saveFigure } from "./saving.js";
import { SPECTRUM } from "./spectrum.js";
import { state } from "./state.js";
import { isText } from "./tasks.js";
import { shortAnswer, showWords } from "./words.js";

/** What is about T stands side by side, and so does what is about directions. */
const FIGURES = [PREDICTION, PROBABILITIES, EVIDENCE, PATH, SPECTRUM, MAP, LOSSES, ARMS, CONFUSION];

/** The most rows of a table on the page; JSON has them all. */
const MOST_ROWS = 2000;

/** A figure with its drawing, what the slider reads in it, its caption and its numbers. */
function figure(spec) {
  const save = element(
    "button",
    { type: "button", "data-save": spec.name, "aria-label": `Save as SVG: ${spec.title}` },
    "Save as SVG",
  );
  const details = element("details", {}, element("summary", {}, "Numbers"));
  const node = element(
    "figure",
    { id: `figure-${spec.name}`, class: spec.wide && "wide", "aria-labelledby": `title-${spec.name}` },
    element("div", { class: "figure-head" }, element("h3", { id: `title-${spec.name}` }, spec.title), save),
    element("div", { class: "drawing" }),
    spec.readout ? element("p", { class: "readout" }) : "",
    element("figcaption", {}, spec.caption),
    details,
  );
  save.addEventListener("click", () => saveFigure(spec, node.querySelector("svg")));
  // A table may be long, and most readers never open it.
  details.addEventListener(
    "toggle",
    () => details.open && !details.querySelector("table") && details.append(table(spec)),
    { once: true },
  );
  return node;
}

function table(spec) {
  const { head, rows } = spec.table(state.report);
  const cell = (content, index) => {
    if (index === 0) return element("th", { scope: "row" }, content);
    if (isText(content)) return element("td", {}, content);
    return element(
      "td",
      {},
      at(state.report, content.path) === undefined ? "" : shown(state.report, content.path),
    );
  };
  const body = rows.slice(0, MOST_ROWS).map((row) => element("tr", {}, ...row.map(cell)));
  const columns = head.map((name) => element("th", { scope: "col" }, name));
  const made = element(
    "table",
    {},
    element("caption", { class: "unseen" }, spec.title),
    element("thead", {}, element("tr", {}, ...columns)),
    element("tbody", {}, ...body),
  );
  const rest =
    rows.length > MOST_ROWS
      ? [element("p", { class: "hint" }, `${rows.length - MOST_ROWS} more rows are in the JSON.`)]
      : [];
  return element(
    "div",
    { class: "table", tabindex: 0, role: "region", "aria-label": `Numbers: ${spec.title}` },
    made,
    ...rest,
  );
}

/** The largest T about which the report says anything, or null if it is not about steps. */
function lastStep({ how_far, prediction }) {
  if (!how_far?.horizons?.length) return null;
  const { linear = [], steps = [] } = prediction.path ?? {};
  return Math.max(how_far.horizons.at(-1), linear.length - 1, steps.length - 1);
}

/** What stands for an answer where one of several is chosen. */
function answerText({ report, problem }, index) {
  const { x } = state.queries[index] ?? { x: "" };
  const start = `${index}: ${shortened(x.replace(/\s+/g, " ").trim(), 40)}`;
  if (!report) return `${start}: ${problem}`;
  const { label, adapted, icl, target } = report.prediction;
  const said = ofClasses(report) ? label.trim() : number(adapted ?? icl);
  const right = target === undefined ? "" : `, answer ${ofClasses(report) ? target.trim() : number(target)}`;
  return `${start} → ${said}${right}`;
}

/** Shows the answers, of several the first; the others can be chosen. */
export function showAnswers() {
  const { answers } = state;
  const several = answers.length > 1;
  byId("query-choice").hidden = !several;
  const options = answers.map((answer, index) =>
    element("option", { value: index, disabled: !answer.report }, answerText(answer, index)),
  );
  put(byId("query-shown"), several ? options : []);
  byId("query-shown").value = String(answers.findIndex(({ report }) => report));
  const wrong = answers.flatMap(({ problem }, index) => (problem ? [{ problem, index }] : []));
  put(
    byId("query-problems"),
    wrong.map(({ problem, index }) => element("p", { class: "error" }, `Query ${index}: ${problem}`)),
  );
  put(byId("save-report"), several ? "Save reports as JSON Lines" : "Save report as JSON");
  showChosen();
}

/** Shows the answer that is chosen. */
export function showChosen() {
  const { answers } = state;
  const index = answers.length > 1 ? Number(byId("query-shown").value) : 0;
  const { report, text } = answers[index];
  Object.assign(state, { report, text });
  showReport();
}

function showReport() {
  const { report } = state;
  byId("empty").hidden = true;
  byId("report").hidden = false;
  byId("save-report").disabled = false;
  showWords(report);
  showPolicy(report, member(state.text, "policy"), state.start);
  put(byId("figures"), FIGURES.filter((spec) => spec.shows(report)).map(figure));
  prepareWalk(report);
  const { forward, backward } = report.passes;
  const cost = `${forward} sequences went forward through the model and ${backward} backward`;
  put(byId("cost"), `Task ${report.id}; ${cost}.`);
  const link = element("a", { href: "#answer" }, "see the answer");
  link.addEventListener("click", goToAnswer);
  say(`Answered: ${shortAnswer(report) ?? "with an update made before"}; `, link, ".");
  changed();
}

export function prepareWalk(report) {
  const last = lastStep(report);
  byId("walk").hidden = last === null;
  const slider = byId("walk-steps");
  slider.max = last ?? 0;
  slider.value = report.how_far?.horizon ?? 0;
  walk();
}

/** Looks at another T: every figure in which it means something moves its mark. */
export function walk() {
  state.steps = lastStep(state.report) === null ? null : Number(byId("walk-steps").value);
  const { report, steps } = state;
  const { path } = report.prediction;
  const numbers = [
    ["steps", path?.steps],
    ["linearised", path?.linear],
  ].filter(([, values]) => values?.[steps] !== undefined);
  const parts = [
    `T = ${steps}`,
    ...numbers.map(([name, values]) => `${name} ${number(values[steps] ?? NaN)}`),
  ];
  put(byId("walk-value"), `T = ${steps}`);
  byId("walk-steps").setAttribute("aria-valuetext", parts.join(", "));
  drawFigures();
}

/** Draws every figure for the room it has. */
function drawFigures() {
  if (!state.report) return;
  for (const spec of FIGURES) {
    const node = byId(`figure-${spec.name}`);
    if (!node) continue;
    const place = node.querySelector(".drawing");
    put(place, spec.draw(state.report, state.steps, Math.max(240, Math.floor(place.clientWidth))));
    if (spec.readout) put(node.querySelector(".readout"), ...spec.readout(state.report, state.steps));
  }
}

/** Goes to the answer without touching the address, which holds the task. */
export function goToAnswer(event) {
  event.preventDefault();
  byId("answer").focus();
  byId("answer").scrollIntoView();
}

/** Drawing changes the height of the figures, which alone is no reason to draw again. */
export function redrawIfWider([entry]) {
  const { width } = entry.contentRect;
  if (Math.abs(width - state.width) < 1) return;
  state.width = width;
  drawFigures();
}

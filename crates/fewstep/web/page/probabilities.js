// Figure: the probability of every label of a task of classes, adapted and without adapting.

import { canvas, dot, drawn, legend, LETTER, scale, setHeight, stroke, ticks, words } from "./drawing.js";
import { shape } from "./elements.js";
import { number, percent } from "./numbers.js";

/** Room for the names of labels and the marks before them. */
const LABEL_COLUMN = 136;

const ROW = 32;

/** The most labels that are drawn; the table and the JSON have them all. */
const MOST_LABELS = 40;

/** Whether a report is about a task of classes. */
export const ofClasses = ({ prediction }) => Array.isArray(prediction.labels);

export const shortened = (text, most) =>
  [...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text;

/** The positions of the labels that are drawn, in their order: of many, the most probable ones. */
function drawnLabels({ prediction: { labels, icl, adapted } }) {
  const largest = (label) => Math.max(icl[label], adapted[label]);
  const positions = labels.map((_, label) => label);
  const kept = [...positions].sort((a, b) => largest(b) - largest(a)).slice(0, MOST_LABELS);
  return positions.filter((label) => kept.includes(label));
}

const barSample = (look) => (x, y) => [
  shape("rect", { class: look, x: x - 10, y: y - 5, width: 20, height: 10 }),
];

const markSample = (form, look) => (x, y) => [dot(form, look, x, y, 4)];

function drawProbabilities(report, _, width) {
  const { labels, icl, adapted, set, confidence, target } = report.prediction;
  const svg = canvas(width, 10, probabilitiesLabel(report));
  const shownLabels = drawnLabels(report);
  const entries = [
    { sample: barSample("bar"), text: "adapted" },
    { sample: barSample("bar-open"), text: "without adapting" },
    { sample: markSample("diamond", "plain full"), text: `in the set (${percent(confidence)})` },
  ];
  if (target !== undefined) entries.push({ sample: markSample("square", "plain open"), text: "answer" });
  const top = 14 + legend(svg, entries, 14, width) + 4;
  const most = Math.max(...icl, ...adapted);
  const across = scale([0, most], [LABEL_COLUMN, width - 7 * LETTER]);
  const bottom = top + shownLabels.length * ROW;
  drawShares(svg, across, { top, bottom, width, most });
  shownLabels.forEach((label, index) => {
    const middle = top + index * ROW + ROW / 2;
    const name = labels[label].trim() || labels[label];
    if (set.includes(labels[label])) svg.append(dot("diamond", "plain full", 8, middle, 4));
    if (labels[label] === target) svg.append(dot("square", "plain open", 23, middle, 4));
    svg.append(words(shortened(name, 15), 34, middle + 4));
    drawBar(svg, report, { path: `prediction.adapted[${label}]`, value: adapted[label], look: "bar" }, across, {
      y: middle - 13,
      height: 11,
    });
    drawBar(svg, report, { path: `prediction.icl[${label}]`, value: icl[label], look: "bar-open" }, across, {
      y: middle + 2,
      height: 9,
    });
  });
  const hidden = labels.length - shownLabels.length;
  if (hidden > 0) svg.append(words(`and ${hidden} less probable labels`, 2, bottom + 36, { class: "muted" }));
  const last = bottom + (hidden > 0 ? 54 : 36);
  svg.append(
    shape("text", { x: 2, y: last, class: "ink" }, "abstention ", drawn(report, "prediction.abstention")),
  );
  return setHeight(svg, last + 8);
}

/** The axis of shares. */
function drawShares(svg, across, { top, bottom, width, most }) {
  svg.append(stroke("axis", LABEL_COLUMN, bottom, width - 2, bottom));
  for (const { value, text } of ticks([0, most], 3)) {
    const x = across(value);
    svg.append(
      stroke("grid", x, top, x, bottom),
      words(text, x, bottom + 17, { class: "muted", "text-anchor": "middle" }),
    );
  }
}

/** A bar and its number. */
export function drawBar(svg, report, { path, value, look }, across, { y, height }) {
  const [from, to] = [across(0), across(value)];
  svg.append(
    shape("rect", { class: look, x: from, y, width: Math.max(0.5, to - from), height, "data-mark": path }),
    shape("text", { x: to + 5, y: y + height / 2 + 4, class: "ink" }, drawn(report, path)),
  );
}

function probabilitiesLabel(report) {
  const { labels, icl, adapted, set, confidence, abstention, target } = report.prediction;
  const said = drawnLabels(report).map(
    (label) => `${labels[label].trim()} ${number(adapted[label])}, without adapting ${number(icl[label])}`,
  );
  const parts = [
    `Probability of each label, adapted: ${said.join("; ")}`,
    `the set at ${percent(confidence)}: ${set.map((label) => label.trim()).join(", ")}`,
    `abstention ${number(abstention)}`,
    ...(target === undefined ? [] : [`the answer is ${target.trim()}`]),
  ];
  return parts.join(". ");
}

export const PROBABILITIES = {
  name: "probabilities",
  title: "Probability of each label",
  wide: true,
  draw: drawProbabilities,
  caption:
    "The set is meant to hold the answer that often, by the leave-one-out probabilities of the examples. " +
    "The larger the abstention, from 0 to 1, the better the reason not to answer.",
  shows: ofClasses,
  readout: null,
  table: ({ prediction: { labels, set } }) => ({
    head: ["label", "adapted", "without adapting", "in the set"],
    rows: labels.map((label, index) => [
      label,
      { path: `prediction.adapted[${index}]` },
      { path: `prediction.icl[${index}]` },
      set.includes(label) ? "yes" : "",
    ]),
  }),
};

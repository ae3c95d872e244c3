// Figure: the prediction on the label scale.

import { canvas, dot, drawn, LETTER, range, roomy, scale, setHeight, stroke, words } from "./drawing.js";
import { shape } from "./elements.js";
import { at, number, percent } from "./numbers.js";
import { ofClasses, shortened } from "./probabilities.js";
import { state } from "./state.js";

const LABEL_COLUMN = 122;

const ROW = 42;

/** The rows of the figure: a name, the numbers under it, and marks; only those that are known. */
function predictionRows(report, steps) {
  const known = (path) => Number.isFinite(at(report, path));
  const deviation = known("prediction.standard_deviation");
  const holder = ["adapted", "linear", "icl"].find((form) => known(`prediction.${form}`));
  const row = (form, name, mark, look) => ({
    name,
    mark,
    look,
    path: `prediction.${form}`,
    whisker: deviation && form === holder,
  });
  const rows = [
    row("icl", "without adapting", "circle", "plain open"),
    row("adapted", "adapted", "circle", "first full"),
    row("linear", "linearised model", "triangle", "second open"),
  ];
  const walked = (form, name, mark, look) => ({
    name: `T = ${steps}, ${name}`,
    mark,
    look,
    path: `prediction.path.${form}[${steps}]`,
    walks: true,
  });
  rows.push(
    walked("steps", "steps", "circle", "first open"),
    walked("linear", "linearised", "triangle", "second open"),
  );
  const { interval } = report.prediction;
  const bar = interval ? [{ name: `${percent(interval.coverage)} interval`, interval: true }] : [];
  const found = (walks) => rows.filter((one) => known(one.path) && Boolean(one.walks) === walks);
  return [...found(false), ...bar, ...(steps === null ? [] : found(true))];
}

/** All values that the scale must hold, whichever T is looked at. */
function predictionRange({ prediction }, labels) {
  const { icl, adapted, linear, standard_deviation: deviation, interval, target, path } = prediction;
  const centre = adapted ?? linear ?? icl;
  const bars = Number.isFinite(deviation) ? [centre - deviation, centre + deviation] : [];
  return roomy(
    range([
      icl,
      adapted,
      linear,
      target,
      interval?.lower,
      interval?.upper,
      ...bars,
      ...labels.map(({ value }) => value),
      ...(path?.linear ?? []),
      ...(path?.steps ?? []),
    ]),
  );
}

function drawPrediction(report, steps, width) {
  const svg = canvas(width, 10, predictionLabel(report));
  const rows = predictionRows(report, steps);
  const left = LABEL_COLUMN;
  const top = 22;
  const across = scale(predictionRange(report, state.labels), [left + 8, width - 10]);
  const bottom = top + rows.length * ROW;
  drawLabelScale(svg, across, { left, top, bottom, width });
  rows.forEach((row, index) => drawRow(svg, report, row, top + index * ROW, across));
  if (Number.isFinite(report.prediction.target)) {
    const x = across(report.prediction.target);
    const anchor = x > width - 60 ? "end" : x < left + 50 ? "start" : "middle";
    svg.append(stroke("target", x, top - 4, x, bottom));
    svg.append(
      shape(
        "text",
        { x, y: top - 9, class: "ink", "text-anchor": anchor },
        "answer ",
        drawn(report, "prediction.target"),
      ),
    );
  }
  return setHeight(svg, bottom + 40);
}

function drawRow(svg, report, row, top, across) {
  const middle = top + ROW / 2;
  svg.append(words(row.name, 2, middle - 4));
  const numbers = shape("text", { x: 2, y: middle + 12, class: "muted" });
  svg.append(numbers);
  if (row.interval) {
    const [lower, upper] = ["lower", "upper"].map((end) => across(at(report, `prediction.interval.${end}`)));
    svg.append(
      shape("rect", {
        class: "band",
        x: lower,
        y: middle - 6,
        width: Math.max(1, upper - lower),
        height: 12,
      }),
    );
    for (const end of [lower, upper]) svg.append(stroke("first-line", end, middle - 9, end, middle + 9));
    numbers.append(
      drawn(report, "prediction.interval.lower"),
      " to ",
      drawn(report, "prediction.interval.upper"),
    );
    return;
  }
  const value = at(report, row.path);
  numbers.append(drawn(report, row.path));
  if (row.whisker) {
    const deviation = report.prediction.standard_deviation;
    const ends = [across(value - deviation), across(value + deviation)];
    svg.append(stroke("whisker", ends[0], middle, ends[1], middle));
    for (const end of ends) svg.append(stroke("whisker", end, middle - 5, end, middle + 5));
    numbers.append(" ± ", drawn(report, "prediction.standard_deviation"));
  }
  svg.append(dot(row.mark, row.look, across(value), middle, 5, row.path));
}

/** Labels where their values lie, if there is room for them. */
function drawLabelScale(svg, across, { left, top, bottom, width }) {
  svg.append(stroke("axis", left, bottom, width, bottom));
  svg.append(
    words("label", 2, bottom + 17, { class: "muted" }),
    words("value", 2, bottom + 32, { class: "muted" }),
  );
  const ends = [-Infinity, -Infinity];
  const sorted = [...state.labels].sort((a, b) => a.value - b.value);
  for (const { text, value } of sorted) {
    const x = across(value);
    svg.append(stroke("grid", x, top, x, bottom), stroke("axis", x, bottom, x, bottom + 4));
    [shortened(text.trim() || text, 14), number(value)].forEach((content, row) => {
      const half = (content.length * LETTER) / 2;
      const centre = Math.min(Math.max(x, left + half), width - half);
      if (centre - half < ends[row] + 5) return;
      ends[row] = centre + half;
      svg.append(words(content, centre, bottom + 17 + 15 * row, { class: "muted", "text-anchor": "middle" }));
    });
  }
}

function predictionLabel(report) {
  const { target } = report.prediction;
  const answer = Number.isFinite(target) ? `; the answer is ${number(target)}` : "";
  return `Prediction for the query on the label scale: ${report.lines.prediction}${answer}`;
}

export const PREDICTION = {
  name: "prediction",
  title: "Prediction on the label scale",
  wide: true,
  draw: drawPrediction,
  caption:
    "Whiskers: one standard deviation of the ideal correction under the fitted signal and noise. " +
    "Interval: where leave-one-out errors say that the answer lies.",
  shows: (report) => !ofClasses(report),
  readout: null,
  table: (report) => ({
    head: ["prediction", "value"],
    rows: [
      ["without adapting", "icl"],
      ["adapted", "adapted"],
      ["linearised model", "linear"],
      ["standard deviation", "standard_deviation"],
      ["interval from", "interval.lower"],
      ["interval to", "interval.upper"],
      ["answer", "target"],
    ]
      .filter(
        ([, key]) =>
          at(report, `prediction.${key}`) !== undefined && at(report, `prediction.${key}`) !== null,
      )
      .map(([name, key]) => [name, { path: `prediction.${key}` }]),
  }),
};

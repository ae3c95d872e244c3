// Figure: the query's prediction along the steps.

import {
  canvas,
  dot,
  GUTTER,
  horizonAxis,
  legend,
  lineSample,
  NOW,
  panel,
  polyline,
  range,
  readout,
  roomy,
  setHeight,
  stroke,
  ticks,
} from "./drawing.js";
import { number } from "./numbers.js";

/** About as high as what stands beside it. */
const PATH_HEIGHT = 250;

/** The paths that are there. */
const paths = ({ prediction }) =>
  [
    { key: "steps", name: "steps in the model", look: "first", mark: "circle" },
    { key: "linear", name: "linearised model", look: "second", mark: "triangle" },
  ].filter(({ key }) => prediction.path?.[key]?.length > 0);

function drawPath(report, steps, width) {
  const svg = canvas(width, 10, pathLabel(report));
  const { target, adapted, path } = report.prediction;
  const inner = { left: GUTTER, width: width - GUTTER - 4 };
  const series = paths(report);
  const entries = series.map(({ name, look, mark }) => ({
    sample: lineSample(`${look}-line`, mark, `${look} full`),
    text: name,
  }));
  if (Number.isFinite(adapted))
    entries.push({ sample: lineSample("adapted-line"), text: "adapted, as chosen" });
  if (Number.isFinite(target)) entries.push({ sample: lineSample("target"), text: "answer" });
  const top = 14 + legend(svg, [...entries, NOW(steps)], 14, width) + 20;
  const last = range(series.map(({ key }) => path[key].length - 1))[1];
  const between = roomy(range([target, adapted, ...series.flatMap(({ key }) => path[key])]));
  const frame = panel(svg, {
    ...inner,
    top,
    height: PATH_HEIGHT,
    title: "prediction for the query",
    x: { ...horizonAxis([0, last], inner.width), label: "steps T" },
    y: { range: between, ticks: ticks(between, 4) },
  });
  const level = (value, look) =>
    Number.isFinite(value) &&
    svg.append(stroke(look, inner.left, frame.down(value), width - 4, frame.down(value)));
  level(target, "target");
  level(adapted, "adapted-line");
  if (steps <= last)
    svg.append(stroke("now", frame.across(steps), frame.top, frame.across(steps), frame.bottom));
  for (const one of series) drawOnePath(svg, one, path[one.key], frame, steps, inner.width);
  return setHeight(svg, top + PATH_HEIGHT + 40);
}

function drawOnePath(svg, { key, look, mark }, values, { across, down }, steps, width) {
  const points = values.map((value, index) => [across(index), down(value ?? NaN)]);
  svg.append(polyline(`${look}-line`, points));
  points.forEach(([x, y], index) => {
    if (!Number.isFinite(y) || !(points.length <= width / 6 || index === steps)) return;
    svg.append(
      dot(mark, `${look} full`, x, y, index === steps ? 5 : 2.4, `prediction.path.${key}[${index}]`),
    );
  });
}

function pathLabel(report) {
  const parts = paths(report).map(({ key, name }) => {
    const values = report.prediction.path[key];
    return `by ${name} from ${number(values[0])} to ${number(values.at(-1))} after ${values.length - 1}`;
  });
  return `The query's prediction along the steps: ${parts.join("; ")}`;
}

export const PATH = {
  name: "path",
  title: "Prediction along the steps",
  draw: drawPath,
  caption:
    "What the model says for the query after each step, carried out and by the linearised model. " +
    "Long dashes: the chosen update, which may be an average over steps.",
  shows: (report) => paths(report).length > 0,
  readout: (report, steps) =>
    readout(
      report,
      steps,
      paths(report).map(({ key, name }) => [name, `prediction.path.${key}[${steps}]`]),
    ),
  table: (report) => {
    const series = paths(report);
    const rows = range(series.map(({ key }) => report.prediction.path[key].length))[1];
    return {
      head: ["T", ...series.map(({ name }) => name)],
      rows: Array.from({ length: rows }, (_, index) => [
        String(index),
        ...series.map(({ key }) => ({ path: `prediction.path.${key}[${index}]` })),
      ]),
    };
  },
};

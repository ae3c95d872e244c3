// Figure: what each number of steps is worth.

import {
  canvas,
  CHOSEN,
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
  thinned,
  ticks,
} from "./drawing.js";
import { shape } from "./elements.js";
import { number } from "./numbers.js";
import { ofClasses } from "./probabilities.js";

const LEAVE_ONE_OUT = ["leave-one-out", "leave-one-out-average"];

/** What the weights are: leave-one-out errors weigh numbers of steps only where they are averaged. */
const weightsName = ({ how_far }) =>
  how_far.rule === "leave-one-out-average" ? "weights by leave-one-out error" : "Gibbs posterior";

/** The curves over the candidates, as panels from top to bottom. */
function criteria({ how_far }) {
  const leaveOneOut = {
    title: "leave-one-out error",
    series: [{ key: "leave_one_out", name: "leave-one-out error", look: "first", mark: "circle" }],
  };
  const evidence = {
    title: "negative log-evidence",
    series: [
      { key: "evidence", name: "noise profiled", look: "first", mark: "circle" },
      { key: "evidence_fixed", name: "noise fixed", look: "second", mark: "triangle" },
    ],
  };
  const filled = ({ series }) => series.some(({ key }) => how_far[key]?.some(Number.isFinite));
  return [leaveOneOut, evidence].filter(filled);
}

/** Whether the chosen number of steps is one of the candidates: the Bayes filter takes none. */
const chosenIndex = ({ how_far }) =>
  how_far.rule === "bayes-filter" ? -1 : how_far.horizons.indexOf(how_far.horizon);

function drawEvidence(report, steps, width) {
  const svg = canvas(width, 10, evidenceLabel(report));
  const { horizons, horizon } = report.how_far;
  const inner = { left: GUTTER, width: width - GUTTER - 4 };
  const axis = horizonAxis(horizons, inner.width);
  const panels = criteria(report);
  const entries = panels.some(({ series }) => series.length > 1)
    ? panels.at(-1).series.map(({ name, look, mark }) => ({
        sample: lineSample(`${look}-line`, mark, `${look} full`),
        text: name,
      }))
    : [];
  if (chosenIndex(report) >= 0) entries.push(CHOSEN(horizon));
  let top = 14 + legend(svg, [...entries, NOW(steps)], 14, width) + 20;
  for (const { title, series } of panels) {
    drawCurves(svg, report, { ...inner, top, height: 104, title, x: { range: axis.range } }, series, steps);
    top += 104 + 38;
  }
  drawWeights(
    svg,
    report,
    { ...inner, top, height: 64, title: weightsName(report), x: { ...axis, label: "steps T" } },
    steps,
  );
  return setHeight(svg, top + 64 + 40);
}

function drawCurves(svg, report, frame, series, steps) {
  const { horizons } = report.how_far;
  const values = series.flatMap(({ key }) => report.how_far[key]);
  const between = roomy(range(values));
  const { across, down, top, bottom } = panel(svg, {
    ...frame,
    y: { range: between, ticks: ticks(between, 3) },
  });
  if (inside(steps, horizons)) svg.append(stroke("now", across(steps), top, across(steps), bottom));
  const chosen = chosenIndex(report);
  for (const { key, look, mark } of series) {
    const points = horizons.map((horizon, index) => [
      across(horizon),
      down(report.how_far[key][index] ?? NaN),
    ]);
    svg.append(polyline(`${look}-line`, points));
    const roomForMarks = points.length <= frame.width / 6;
    points.forEach(([x, y], index) => {
      const looked = horizons[index] === steps;
      if (!Number.isFinite(y) || !(roomForMarks || looked)) return;
      svg.append(dot(mark, `${look} full`, x, y, looked ? 5 : 2.4, `how_far.${key}[${index}]`));
    });
  }
  const key = series.find(({ key }) => key === decidingKey(report))?.key ?? series[0].key;
  const value = report.how_far[key][chosen];
  if (chosen >= 0 && Number.isFinite(value))
    svg.append(dot("diamond", "chosen", across(horizons[chosen]), down(value), 6));
}

export const inside = (steps, horizons) => steps >= horizons[0] && steps <= horizons.at(-1);

/** The curve that the rule looked at. */
function decidingKey({ how_far: { rule } }) {
  if (LEAVE_ONE_OUT.includes(rule)) return "leave_one_out";
  return rule === "evidence-fixed" ? "evidence_fixed" : "evidence";
}

export function drawWeights(svg, report, frame, steps) {
  const { horizons, posterior } = report.how_far;
  const most = range([...posterior, 0])[1] || 1;
  const { across, down, top, bottom } = panel(svg, {
    ...frame,
    y: { range: [0, most], ticks: ticks([0, most], 2) },
  });
  const gaps = horizons.slice(1).map((horizon, index) => across(horizon) - across(horizons[index]));
  const wide = Math.max(1, Math.min(12, 0.7 * (range(gaps)[0] || 12)));
  thinned(posterior.map((weight, index) => ({ weight, index }))).forEach(({ weight, index }) => {
    if (!Number.isFinite(weight)) return;
    const x = across(horizons[index]) - wide / 2;
    svg.append(
      shape("rect", {
        class: "bar",
        x,
        y: down(weight),
        width: wide,
        height: bottom - down(weight),
        "data-mark": `how_far.posterior[${index}]`,
      }),
    );
  });
  if (inside(steps, horizons)) svg.append(stroke("now", across(steps), top, across(steps), bottom));
}

function evidenceLabel(report) {
  const { horizons, horizon } = report.how_far;
  const curves = criteria(report).map(({ title, series }) => {
    const [low, high] = range(series.flatMap(({ key }) => report.how_far[key]));
    return `${title} between ${number(low)} and ${number(high)}`;
  });
  const chosen = chosenIndex(report) >= 0 ? `; chosen: ${horizon} steps` : "";
  const shown = [...curves, weightsName(report)].join(", ");
  return `For ${horizons[0]} to ${horizons.at(-1)} steps: ${shown}${chosen}`;
}

export const EVIDENCE = {
  name: "evidence",
  title: "What T steps are worth",
  draw: drawEvidence,
  caption: "Lower is better in the curves; the weights under them say how much each number of steps counts.",
  shows: (report) =>
    !ofClasses(report) && report.how_far?.horizons?.length > 0 && report.how_far.posterior?.length > 0,
  readout: (report, steps) => {
    const index = report.how_far.horizons.indexOf(steps);
    if (index < 0) return [`T = ${steps} is not a candidate`];
    const numbers = criteria(report).flatMap(({ title, series }) =>
      series.map(({ key, name }) => [
        series.length > 1 ? `${title}, ${name}` : title,
        `how_far.${key}[${index}]`,
      ]),
    );
    return readout(report, steps, [...numbers, ["weight", `how_far.posterior[${index}]`]]);
  },
  table: (report) => {
    const series = criteria(report).flatMap((one) => one.series);
    return {
      head: ["T", ...series.map(({ name }) => name), "weight"],
      rows: report.how_far.horizons.map((horizon, index) => [
        String(horizon),
        ...series.map(({ key }) => ({ path: `how_far.${key}[${index}]` })),
        { path: `how_far.posterior[${index}]` },
      ]),
    };
  },
};

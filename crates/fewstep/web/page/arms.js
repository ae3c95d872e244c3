// Figures of a task of classes: what numbers of steps of each arm are worth, and the weights of the arms.

import {
  canvas,
  dot,
  drawn,
  GUTTER,
  horizonAxis,
  legend,
  LETTER,
  lineSample,
  NOW,
  panel,
  polyline,
  range,
  readout,
  roomy,
  scale,
  setHeight,
  stroke,
  ticks,
  words,
} from "./drawing.js";
import { shape } from "./elements.js";
import { drawWeights, inside } from "./evidence.js";
import { number } from "./numbers.js";
import { drawBar, ofClasses, shortened } from "./probabilities.js";

/** How the lines of arms look, in turn. */
const LOOKS = [
  { look: "first", mark: "circle" },
  { look: "second", mark: "triangle" },
  { look: "third", mark: "square" },
  { look: "fourth", mark: "diamond" },
  { look: "fifth", mark: "circle" },
];

const PANEL_HEIGHT = 190;

/** Every descent of every arm: its name, where it stands, and the log-loss that it starts from. */
function descents({ when, which }) {
  const all = which.arms.flatMap((arm, armIndex) =>
    (arm.paths ?? []).map((path, index) => {
      const differs = (key) => arm.paths.some((other) => other[key] !== path[key]);
      const name = [
        arm.name,
        ...(differs("layers") ? [`${path.layers} layers`] : []),
        ...(differs("step_scale") ? [`step scale ${number(path.step_scale)}`] : []),
      ].join(", ");
      const [start, startPath] =
        arm.base === "few-shot"
          ? [when.leave_one_out.icl, "when.leave_one_out.icl"]
          : [which.zero_shot?.loss, "which.zero_shot.loss"];
      return { name, path, place: `which.arms[${armIndex}].paths[${index}]`, start, startPath };
    }),
  );
  return all.map((one, index) => ({ ...one, ...LOOKS[index % LOOKS.length] }));
}

function drawLosses(report, steps, width) {
  const svg = canvas(width, 10, lossesLabel(report));
  const { horizons } = report.how_far;
  const { icl, adapted } = report.when.leave_one_out;
  const inner = { left: GUTTER, width: width - GUTTER - 4 };
  const axis = horizonAxis(horizons, inner.width);
  const rows = descents(report);
  const entries = [
    ...rows.map(({ name, look, mark }) => ({
      sample: lineSample(`${look}-line`, mark, `${look} full`),
      text: shortened(name, Math.floor((width - 42) / LETTER)),
    })),
    { sample: lineSample("target"), text: "in-context learning alone" },
    { sample: lineSample("level"), text: "the average" },
    NOW(steps),
  ];
  const top = 14 + legend(svg, entries, 14, width) + 20;
  const between = roomy(
    range([icl, adapted, ...rows.flatMap(({ path, start }) => [start, ...path.losses])]),
  );
  const frame = panel(svg, {
    ...inner,
    top,
    height: PANEL_HEIGHT,
    title: "leave-one-out log-loss",
    x: { range: axis.range },
    y: { range: between, ticks: ticks(between, 4) },
  });
  const level = (value, look) =>
    svg.append(stroke(look, inner.left, frame.down(value), width - 4, frame.down(value)));
  level(icl, "target");
  level(adapted, "level");
  if (inside(steps, horizons))
    svg.append(stroke("now", frame.across(steps), frame.top, frame.across(steps), frame.bottom));
  for (const row of rows) drawDescent(svg, row, frame, steps);
  const below = top + PANEL_HEIGHT + 38;
  drawWeights(
    svg,
    report,
    { ...inner, top: below, height: 64, title: "weight over all arms", x: { ...axis, label: "steps T" } },
    steps,
  );
  return setHeight(svg, below + 64 + 40);
}

function drawDescent(svg, { path, place, start, startPath, look, mark }, { across, down }, steps) {
  const losses = path.horizons.map((horizon, index) => ({
    horizon,
    loss: path.losses[index],
    at: `${place}.losses[${index}]`,
  }));
  const points = [
    ...(Number.isFinite(start) ? [{ horizon: 0, loss: start, at: startPath }] : []),
    ...losses,
  ].filter(({ loss }) => Number.isFinite(loss));
  svg.append(
    polyline(
      `${look}-line`,
      points.map(({ horizon, loss }) => [across(horizon), down(loss)]),
    ),
  );
  for (const { horizon, loss, at } of points) {
    const radius = horizon === steps ? 5 : 2.6;
    svg.append(dot(mark, `${look} full`, across(horizon), down(loss), radius, at));
  }
}

function lossesLabel(report) {
  const said = descents(report).map(({ name, path }) => {
    const best = path.losses.indexOf(Math.min(...path.losses));
    return `${name} lowest at ${path.horizons[best]} steps with ${number(path.losses[best])}`;
  });
  const { icl, adapted } = report.when.leave_one_out;
  const levels = `in-context learning alone ${number(icl)}, the average ${number(adapted)}`;
  return `Leave-one-out log-loss by the number of steps: ${[...said, levels].join("; ")}`;
}

export const LOSSES = {
  name: "log-loss",
  title: "What T steps of each arm are worth",
  draw: drawLosses,
  caption:
    "Mean log-loss of the examples, each held out, after T steps of an arm; lower is better. The weights under " +
    "it say how much each number of steps counts.",
  shows: (report) => ofClasses(report) && descents(report).length > 0,
  readout: (report, steps) => {
    const index = report.how_far.horizons.indexOf(steps);
    if (index < 0) return [`T = ${steps} is not a candidate`];
    const numbers = descents(report).map(({ name, path, place, startPath }) => {
      const found = path.horizons.indexOf(steps);
      return [name, found < 0 ? startPath : `${place}.losses[${found}]`];
    });
    return readout(report, steps, [...numbers, ["weight", `how_far.posterior[${index}]`]]);
  },
  table: (report) => {
    const rows = descents(report);
    return {
      head: ["T", ...rows.map(({ name }) => name), "weight"],
      rows: report.how_far.horizons.map((horizon, index) => [
        String(horizon),
        ...rows.map(({ path, place, startPath }) => {
          const found = path.horizons.indexOf(horizon);
          return { path: found < 0 ? startPath : `${place}.losses[${found}]` };
        }),
        { path: `how_far.posterior[${index}]` },
      ]),
    };
  },
};

/** What the answer is an average of, with weights; the rest is in-context learning alone. */
function members({ which }) {
  const arms = which.arms.map((arm, index) => ({ ...arm, path: `which.arms[${index}].weight` }));
  const alone = which.zero_shot
    ? [{ name: "zero-shot alone", weight: which.zero_shot.weight, path: "which.zero_shot.weight" }]
    : [];
  return [...arms, ...alone];
}

const ROW = 36;

function drawArms(report, _, width) {
  const svg = canvas(width, 10, armsLabel(report));
  const rows = members(report);
  const rest = Math.max(0, 1 - report.when.weight);
  const most = Math.max(rest, ...rows.map(({ weight }) => weight));
  const across = scale([0, most || 1], [2, width - 13 * LETTER]);
  const letters = Math.floor((width - 4) / LETTER);
  svg.append(
    words("in-context learning alone", 2, 14),
    shape("rect", { class: "bar-open", x: 2, y: 20, width: Math.max(0.5, across(rest) - 2), height: 10 }),
    shape("text", { x: across(rest) + 5, y: 29, class: "ink" }, "1 − ", drawn(report, "when.weight")),
  );
  rows.forEach(({ name, weight, path, left_out }, index) => {
    const top = (index + 1) * ROW;
    svg.append(words(shortened(name, letters), 2, top + 14));
    if (left_out) {
      svg.append(words(shortened(`left out: ${left_out}`, letters), 2, top + 29, { class: "muted" }));
    } else drawBar(svg, report, { path, value: weight, look: "bar" }, across, { y: top + 20, height: 10 });
  });
  return setHeight(svg, (rows.length + 1) * ROW + 4);
}

function armsLabel(report) {
  const said = members(report).map(({ name, weight, left_out }) =>
    left_out ? `${name} left out: ${left_out}` : `${name} ${number(weight)}`,
  );
  return `Weights: ${said.join("; ")}; in-context learning alone has what is missing to 1`;
}

export const ARMS = {
  name: "arms",
  title: "Weight of each arm",
  draw: drawArms,
  caption:
    "An arm is a base prompt, few-shot or zero-shot, with blocks that are updated behind it. The answer is the " +
    "average over all of them and in-context learning alone.",
  shows: ofClasses,
  readout: null,
  table: (report) => ({
    head: ["arm", "weight", "best log-loss", "average log-loss", "left out"],
    rows: members(report).map(({ name, path, left_out }) => [
      name,
      { path },
      { path: path.replace("weight", "leave_one_out.best") },
      { path: path.replace("weight", "leave_one_out.average") },
      left_out ?? "",
    ]),
  }),
};

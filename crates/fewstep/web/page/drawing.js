// What figures are made of: scales, axes, marks and legends. All that is computed is where things lie.

import { fill, shape, shown } from "./elements.js";
import { at, number } from "./numbers.js";

/** The width of a letter of 12 pixels, a little more than on average. */
export const LETTER = 6.4;

/** Room left of a panel, for the numbers of its axis. */
export const GUTTER = 56;

/** The most points of a line; a drawing has no more columns. */
const MOST_POINTS = 600;

/** From values to pixels. */
export function scale([from, to], [start, end]) {
  if (from === to) return () => (start + end) / 2;
  return (value) => start + ((value - from) / (to - from)) * (end - start);
}

/** The smallest and the largest of the finite values. */
export function range(values) {
  const finite = values.filter(Number.isFinite);
  return [
    finite.reduce((a, b) => Math.min(a, b), Infinity),
    finite.reduce((a, b) => Math.max(a, b), -Infinity),
  ];
}

/** A range with some room at both ends. */
export function roomy([low, high]) {
  const room = high > low ? 0.07 * (high - low) : Math.abs(low) * 0.05 || 0.5;
  return [low - room, high + room];
}

/** Round numbers between two ends: at least `least` of them, and not many more. */
export function ticks([from, to], least, whole = false) {
  const power = 10 ** Math.floor(Math.log10((to - from) / least));
  const inside = (step) => Math.floor(to / step + 1e-9) - Math.ceil(from / step - 1e-9) + 1;
  const coarse = [10, 5, 2, 1, 0.5, 0.2]
    .map((factor) => factor * power)
    .find((step) => inside(step) >= least);
  const step = whole ? Math.max(1, coarse) : coarse;
  const found = [];
  for (let index = Math.ceil(from / step - 1e-9); index * step <= to + 1e-9 * step; index += 1) {
    found.push(index * step);
  }
  return found.map((value) => ({ value, text: tickText(value, step) }));
}

/** As many digits as tell neighbours apart. */
function tickText(value, step) {
  if (Math.abs(value) < step / 2) return "0";
  const decimals = -Math.floor(Math.log10(step) + 1e-9);
  if (decimals <= 4 && Math.abs(value) < 1e5) return value.toFixed(Math.max(0, decimals));
  const digits = Math.floor(Math.log10(Math.abs(value)) + 1e-9) + decimals;
  return value.toExponential(Math.max(0, digits)).replace("e+", "e");
}

export function words(content, x, y, attributes) {
  return shape("text", { x, y, class: "ink", ...attributes }, content);
}

/** A number of the report within a drawing. */
export const drawn = (report, path) => shape("tspan", { "data-path": path }, number(at(report, path) ?? NaN));

const MARKS = {
  circle: (x, y, r) => shape("circle", { cx: x, cy: y, r }),
  square: (x, y, r) => shape("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
  diamond: (x, y, r) =>
    shape("path", { d: `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}Z` }),
  triangle: (x, y, r) =>
    shape("path", { d: `M${x} ${y - 1.2 * r}L${x + 1.2 * r} ${y + r}L${x - 1.2 * r} ${y + r}Z` }),
};

/** A mark of some form; `look` names its colours, and `path` the number it stands for. */
export function dot(form, look, x, y, r = 4, path = null) {
  const mark = MARKS[form](x, y, r);
  fill(mark, { class: look, "data-mark": path }, []);
  return mark;
}

export const stroke = (look, x1, y1, x2, y2) => shape("line", { class: look, x1, y1, x2, y2 });

/** A point in every so many, and both ends. */
export function thinned(points) {
  if (points.length <= MOST_POINTS) return points;
  const every = Math.ceil(points.length / MOST_POINTS);
  return points.filter((_, index) => index % every === 0 || index === points.length - 1);
}

/** A line through points, broken where a value is missing. */
export function polyline(look, points) {
  let pen = "M";
  const path = thinned(points).map(([x, y]) => {
    if (!Number.isFinite(y)) {
      pen = "M";
      return "";
    }
    const part = `${pen}${x.toFixed(2)} ${y.toFixed(2)}`;
    pen = "L";
    return part;
  });
  return shape("path", { class: look, d: path.join("") || "M0 0" });
}

/** A frame with axes; returns where values lie in it. */
export function panel(svg, { left, top, width, height, x, y, title, inset = 8 }) {
  const across = scale(x.range, [left + inset, left + width - inset]);
  const down = scale(y.range, [top + height, top]);
  svg.append(words(title, left - GUTTER + 2, top - 14, { class: "ink title" }));
  for (const { value, text } of y.ticks) {
    const at = down(value);
    svg.append(stroke("grid", left, at, left + width, at));
    svg.append(words(text, left - 6, at + 4, { class: "muted", "text-anchor": "end", "data-tick-y": value }));
  }
  svg.append(stroke("axis", left, top + height, left + width, top + height));
  for (const { value, text } of x.ticks ?? []) {
    const at = across(value);
    svg.append(stroke("axis", at, top + height, at, top + height + 4));
    svg.append(
      words(text, at, top + height + 17, { class: "muted", "text-anchor": "middle", "data-tick-x": value }),
    );
  }
  if (x.label) svg.append(words(x.label, left + width / 2, top + height + 33, { "text-anchor": "middle" }));
  return { across, down, top, bottom: top + height };
}

/** What the marks mean; returns the height of the lines that this takes. */
export function legend(svg, entries, top, width) {
  let [x, y] = [2, top];
  for (const { sample, text } of entries) {
    const needed = 26 + text.length * LETTER + 12;
    if (x > 2 && x + needed > width) [x, y] = [2, y + 18];
    svg.append(...sample(x + 10, y - 4), words(text, x + 26, y));
    x += needed;
  }
  return y - top + 18;
}

/** Samples for a legend. */
export const lineSample = (look, form, markLook) => (x, y) => [
  stroke(look, x - 10, y, x + 10, y),
  ...(form ? [dot(form, markLook, x, y, 3.5)] : []),
];

const markSample = (form, look) => (x, y) => [dot(form, look, x, y, 4)];

const nowSample = (x, y) => [stroke("now", x, y - 7, x, y + 7)];

export const CHOSEN = (horizon) => ({
  sample: markSample("diamond", "chosen"),
  text: `chosen: T = ${horizon}`,
});

export const NOW = (steps) => ({ sample: nowSample, text: `T = ${steps}` });

/** An empty drawing. */
export function canvas(width, height, label) {
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": label,
  });
  svg.append(shape("rect", { class: "paper", width, height }));
  return svg;
}

/** A drawing is as high as what is in it. */
export function setHeight(svg, height) {
  const width = svg.getAttribute("width");
  fill(svg, { viewBox: `0 0 ${width} ${height}`, height }, []);
  svg.querySelector(".paper").setAttribute("height", height);
  return svg;
}

export function horizonAxis(horizons, width) {
  const [first, last] = [horizons[0], horizons.at(-1)];
  const between = first === last ? [first - 1, last + 1] : [first, last];
  return { range: between, ticks: ticks(between, Math.max(3, Math.floor(width / 90)), true) };
}

/** `T = 3: weight 0.012, …`. */
export function readout(report, steps, numbers) {
  const known = numbers.filter(([, path]) => at(report, path) !== undefined);
  return [
    `T = ${steps}: `,
    ...known.flatMap(([name, path], index) => [`${index > 0 ? "; " : ""}${name} `, shown(report, path)]),
  ];
}

// Figure: the spectrum of the chosen blocks, and how much of each mode is fitted.

import {
  canvas,
  dot,
  GUTTER,
  legend,
  lineSample,
  panel,
  polyline,
  range,
  setHeight,
  stroke,
  ticks,
} from "./drawing.js";
import { number } from "./numbers.js";

/** Eigenvalues further than this under the largest one are drawn at the foot of the scale. */
const DEEPEST = 1e-12;

function drawSpectrum(report, _steps, width) {
  const svg = canvas(width, 10, spectrumLabel(report));
  const { eigenvalues, response, bayes_response: bayes } = report.geometry;
  const inner = { left: GUTTER, width: width - GUTTER - 4 };
  const modes = [1, Math.max(2, eigenvalues.length)];
  const axis = { range: modes, ticks: ticks(modes, Math.max(3, Math.floor(inner.width / 90)), true) };
  const filters = [
    {
      values: bayes,
      key: "bayes_response",
      name: "Bayes filter",
      line: "third-line",
      mark: "square",
      look: "third open",
      r: 4.2,
    },
    {
      values: response,
      key: "response",
      name: "chosen update",
      line: "first-line",
      mark: "circle",
      look: "first full",
      r: 3,
    },
  ].filter(({ values }) => values);
  const entries = filters.map(({ name, line, mark, look }) => ({
    sample: lineSample(line, mark, look),
    text: name,
  }));
  let top = 14 + (entries.length > 0 ? legend(svg, entries, 14, width) : 0) + 20;
  const last = filters.length === 0;
  drawEigenvalues(svg, report, {
    ...inner,
    top,
    height: 110,
    title: "eigenvalue λ",
    x: last ? { ...axis, label: "mode" } : { range: modes },
  });
  top += 110 + 42;
  if (!last) {
    drawFilters(svg, filters, {
      ...inner,
      top,
      height: 110,
      title: "share that is fitted, g(λ)",
      x: { ...axis, label: "mode, largest eigenvalue first" },
    });
    top += 110;
  }
  return setHeight(svg, top + 40);
}

function drawEigenvalues(svg, report, frame) {
  const { eigenvalues } = report.geometry;
  const largest = range(eigenvalues)[1];
  const positive = eigenvalues.filter((value) => value > DEEPEST * largest && value > 0);
  const logs = positive.map(Math.log10);
  const between =
    positive.length > 0 ? [Math.floor(range(logs)[0] - 0.05), Math.ceil(range(logs)[1] + 0.05)] : [-1, 0];
  const every = Math.max(1, Math.ceil((between[1] - between[0]) / 5));
  const powers = Array.from({ length: between[1] - between[0] + 1 }, (_, index) => between[0] + index);
  const marks = powers
    .filter((power) => (power - between[0]) % every === 0)
    .map((power) => ({ value: power, text: powerText(power) }));
  const { across, down, bottom } = panel(svg, { ...frame, y: { range: between, ticks: marks } });
  eigenvalues.forEach((value, index) => {
    const seen = value > 0 && value > DEEPEST * largest;
    const [x, y] = [across(index + 1), seen ? down(Math.log10(value)) : bottom];
    svg.append(
      stroke("stem", x, bottom, x, y),
      dot(
        seen ? "circle" : "diamond",
        seen ? "plain full" : "plain open",
        x,
        y,
        3.2,
        `geometry.eigenvalues[${index}]`,
      ),
    );
  });
}

const powerText = (power) => (power >= -3 && power <= 4 ? String(Number(`1e${power}`)) : `1e${power}`);

function drawFilters(svg, filters, frame) {
  const [low, high] = range([0, 1, ...filters.flatMap(({ values }) => values)]);
  const { across, down } = panel(svg, { ...frame, y: { range: [low, high], ticks: ticks([low, high], 3) } });
  // Where both are the same, the smaller marks lie within the larger ones.
  for (const { values, key, line, mark, look, r } of filters) {
    const points = values.map((value, index) => [across(index + 1), down(value ?? NaN)]);
    svg.append(polyline(line, points));
    points.forEach(([x, y], index) => {
      if (Number.isFinite(y)) svg.append(dot(mark, look, x, y, r, `geometry.${key}[${index}]`));
    });
  }
}

function spectrumLabel({ geometry: { eigenvalues, response, bayes_response: bayes } }) {
  const [low, high] = range(eigenvalues);
  const parts = [`${eigenvalues.length} eigenvalues from ${number(high)} down to ${number(low)}`];
  const ends = (values) => `${number(values[0])} of the first mode and ${number(values.at(-1))} of the last`;
  if (response) parts.push(`the chosen update fits ${ends(response)}`);
  if (bayes) parts.push(`the Bayes filter ${ends(bayes)}`);
  return `Spectrum of the chosen blocks' kernel: ${parts.join("; ")}`;
}

export const SPECTRUM = {
  name: "spectrum",
  title: "Spectrum and filters",
  draw: drawSpectrum,
  caption:
    "How much of the residual in each mode the chosen update fits, and how much the Bayes filter of the " +
    "fitted signal and noise would. An open mark at the foot is an eigenvalue that is nearly 0.",
  shows: ({ geometry }) => geometry?.eigenvalues?.length > 0,
  readout: null,
  table: ({ geometry }) => {
    const columns = [
      ["eigenvalue", "eigenvalues"],
      ["chosen update", "response"],
      ["Bayes filter", "bayes_response"],
    ].filter(([, key]) => geometry[key]);
    return {
      head: ["mode", ...columns.map(([name]) => name)],
      rows: geometry.eigenvalues.map((_, index) => [
        String(index + 1),
        ...columns.map(([, key]) => ({ path: `geometry.${key}[${index}]` })),
      ]),
    };
  },
};

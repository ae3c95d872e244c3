// Figure: which labels are taken for which, over several queries whose answers are known.

import { canvas, LETTER, setHeight, words } from "./drawing.js";
import { shape } from "./elements.js";
import { percent } from "./numbers.js";
import { ofClasses, shortened } from "./probabilities.js";
import { state } from "./state.js";

/** Room for the names of rows, and above the cells. */
const ROWS = 104;
const HEAD = 62;

/** The widest and the narrowest cell, and the most labels of a matrix. */
const WIDEST = 34;
const NARROWEST = 17;
const MOST_LABELS = 24;

/** The two ways to answer: the position of the label that is answered. */
const WAYS = [
  { name: "without adapting", answer: ({ icl }) => icl.indexOf(Math.max(...icl)) },
  { name: "adapted", answer: ({ labels, label }) => labels.indexOf(label) },
];

/** The predictions whose answers are known, each with its answer's position. */
function known() {
  const found = state.answers.map(({ report }) => report?.prediction).filter(Boolean);
  return found
    .map((prediction) => ({ prediction, answer: prediction.labels?.indexOf(prediction.target) ?? -1 }))
    .filter(({ answer }) => answer >= 0);
}

/** How often the label of a column was answered where that of a row was right, and how often both are one. */
function counted(queries, way) {
  const counts = new Map();
  let right = 0;
  for (const { prediction, answer } of queries) {
    const given = way.answer(prediction);
    const key = `${answer} ${given}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    right += given === answer ? 1 : 0;
  }
  return { ...way, right, of: (answer, given) => counts.get(`${answer} ${given}`) ?? 0 };
}

/** The labels that have a row and a column: of many, those that were an answer or answered. */
function labelsOf(queries) {
  const { labels } = queries[0].prediction;
  const all = labels.map((_, label) => label);
  if (all.length <= MOST_LABELS) return { labels, drawn: all };
  const used = new Set(
    queries.flatMap(({ prediction, answer }) => [answer, ...WAYS.map((way) => way.answer(prediction))]),
  );
  return { labels, drawn: all.filter((label) => used.has(label)).slice(0, MOST_LABELS) };
}

const score = ({ name, right }, count) => `${name}: ${right} of ${count} right, ${percent(right / count)}`;

function drawConfusion(_, __, width) {
  const queries = known();
  const matrices = WAYS.map((way) => counted(queries, way));
  const { labels, drawn } = labelsOf(queries);
  const beside = width >= 2 * (ROWS + NARROWEST * drawn.length + 20);
  const room = (beside ? width / 2 : width) - ROWS - 12;
  const cell = Math.max(NARROWEST, Math.min(WIDEST, Math.floor(room / drawn.length)));
  const tall = HEAD + cell * drawn.length + 14;
  const most = Math.max(...matrices.flatMap(({ of }) => drawn.flatMap((a) => drawn.map((b) => of(a, b)))));
  const svg = canvas(width, 10, confusionLabel(queries, matrices));
  matrices.forEach((matrix, index) => {
    const [left, top] = beside ? [(index * width) / 2, 0] : [0, index * tall];
    svg.append(words(score(matrix, queries.length), left + 2, top + 14, { class: "ink title" }));
    svg.append(words("answer", left + 2, top + HEAD - 6, { class: "muted" }));
    svg.append(words("predicted", left + ROWS, top + 34, { class: "muted" }));
    drawMatrix(svg, matrix, { labels, drawn, left: left + ROWS, top: top + HEAD, cell, most });
  });
  return setHeight(svg, beside ? tall : 2 * tall);
}

function drawMatrix(svg, { of }, { labels, drawn, left, top, cell, most }) {
  // Columns are too narrow for anything but short names: there they have the numbers of their rows.
  const short = drawn.every((label) => [...labels[label].trim()].length <= 2);
  const head = (label) => (short ? labels[label].trim() : String(label));
  const row = (label) => (short ? labels[label].trim() : `${label} ${labels[label].trim()}`);
  const middle = (index) => index * cell + cell / 2;
  drawn.forEach((label, index) => {
    svg.append(
      words(head(label), left + middle(index), top - 6, { class: "muted", "text-anchor": "middle" }),
      words(shortened(row(label), Math.floor((ROWS - 12) / LETTER)), left - 6, top + middle(index) + 4, {
        "text-anchor": "end",
      }),
    );
  });
  drawn.forEach((answer, down) => {
    drawn.forEach((given, across) => {
      const count = of(answer, given);
      const place = { x: left + across * cell, y: top + down * cell, width: cell, height: cell };
      svg.append(
        shape("rect", { class: "count", "fill-opacity": (0.45 * count) / (most || 1), ...place }),
        shape("rect", { class: "cell-edge", ...place }),
      );
      if (count > 0)
        svg.append(
          words(String(count), left + middle(across), top + middle(down) + 4, { "text-anchor": "middle" }),
        );
    });
  });
  drawn.forEach((_, index) => {
    const place = left + index * cell;
    svg.append(shape("rect", { class: "right", x: place, y: top + index * cell, width: cell, height: cell }));
  });
}

function confusionLabel(queries, matrices) {
  const scores = matrices.map((matrix) => score(matrix, queries.length)).join("; ");
  return `Confusion matrices of ${queries.length} queries whose answers are known: ${scores}. The numbers are in the table`;
}

export const CONFUSION = {
  name: "confusion",
  title: "Answers against predictions, over all queries",
  wide: true,
  draw: drawConfusion,
  caption: "How often each label was predicted where each was the answer; right ones lie on the outlined diagonal.",
  shows: (report) => ofClasses(report) && state.answers.length > 1 && known().length > 0,
  readout: null,
  table: () => {
    const queries = known();
    const matrices = WAYS.map((way) => counted(queries, way));
    const { labels } = queries[0].prediction;
    const pairs = labels.flatMap((_, answer) => labels.map((__, given) => [answer, given]));
    return {
      head: ["answer", "predicted", ...matrices.map(({ name }) => name)],
      rows: pairs
        .filter(([answer, given]) => matrices.some(({ of }) => of(answer, given) > 0))
        .map(([answer, given]) => [
          labels[answer],
          labels[given],
          ...matrices.map(({ of }) => String(of(answer, given))),
        ]),
    };
  },
};

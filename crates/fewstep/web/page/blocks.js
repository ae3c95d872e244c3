// Figure: the scores of the blocks by layer and head.

import { canvas, drawn, range, setHeight, words } from "./drawing.js";
import { shape } from "./elements.js";
import { number } from "./numbers.js";

/** Colours from dark blue to yellow, after the map cividis: their lightness grows evenly. */
const CIVIDIS = [
  [0, 34, 78],
  [66, 78, 108],
  [124, 123, 120],
  [187, 173, 108],
  [254, 232, 56],
];

function cividis(share) {
  const along = Math.min(1, Math.max(0, share)) * (CIVIDIS.length - 1);
  const index = Math.min(CIVIDIS.length - 2, Math.floor(along));
  const mix = CIVIDIS[index].map((level, part) =>
    Math.round(level + (CIVIDIS[index + 1][part] - level) * (along - index)),
  );
  return `rgb(${mix.join(",")})`;
}

/** One grid per kind of block, with its layers as rows; a kind without heads has one column. */
function grids({ which }) {
  const chosen = new Set(which.selected);
  const kinds = new Map();
  which.blocks.forEach(({ name, query, trace }, index) => {
    const [kind, layer, head] = name.split(".");
    if (!kinds.has(kind))
      kinds.set(kind, {
        kind,
        perHead: head !== undefined,
        head: `${which.heads?.[kind] ?? ""} head`.trim(),
        rows: new Map(),
      });
    const { rows } = kinds.get(kind);
    if (!rows.has(layer)) rows.set(layer, []);
    const key = Number.isFinite(query) ? "query" : "trace";
    rows.get(layer).push({
      name,
      head: Number(head ?? 0),
      score: key === "query" ? query : trace,
      path: `which.blocks[${index}].${key}`,
      chosen: chosen.has(name),
    });
  });
  return [...kinds.values()];
}

/** Whether some blocks were chosen and others not. */
const isDivided = ({ which }) => which.selected.length < which.blocks.length;

function drawMap(report, _steps, width) {
  const svg = canvas(width, 10, mapLabel(report));
  const all = grids(report);
  const largest = range([
    0,
    ...all.flatMap(({ rows }) => [...rows.values()].flat().map(({ score }) => score)),
  ])[1];
  let top = 16;
  for (const grid of all) top = drawGrid(svg, report, grid, { top, width, largest });
  return setHeight(svg, drawMapKey(svg, report, largest, top + 8, width));
}

function drawGrid(svg, report, { kind, perHead, head, rows }, { top, width, largest }) {
  const left = 58;
  const columns = perHead ? 1 + range([...rows.values()].flat().map((cell) => cell.head))[1] : 1;
  const cell = perHead ? Math.min(34, (width - left - 4) / columns) : Math.min(150, width - left - 4);
  const height = perHead ? Math.max(12, Math.min(30, cell)) : 30;
  svg.append(
    words(perHead ? `${kind} blocks: layer and ${head}` : `${kind} blocks: layer`, 2, top, {
      class: "ink title",
    }),
  );
  let y = top + (perHead ? 28 : 12);
  const every = Math.ceil(20 / cell);
  for (let column = 0; perHead && column < columns; column += every) {
    svg.append(
      words(String(column), left + (column + 0.5) * cell, y - 6, { class: "muted", "text-anchor": "middle" }),
    );
  }
  for (const [layer, cells] of rows) {
    svg.append(words(`layer ${layer}`, 2, y + height / 2 + 4, { class: "muted" }));
    for (const block of cells)
      drawCell(svg, report, block, { x: left + block.head * cell, y, cell, height, largest });
    y += height;
  }
  return y + 24;
}

function drawCell(svg, report, { name, score, path, chosen }, { x, y, cell, height, largest }) {
  const share = largest > 0 ? score / largest : 0;
  const title = shape("title", {}, `${name}: ${number(score)}${chosen ? ", chosen" : ""}`);
  const gap = cell > 12 ? 1 : 0.5;
  svg.append(
    shape(
      "rect",
      {
        class: "cell",
        x: x + gap,
        y: y + gap,
        width: cell - 2 * gap,
        height: height - 2 * gap,
        fill: cividis(share),
        "data-mark": path,
        "data-chosen": chosen,
      },
      title,
    ),
  );
  if (cell > 60) {
    const text = shape(
      "text",
      {
        x: x + cell / 2,
        y: y + height / 2 + 4,
        class: share > 0.55 ? "on-light" : "on-dark",
        "text-anchor": "middle",
      },
      drawn(report, path),
    );
    svg.append(text);
  }
  if (!chosen || !isDivided(report)) return;
  const [centre, r] = [cell > 60 ? x + 16 : x + cell / 2, Math.min(6, cell / 4, height / 4)];
  svg.append(
    shape("circle", { class: "dot-rim", cx: centre, cy: y + height / 2, r: r + 1.5 }),
    shape("circle", { class: "dot", cx: centre, cy: y + height / 2, r }),
  );
}

/** What the colours mean; returns the height of the drawing. */
function drawMapKey(svg, report, largest, top, width) {
  const wide = Math.min(120, width / 3);
  for (let step = 0; step < 20; step += 1) {
    svg.append(
      shape("rect", {
        x: 2 + (step * wide) / 20,
        y: top,
        width: wide / 20 + 0.3,
        height: 12,
        fill: cividis(step / 19),
      }),
    );
  }
  svg.append(words(`score 0 to ${number(largest)}`, wide + 12, top + 10));
  if (!isDivided(report)) svg.append(words("all blocks are chosen", 2, top + 32));
  else {
    svg.append(
      shape("circle", { class: "dot-rim", cx: 10, cy: top + 28, r: 7 }),
      shape("circle", { class: "dot", cx: 10, cy: top + 28, r: 5.5 }),
      words("chosen", 24, top + 32),
    );
  }
  return top + 44;
}

function mapLabel(report) {
  const { which } = report;
  const cells = grids(report).flatMap(({ rows }) => [...rows.values()].flat());
  const best = cells.reduce((a, b) => (b.score > a.score ? b : a));
  const chosen = isDivided(report)
    ? `chosen: ${which.selected.slice(0, 20).join(", ")}${which.selected.length > 20 ? " and more" : ""}`
    : "all are chosen";
  const highest = `the highest is ${best.name} with ${number(best.score)}`;
  return `Scores of ${which.blocks.length} blocks by layer and head; ${highest}; ${chosen}`;
}

export const MAP = {
  name: "blocks",
  title: "Scores of the blocks",
  draw: drawMap,
  caption:
    "How much of what the prompt tells about a block matters at the query; " +
    "without a query score, how much the prompt tells about it.",
  shows: ({ which }) => which.blocks?.length > 0,
  readout: null,
  table: ({ which }) => ({
    head: ["block", "query score", "trace score", "chosen"],
    rows: which.blocks.map(({ name }, index) => [
      name,
      { path: `which.blocks[${index}].query` },
      { path: `which.blocks[${index}].trace` },
      which.selected.includes(name) ? "yes" : "",
    ]),
  }),
};

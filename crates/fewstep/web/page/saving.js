// Figures and reports as files.

import { element, shape } from "./elements.js";
import { state } from "./state.js";

/** What a drawing takes from the style sheet, and must bring along when it leaves the page. */
const STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linejoin",
  "font-family",
  "font-size",
  "font-weight",
];

/** A drawing as a file that needs nothing else, in the colours in which it is shown. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, index) => {
    const computed = getComputedStyle(originals[index]);
    if (!["svg", "title"].includes(node.localName)) {
      for (const name of STYLES) node.setAttribute(name, computed.getPropertyValue(name));
    }
    for (const { name } of [...node.attributes])
      if (name === "class" || name.startsWith("data-")) node.removeAttribute(name);
  });
  copy.prepend(shape("title", {}, copy.getAttribute("aria-label")));
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

/** The task's id as part of the name of a file. */
const fileName = (id) =>
  id
    .replace(/[^A-Za-z0-9._-]/g, "_")
    .replace(/^\.+/, "_")
    .slice(0, 60) || "task";

function save(name, type, content) {
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  // The browser has taken the file over by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const saveFigure = ({ name }, svg) =>
  save(`${fileName(state.report.id)}.${name}.svg`, "image/svg+xml", standalone(svg));

/** One report as it is, several as a file of lines. */
export function saveReport() {
  const texts = state.answers.flatMap(({ text }) => text ?? []);
  const [name, type] =
    state.answers.length > 1 ? ["reports.jsonl", "application/x-ndjson"] : ["report.json", "application/json"];
  save(`${fileName(state.report.id)}.${name}`, type, texts.map((text) => `${text}\n`).join(""));
}

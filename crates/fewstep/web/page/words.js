// The lines of the report: the sentences that the terminal shows, too.

import { byId, element, put } from "./elements.js";

const NAMES = {
  when: "Does it help?",
  how_far: "How far?",
  which: "Which blocks?",
  prediction: "Prediction",
  error: "Error",
};

/** What the report answers in a word or two: what its first line says before the reason. */
export const shortAnswer = ({ lines }) => lines.when?.split(": ", 1)[0];

/** What a line answers: the answer of classes is an average over arms, not a choice of blocks. */
const nameOf = (report, key) => (key === "which" && report.which.arms ? "Which arms?" : NAMES[key]);

/** A line as it is, the answer before its reason in bold. */
function lineOf(report, key) {
  const line = report.lines[key];
  const answer = key === "when" ? shortAnswer(report) : "";
  return answer ? [element("strong", {}, answer), line.slice(answer.length)] : [line];
}

export function showWords(report) {
  const said = Object.keys(NAMES).filter((key) => report.lines[key]);
  put(
    byId("answers"),
    said.map((key) =>
      element(
        "div",
        {},
        element("dt", {}, nameOf(report, key)),
        element("dd", { "data-answer": key, "data-path": `lines.${key}` }, ...lineOf(report, key)),
      ),
    ),
  );
}

// The lines of the command line: when, how far, where, and the prediction.

import { byId, element, put, shown } from "./elements.js";
import { percent } from "./numbers.js";

/** How many names of blocks are written out. */
const NAMES = 8;

function whenWords(report) {
  const { adapt, reason } = report.when;
  return [
    element("strong", {}, adapt ? "adapt" : "leave it"),
    `: ${reason} (gate `,
    shown(report, "when.gate"),
    "; expected gap ",
    shown(report, "when.gap_icl"),
    " -> ",
    shown(report, "when.gap_adapted"),
    ")",
  ];
}

function howFarWords(report) {
  const { rule, horizon, at_edge } = report.how_far;
  const by = /^\d+$/.test(rule) ? "as asked" : `by ${rule}`;
  const freedom = [" (", shown(report, "how_far.degrees_of_freedom"), " degrees of freedom)"];
  const strong = (text) => element("strong", {}, text);
  const weights = averaged(report);
  let words;
  if (!report.when?.adapt) words = [strong("0 steps"), ` ${by}`];
  else if (rule === "bayes-filter") words = [strong("one update"), ` ${by}`, ...freedom];
  else {
    const what = weights ? averageWords(weights) : [strong(horizon === 1 ? "1 step" : `${horizon} steps`)];
    words = [...what, " of ", shown(report, "how_far.step_size"), ` ${by}`, ...freedom];
  }
  // More would be needed of the weights beyond it, too, to say the same of an average.
  const edge = at_edge && !weights ? ["; the largest candidate: try more with --horizons"] : [];
  return [...words, ...edge];
}

/** The weights of numbers of steps over 0, if an average over them was chosen. */
function averaged({ how_far: { rule, horizons, posterior } }) {
  if (!["gibbs", "leave-one-out-average"].includes(rule)) return null;
  const all = (horizons ?? []).map((steps, index) => ({ steps, weight: posterior[index] }));
  return all.filter(({ steps, weight }) => steps > 0 && weight !== undefined);
}

function averageWords(weights) {
  const moved = weights.reduce((sum, { weight }) => sum + weight, 0);
  const most = weights.reduce((best, next) => (next.weight > best.weight ? next : best), {
    steps: 0,
    weight: 0,
  });
  const number = most.steps === 1 ? "1 step" : `${most.steps} steps`;
  return [
    element("strong", {}, "an average"),
    ` with ${percent(moved)} of its weight on steps, most on ${number}`,
  ];
}

function whereWords({ which }) {
  const heads = Object.entries(which.heads ?? {}).map(([kind, head]) => `${kind}: ${head} heads`);
  return [...blocksWords(which), heads.length > 0 ? ` (${heads.join(", ")})` : ""];
}

function blocksWords({ rule, selected, blocks }) {
  const candidates = blocks?.length ?? 0;
  const count = selected.length;
  const strong = (text) => element("strong", {}, text);
  if (count === candidates && count > NAMES)
    return [strong(`all ${count} blocks`), ` from ${selected[0]} to ${selected.at(-1)}`];
  if (count === candidates && count > 1) return [`all ${count} blocks: `, strong(selected.join(" "))];
  const names = selected.slice(0, NAMES).join(" ");
  const more = count > NAMES ? ` and ${count - NAMES} more` : "";
  const of = candidates > 0 ? ` of ${candidates}` : "";
  const plural = count === 1 && of === "" ? "" : "s";
  return [`${count}${of} block${plural} by ${rule}: `, strong(names), more];
}

export function predictionWords(report) {
  const { adapted, linear, standard_deviation, interval } = report.prediction;
  const known = (value) => value !== null && value !== undefined;
  const words = [shown(report, "prediction.icl"), " without adapting"];
  if (known(adapted)) words.push(", ", shown(report, "prediction.adapted"), " adapted");
  if (known(linear)) {
    // Its number is said once where it is the answer.
    if (linear !== adapted) words.push(", ", shown(report, "prediction.linear"));
    words.push(" in the linear form");
  }
  if (!known(standard_deviation)) return words;
  words.push(" (± ", shown(report, "prediction.standard_deviation"));
  if (interval) {
    words.push(
      `; ${percent(interval.coverage)}: `,
      shown(report, "prediction.interval.lower"),
      " to ",
      shown(report, "prediction.interval.upper"),
    );
  }
  return [...words, ")"];
}

export function showWords(report) {
  const answers = [
    ["Does it help?", "when", report.when && whenWords(report)],
    ["How far?", "how_far", report.how_far && howFarWords(report)],
    ["Which blocks?", "which", whereWords(report)],
    ["Prediction", "prediction", predictionWords(report)],
  ];
  put(
    byId("answers"),
    answers
      .filter(([, , words]) => words)
      .map(([name, key, words]) =>
        element("div", {}, element("dt", {}, name), element("dd", { "data-answer": key }, ...words)),
      ),
  );
}

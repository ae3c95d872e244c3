// Policies: what the form starts from, and what the report says that decided.

import { byId, put } from "./elements.js";
import { inLines } from "./json.js";
import { state } from "./state.js";

const NOTES = {
  default:
    "The first MLP matrices of the last layers, updated by an average over up to 64 steps. " +
    "Leave-one-out errors choose the number of layers and weigh the steps; the linearised model answers.",
  paper:
    "The value heads of the last four layers, all of them, updated by steps in the model. " +
    "Evidence chooses the number of steps.",
};

/** What a policy has in place of an override, as a field of the form would say it. */
const VALUES = {
  blocks: ({ blocks }) => blocks,
  select: ({ selection }) => selection.rule,
  budget: ({ selection }) => selection.budget,
  seed: ({ selection, shots }) => selection.seed ?? shots.seed,
  horizon: ({ horizon }) => horizon.rule,
  horizons: ({ horizons }) => candidates(horizons),
  step_scale: ({ step_scale }) => step_scale,
  dynamics: ({ dynamics }) => dynamics,
  coverage: ({ coverage }) => coverage,
  confidence: ({ classes }) => classes.confidence,
  adjoint: ({ adjoint }) => adjoint,
  residuals: ({ residuals }) => residuals.rule,
  orders: ({ residuals }) => residuals.orders,
  shots: ({ shots }) => shots.most ?? "as many as fit",
};

/** `0..30` if no number is missing between the ends, else all of them. */
function candidates(horizons) {
  const whole = horizons.every((steps, index) => steps === horizons[0] + index);
  return whole && horizons.length > 2 ? `${horizons[0]}..${horizons.at(-1)}` : horizons.join(",");
}

/** Shows in every empty override what the chosen policy has there. */
export function describePolicy() {
  const name = byId("policy").value;
  const policy = state.policies[name];
  put(byId("policy-hint"), NOTES[name] ?? "");
  for (const input of byId("overrides").querySelectorAll("[data-option]")) {
    const value = (policy && VALUES[input.dataset.option](policy)) ?? "";
    if (input.options) {
      const text = value === "" ? "as the policy has it" : `${value}, as the policy has it`;
      if (input.options[0].text !== text) input.options[0].text = text;
    } else input.placeholder = value;
  }
}

/** The fields in which a policy differs from another one, but for the name. */
const differences = (policy, other) =>
  Object.keys(policy).filter(
    (key) => key !== "name" && JSON.stringify(policy[key]) !== JSON.stringify(other[key]),
  );

/** `default`, or how a policy differs from the one that was started from. */
function policyText(policy, start) {
  const from = { default: "the default", paper: "the paper’s" }[start];
  if (state.policies[policy.name] || !from || !state.policies[start]) return policy.name;
  return `${policy.name}, differs from ${from} in: ${differences(policy, state.policies[start]).join(", ")}`;
}

/** Says which policy decided, and shows it whole. */
export function showPolicy({ policy }, json, start) {
  byId("policy-answer").hidden = !policy;
  put(byId("policy-status"));
  if (!policy) return;
  put(byId("policy-line"), `Policy: ${policyText(policy, start)}`);
  put(byId("policy-text"), inLines(json));
}

export async function copyPolicy() {
  const text = byId("policy-text");
  try {
    await navigator.clipboard.writeText(text.textContent);
    put(byId("policy-status"), "The policy was copied.");
  } catch {
    // Without a clipboard it is marked, ready to be copied by hand.
    getSelection().selectAllChildren(text);
    put(byId("policy-status"), "The policy could not be copied by itself; it is selected.");
  }
}

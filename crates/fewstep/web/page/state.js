// What the page remembers.

/** What this page remembers: the last answer, what it was asked for, and what is under way. */
export const state = {
  report: null,
  text: "",
  answered: null,
  underWay: null,
  /** The name of the policy that the last answer started from. */
  start: null,
  models: [],
  policies: {},
  labels: [],
  steps: null,
  width: 0,
};

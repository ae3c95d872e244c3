// What the page remembers.

/** What this page remembers: the answers, the one that is shown, what it was asked for, and what is under way. */
export const state = {
  report: null,
  /** What came of every query: a report and its text, or what is wrong. */
  answers: [],
  text: "",
  answered: null,
  underWay: null,
  /** The name of the policy that the last answer started from. */
  start: null,
  models: [],
  policies: {},
  labels: [],
  queries: [],
  steps: null,
  width: 0,
};

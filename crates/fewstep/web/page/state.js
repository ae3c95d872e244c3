// What the page remembers.

/** What this page remembers: the last answer, what it was asked for, and what is under way. */
export const state = {
  report: null,
  text: "",
  answered: null,
  underWay: null,
  models: [],
  labels: [],
  steps: null,
  width: 0,
};

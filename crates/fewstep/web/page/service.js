// Requests to the service, and what becomes of its answers.

import { address, keepAddress } from "./address.js";
import { byId, element, put } from "./elements.js";
import { changed, chooseModel, readForm } from "./form.js";
import { member } from "./json.js";
import { clearProblems, problemOf, say, showProblems } from "./problems.js";
import { showAnswers } from "./report.js";
import { state } from "./state.js";
import { isRecord, isText, parsed } from "./tasks.js";

/** Headers with the token, which lives in its field and nowhere else. */
function headers(more) {
  const token = byId("token").value.trim();
  return { ...more, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
}

const usableToken = () => /^[\x21-\x7e]*$/.test(byId("token").value.trim());

function busy(controller) {
  state.underWay = controller;
  byId("stop").hidden = !controller;
  byId("answer").setAttribute("aria-busy", controller ? "true" : "false");
}

/** Asks the service; what is typed meanwhile stays, and the last answer does until the next one is there. */
export async function run() {
  state.underWay?.abort();
  const { asked, problems } = readForm();
  if (!usableToken()) {
    problems.push({ field: "token", detail: "a token has no blanks and no letters beyond ASCII" });
  }
  if (problems.length > 0) return showProblems(problems);
  clearProblems();
  const controller = new AbortController();
  busy(controller);
  say("Working …");
  const answer = await ask(asked, controller.signal);
  if (controller.signal.aborted) return;
  busy(null);
  if (answer.problem) showProblems([answer.problem]);
  else take(asked, answer.text);
}

/** The text of an answer, or the problem in its place. */
async function ask({ action, task, options }, signal) {
  // The whole explanation is wanted, which an update from the cache does not have; what is kept of classes
  // does, and several queries then observe their examples once.
  const kept = task.queries && !task.labels?.some(({ value }) => value !== undefined);
  const whole = { full: true, ...(action === "predict" && !kept ? { reuse: false } : {}) };
  const body = JSON.stringify({ task, ...options, ...whole });
  const request = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body, signal };
  try {
    const response = await fetch(`/v1/${action}`, request);
    return response.ok ? { text: await response.text() } : { problem: await problemOf(response) };
  } catch {
    const detail = "Is it still running? What you typed is kept";
    return { problem: { title: "The service does not answer", detail } };
  }
}

/** What came of every query, a line each: a report as the service wrote it, or what is wrong. */
const answersOf = (text) =>
  text
    .trim()
    .split("\n")
    .map((line) => {
      const found = parsed(line);
      if (isRecord(found?.report)) return { report: found.report, text: member(line, "report") };
      return { problem: isText(found?.error) ? found.error : "the answer holds no report" };
    });

/** Shows an answer. */
function take(asked, text) {
  const answers = answersOf(text);
  if (!answers.some(({ report }) => report)) {
    return showProblems([{ title: "The answer cannot be read", detail: answers[0].problem }]);
  }
  Object.assign(state, {
    answers,
    answered: JSON.stringify(asked),
    start: asked.options.policy,
    labels: asked.task.labels ?? [],
    queries: asked.task.queries ?? [asked.task.query],
  });
  showAnswers();
  keepAddress(address(asked));
}

export function stop() {
  state.underWay?.abort();
  busy(null);
  say("Stopped.");
  byId("run").focus();
}

/** The models of the service; without them the form asks for none by name. */
export async function fetchModels() {
  try {
    const response = await fetch("/v1/models", { headers: usableToken() ? headers() : {} });
    if (response.status === 401) return put(byId("model-note"), "The service asks for a token: see Access.");
    if (!response.ok) return put(byId("model-note"), (await problemOf(response)).detail);
    const { models, policies } = await response.json();
    Object.assign(state, { models, policies });
    const wanted = byId("model").value;
    put(
      byId("model"),
      state.models.map(({ name }) => element("option", { value: name }, name)),
    );
    chooseModel(wanted);
    changed();
  } catch {
    put(byId("model-note"), "The service does not say which models it has.");
  }
}

// The page: a form that becomes a request, and a report that becomes words and figures.
//
// In: what a person types, and the service's reports. Out: nothing but what stands in a report; all
// that is computed here is where things are drawn. Text from outside becomes text nodes, never markup.

import { copyAddress, takeAddress } from "./page/address.js";
import { byId, element, put } from "./page/elements.js";
import { changed, describeModel, form, setPolicy, setTask } from "./page/form.js";
import { copyPolicy } from "./page/policy.js";
import { clearProblems, say } from "./page/problems.js";
import { READY_MADE } from "./page/ready-made.js";
import { goToAnswer, prepareWalk, redrawIfWider, showChosen, walk } from "./page/report.js";
import { appendRow } from "./page/rows.js";
import { saveReport } from "./page/saving.js";
import { fetchModels, run, stop } from "./page/service.js";
import { pasteIntoCell, takePaste } from "./page/several.js";
import { state } from "./page/state.js";

/** Enter runs, as in a field of one line; with Shift it breaks the line. */
function onKey(event) {
  const typing = event.target.matches("textarea") && event.target.id !== "paste";
  const plainEnter = event.key === "Enter" && !event.shiftKey && !event.isComposing;
  if (plainEnter && (typing || event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
  }
}

function listen() {
  const click = (id, act) => byId(id).addEventListener("click", act);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  form.addEventListener("input", changed);
  form.addEventListener("keydown", onKey);
  byId("examples").addEventListener("paste", pasteIntoCell);
  click("stop", stop);
  click("load", loadReadyMade);
  byId("ready-made").addEventListener("change", noteReadyMade);
  click("add-example", () => appendRow("examples"));
  click("add-label", () => appendRow("labels"));
  click("add-query", () => appendRow("queries"));
  click("paste-add", () => takePaste(false));
  click("paste-replace", () => takePaste(true));
  click("clear-overrides", clearOverrides);
  click("copy-address", copyAddress);
  click("copy-policy", copyPolicy);
  click("save-report", saveReport);
  click("skip", goToAnswer);
  click("walk-chosen", () => prepareWalk(state.report));
  byId("query-shown").addEventListener("change", showChosen);
  byId("walk-steps").addEventListener("input", walk);
  byId("model").addEventListener("change", describeModel);
  byId("token").addEventListener("change", fetchModels);
  window.addEventListener("hashchange", takeAddress);
  new ResizeObserver(redrawIfWider).observe(byId("figures"));
}

/** The policy as it is, and nothing changed of it. */
function clearOverrides() {
  setPolicy(byId("policy").value);
  changed();
}

const chosenReadyMade = () => READY_MADE[byId("ready-made").selectedIndex];

const noteReadyMade = () => put(byId("ready-made-note"), chosenReadyMade().note);

function loadReadyMade() {
  clearProblems();
  const { task, policy } = chosenReadyMade();
  setTask(task);
  setPolicy(policy);
  say(`${task.id} is in the form, with the policy ${policy}.`);
  changed();
}

put(
  byId("ready-made"),
  READY_MADE.map(({ title }) => element("option", {}, title)),
);
noteReadyMade();
listen();
setTask(READY_MADE[0].task);
takeAddress();
changed();
fetchModels();

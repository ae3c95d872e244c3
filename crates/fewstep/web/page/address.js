// The address holds the task and its options. Nothing in it is run.

import { byId, put } from "./elements.js";
import { changed, form, readForm, readTask, setOptions, setTask } from "./form.js";
import { say, showProblems } from "./problems.js";
import { hasOnly, isTask, isText } from "./tasks.js";

/** The longest fragment, in characters, that is written or read. */
const LONGEST_FRAGMENT = 32_768;

const PREFIX = "#task=";

function areOptions(options) {
  const names = [...form.querySelectorAll("[data-option]")].map((input) => input.dataset.option);
  return (
    hasOnly(options, names) &&
    Object.values(options).every((value) => isText(value) || typeof value === "number")
  );
}

/** The fragment of a task and its options. */
export function fragmentOf(asked) {
  const bytes = new TextEncoder().encode(JSON.stringify(asked));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return PREFIX + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** What a fragment holds, or in `problem` why that cannot be said; `null` if it is not about a task. */
export function readFragment(fragment) {
  if (!fragment.startsWith(PREFIX)) return null;
  if (fragment.length > LONGEST_FRAGMENT) {
    return { problem: `it has ${fragment.length} characters, and at most ${LONGEST_FRAGMENT} are read` };
  }
  let asked;
  try {
    const binary = atob(fragment.slice(PREFIX.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (sign) => sign.charCodeAt(0));
    asked = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return { problem: "it is cut off or damaged" };
  }
  const fits =
    hasOnly(asked, ["action", "task", "options"]) &&
    ["predict", "decide"].includes(asked.action) &&
    isTask(asked.task) &&
    areOptions(asked.options);
  return fits ? { asked } : { problem: "what it holds is not a task with options" };
}

/** A task as one text, whatever the order of its keys. */
const plain = ({ id, template, separator = "\n", labels = [], examples, query, queries = [query] }) =>
  JSON.stringify([
    id,
    template,
    separator,
    labels.map((label) => (isText(label) ? [label, null] : [label.text, label.value ?? null])),
    examples.map(({ x, y }) => [x, y]),
    queries.map(({ x, y = "" }) => [x, y]),
  ]);

/** Fills the form from the address. Nothing is run: that is for the reader to ask for. */
export function takeAddress() {
  const found = readFragment(location.hash);
  const notice = byId("address-problem");
  notice.hidden = !found?.problem;
  put(
    notice,
    found?.problem
      ? `The address holds no task that can be read: ${found.problem}. The form is as it was.`
      : "",
  );
  if (!found?.asked) return false;
  setTask(found.asked.task);
  setOptions(found.asked.action, found.asked.options);
  // A text field cannot hold every character: a lone carriage return becomes a line break.
  const kept = plain(readTask([])) === plain(found.asked.task);
  if (!kept) {
    notice.hidden = false;
    put(
      notice,
      "The address holds characters that this form cannot show; look at the texts before you run the task.",
    );
  }
  say("The task of the address is in the form.");
  changed();
  return true;
}

/** The address of a task and its options, or null if it would be too long. */
export function address(asked) {
  const fragment = fragmentOf(asked);
  return fragment.length > LONGEST_FRAGMENT ? null : location.origin + location.pathname + fragment;
}

/** Puts an address into the address bar, without a new entry in the history. */
export const keepAddress = (here) => here && history.replaceState(null, "", here);

export async function copyAddress() {
  const { asked, problems } = readForm();
  if (problems.length > 0) return showProblems(problems);
  const here = address(asked);
  const status = byId("share-status");
  byId("address-box").hidden = true;
  if (!here)
    return put(
      status,
      `The task is too long for an address, which holds ${LONGEST_FRAGMENT} characters here.`,
    );
  keepAddress(here);
  try {
    await navigator.clipboard.writeText(here);
    put(status, "The address was copied. It holds the task and its options, not the token.");
  } catch {
    // Without a clipboard the address is shown, ready to be copied by hand.
    put(status, "The address could not be copied by itself; here it is.");
    byId("address-box").hidden = false;
    byId("address").value = here;
    byId("address").select();
  }
}

// Tasks and their examples as text: what is one, and how lines become some.

/** Text for a field of one line, in which a line break cannot stand by itself. */
export const escaped = (text) =>
  text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t").replaceAll("\r", "\\r");

/** What such a field stands for; a backslash before anything else is a backslash. */
export const unescaped = (text) =>
  text.replace(/\\([ntr\\])/g, (_, sign) => ({ n: "\n", t: "\t", r: "\r", "\\": "\\" })[sign]);

/** The longest text and the most lines that are taken at once. */
export const LONGEST_PASTE = 1 << 20;
const MOST_LINES = 2000;

/** An example from a line: JSON, or x and y with a tab between them, or the template, or a comma. */
export function readLine(text, template) {
  if (text.startsWith("{")) {
    const found = parsed(text);
    if (typeof found?.x === "string" && typeof found?.y === "string") return { x: found.x, y: found.y };
  }
  const split = (place, length) =>
    place > 0 ? { x: text.slice(0, place).trim(), y: text.slice(place + length).trim() } : null;
  return split(text.lastIndexOf("\t"), 1) ?? byTemplate(text, template) ?? split(text.lastIndexOf(","), 1);
}

/** What `{x}` and `{y}` stand for in a line that looks like the template. */
function byTemplate(text, template) {
  const parts = template.split(/\{[xy]\}/);
  if (parts.length !== 3 || parts[1] === "") return null;
  const [before, between, behind] = parts;
  const end = text.length - behind.length;
  const place = text.lastIndexOf(between, end - between.length);
  const fits = text.startsWith(before) && text.endsWith(behind) && place > before.length;
  return fits ? { x: text.slice(before.length, place), y: text.slice(place + between.length, end) } : null;
}

/** What a text holds as JSON, or undefined. */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The examples in a text, or what is wrong with it. */
export function readLines(text, template) {
  if (text.length > LONGEST_PASTE) {
    return { problem: `that is too long: at most ${LONGEST_PASTE} characters are taken at once` };
  }
  const lines = text.split(/\r\n|\r|\n/).map((content, index) => ({ content, place: index + 1 }));
  const filled = lines.filter(({ content }) => content.trim() !== "");
  if (filled.length === 0) return { problem: "there is no line to read" };
  if (filled.length > MOST_LINES) {
    return { problem: `those are ${filled.length} lines; at most ${MOST_LINES} are taken at once` };
  }
  const examples = filled.map(({ content }) => readLine(content, template));
  const wrong = examples.indexOf(null);
  if (wrong >= 0) return { problem: `line ${filled[wrong].place} has no x and y: write x, a tab, y` };
  return { examples };
}

export const isText = (value) => typeof value === "string";

export const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

export const hasOnly = (value, keys) =>
  isRecord(value) && Object.keys(value).every((key) => keys.includes(key));

/** Whether something has the shape of a task; what it says is the service's to judge. */
export function isTask(task) {
  const isList = (value, one) => Array.isArray(value) && value.length <= MOST_LINES && value.every(one);
  const isQuery = (query) =>
    hasOnly(query, ["x", "y"]) && isText(query.x) && (query.y === undefined || isText(query.y));
  const isLabel = (label) =>
    isText(label) ||
    (hasOnly(label, ["text", "value"]) &&
      isText(label.text) &&
      (label.value === undefined || typeof label.value === "number"));
  return (
    hasOnly(task, ["id", "template", "separator", "labels", "examples", "query", "queries"]) &&
    isText(task.id) &&
    isText(task.template) &&
    (task.separator === undefined || isText(task.separator)) &&
    (task.labels === undefined || isList(task.labels, isLabel)) &&
    isList(
      task.examples,
      (example) => hasOnly(example, ["x", "y"]) && isText(example.x) && isText(example.y),
    ) &&
    (task.queries === undefined
      ? isQuery(task.query)
      : task.query === undefined && task.queries.length > 0 && isList(task.queries, isQuery))
  );
}

// JSON as text: what JavaScript reads and writes again need not be the same, digit by digit.

/** An object as the service wrote it, digit by digit. */
export function member(body, name) {
  const start = body.indexOf("{", body.indexOf(`"${name}":`));
  let depth = 0;
  for (const { 0: sign, index } of body.slice(start).matchAll(/"(?:[^"\\]+|\\.)*"|[{}]/g)) {
    if (sign === "{") depth += 1;
    if (sign === "}") depth -= 1;
    if (depth === 0) return body.slice(start, start + index + 1);
  }
  return "";
}

/** An object of JSON with a line for each of its members; not a digit of it changes. */
export function inLines(json) {
  let depth = 0;
  return json.replaceAll(/"(?:[^"\\]+|\\.)*"|[{}[\],:]/g, (sign) => {
    if (sign === "{" || sign === "[") return (depth += 1) === 1 ? "{\n  " : sign;
    if (sign === "}" || sign === "]") return (depth -= 1) === 0 ? "\n}" : sign;
    if (sign === ",") return depth === 1 ? ",\n  " : ", ";
    return sign === ":" ? ": " : sign;
  });
}

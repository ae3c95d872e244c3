// Elements of the page and of its figures. Text from outside becomes text nodes, never markup.

import { at, number } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat());
  return node;
}

/** An element of the page. */
export function element(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An element of a figure. */
export function shape(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** A number of the report: three digits to read, all of them in its title. */
export function shown(report, path) {
  const value = at(report, path);
  const known = typeof value === "number";
  const title = known ? String(value) : "not a finite number";
  return element(
    "data",
    { value: known ? String(value) : "", title, "data-path": path },
    number(value ?? NaN),
  );
}

/** Replaces what an element holds. */
export function put(node, ...children) {
  node.replaceChildren(...children.flat());
}

// A tile with the first letter of a name, in one of a few hues that the name chooses: the icon of what has none.

import { h } from "./dom.js";

const HUES = 6;

/**
 * Returns the number of a name's hue, 0 to 5; the same for the same name.
 *
 * @param {string} name
 */
export function hueOf(name) {
  return [...name].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) || 0)) % 65_521, 7) % HUES;
}

/**
 * Returns the tile; decoration only.
 *
 * @param {string} name
 */
export function initials(name) {
  const first = /[\p{Letter}\p{Number}]/u.exec(name)?.[0] || "·";
  return h("span", { class: `mark initial hue-${hueOf(name)}`, "aria-hidden": "true" }, first.toUpperCase());
}

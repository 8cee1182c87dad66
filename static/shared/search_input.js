// The input of a search within a list, with the icon before it.

import { h, icon } from "./dom.js";

/**
 * Returns { element, input }.
 *
 * @param {string} label
 * @param {string} [placeholder]
 */
export function searchInput(label, placeholder = label) {
  const input = h("input", {
    type: "search",
    class: "search",
    placeholder,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
  });
  return { element: h("div", { class: "list-search" }, icon("search"), input), input };
}

// A card of the account pages and of a website's settings.

import { h } from "../shared/dom.js";

/**
 * Returns a section with a heading.
 *
 * @param {string} title
 * @param {...Child} content
 */
export function sectionCard(title, ...content) {
  return h("section", { class: "card roomy" }, h("h2", null, title), content);
}

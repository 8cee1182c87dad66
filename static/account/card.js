// A card of the account area and of a website's settings: a heading and what stands under it.

import { h } from "../shared/dom.js";

/** A section with a heading. */
export function sectionCard(title, ...content) {
  return h("section", { class: "card roomy" }, h("h2", null, title), content);
}

// The filters that a share link fixes, as chips without a button to remove them.

import { h } from "./dom.js";
import { filterText } from "./filter_words.js";
import { texts } from "./messages.js";

const t = await texts("shared");

/**
 * Returns the nodes of a chip from those of a text: its values stand out.
 *
 * @param {(string | Node)[]} pieces
 */
export function chipWords(pieces) {
  return pieces.map((piece) => (typeof piece === "string" ? h("span", { class: "soft" }, piece) : piece));
}

/**
 * @param {Record<string, string[]>} [filters]
 */
export function fixedChips(filters = {}) {
  return Object.entries(filters).map(([name, values]) => {
    const words = filterText(name, values);
    const shown = chipWords(t.rich("always", { filter: h("bdi", null, words) }));
    const title = t("filter_of_link", { filter: words });
    return h("span", { class: "chip fixed", title }, h("span", { class: "chip-text" }, shown));
  });
}

// The filters of the view as chips in words, and buttons that open the dialogs of filters and segments.

import { isFiltered, withKey, withoutFilters } from "./view_state.js";
import { openWhenLoaded } from "./dialog.js";
import { h, icon, refill } from "./dom.js";
import { filterParts, filterText, filterValueNode, splitKey, valuesByKey } from "./filter_words.js";
import { chipWords, fixedChips } from "./fixed_filters.js";
import { texts } from "./messages.js";
import { takesSaved } from "./saved_filters.js";

const t = await texts("shared");

/**
 * Draws the chips, one for each field and operator.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawFilters(root, board) {
  const view = board.view();
  const { filters, segment } = view;
  const chips = valuesByKey(filters).map(([key, values]) => filterChip(key, values, board));
  const button = (/** @type {string} */ key, /** @type {() => void} */ onclick, /** @type {Child[]} */ ...words) =>
    h("button", { class: "button small add-filter no-print", type: "button", dataset: { key }, onclick }, words);
  const clear = h(
    "button",
    { class: "button small quiet no-print", type: "button", onclick: () => board.go(withoutFilters(view)) },
    t("remove_all"),
  );
  refill(
    root,
    fixedChips(board.site.filters),
    segment ? segmentChip(segment, board) : null,
    chips,
    button("add-filter", () => filterDialog(board), icon("plus"), t("filter")),
    takesSaved(board) ? button("segments", () => segmentsDialog(board), t("segments")) : null,
    isFiltered(view) && chips.length + (segment ? 1 : 0) > 1 ? clear : null,
  );
}

/**
 * Opens the dialog of a filter: a new one, or that of a key of the view.
 *
 * @param {Board} board
 * @param {string | null} [key]
 */
export function filterDialog(board, key = null) {
  return openWhenLoaded(import("./filter_dialog.js"), ({ openFilter }) => openFilter(board, key));
}

/**
 * @param {Board} board
 */
function segmentsDialog(board) {
  return openWhenLoaded(import("./segments_dialog.js"), ({ openSegments }) => openSegments(board));
}

/**
 * @param {string} key
 * @param {string[]} values
 * @param {Board} board
 */
function filterChip(key, values, board) {
  const { goals } = board.saved();
  const { field } = splitKey(key);
  /** @type {HTMLElement[]} */
  const nodes = values.map((value) => h("bdi", null, filterValueNode(field, value, goals)));
  const either = nodes.reduce((first, second) => h("span", null, t.rich("either", { first, second })));
  return chip({
    key: `filter-${key}`,
    words: chipWords(t.rich("filter_sentence", { ...filterParts(key, values, goals), values: either })),
    title: filterText(key, values, goals),
    open: () => filterDialog(board, key),
    remove: () => board.go(withKey(board.view(), key, [])),
  });
}

/**
 * @param {string} id
 * @param {Board} board
 */
function segmentChip(id, board) {
  const { segments, isLoaded } = board.saved();
  const name = segments.find((one) => one.id === id)?.name || (isLoaded ? t("segment_missing") : "…");
  return chip({
    key: "segment",
    words: chipWords(t.rich("segment_named", { name: h("bdi", null, name) })),
    title: t("segment_named", { name }),
    open: () => segmentsDialog(board),
    remove: () => board.go({ ...board.view(), segment: "" }),
  });
}

/**
 * @param {{ key: string, words: Child, title: string, open: () => void, remove: () => void }} options
 */
function chip({ key, words, title, open, remove }) {
  const close = h(
    "button",
    {
      class: "chip-remove no-print",
      type: "button",
      "aria-label": t("remove_filter", { filter: title }),
      dataset: { key },
      onclick: remove,
    },
    icon("close"),
  );
  const shown = h(
    "button",
    { class: "chip-text chip-open", type: "button", title, dataset: { key: `open-${key}` }, onclick: open },
    words,
  );
  const element = h("span", { class: "chip" }, shown, close);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Delete" && event.key !== "Backspace") return;
    event.preventDefault();
    remove();
  });
  return element;
}

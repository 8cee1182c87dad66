// The filters of the view as chips in words, and buttons that open the dialogs of filters and segments.

import { withGoal, withKey, withoutFilters } from "./view_state.js";
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
  const { filters, segment, goal } = view;
  const chips = [
    ...(goal ? [goalChip(goal, board)] : []),
    ...(segment ? [segmentChip(segment, board)] : []),
    ...valuesByKey(filters).map(([key, values]) => filterChip(key, values, board)),
  ];
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
    chips,
    button("add-filter", () => filterDialog(board), icon("plus"), t("filter")),
    takesSaved(board) ? button("segments", () => segmentsDialog(board), t("segments")) : null,
    chips.length > 1 ? clear : null,
  );
}

/**
 * Opens the dialog of a filter: a new one, by a field if one is named, or that of a key of the view.
 *
 * @param {Board} board
 * @param {string | null} [key]
 * @param {string} [field]
 */
export function filterDialog(board, key = null, field = undefined) {
  return openWhenLoaded(import("./filter_dialog.js"), ({ openFilter }) => openFilter(board, key, field));
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
 * Returns the chip of the goal whose conversions the page shows.
 *
 * @param {string} id
 * @param {Board} board
 */
function goalChip(id, board) {
  const { goals, isLoaded } = board.saved();
  const goal = goals[id] || (isLoaded ? t("goal_missing") : "…");
  return chip({
    key: "goal",
    words: chipWords(t.rich("conversions_of", { goal: h("bdi", null, goal) })),
    title: t("conversions_of", { goal }),
    remove: () => board.go(withGoal(board.view(), "")),
  });
}

/**
 * Returns a chip. Without `open` there is nothing to change about it.
 *
 * @param {{ key: string, words: Child, title: string, open?: () => void, remove: () => void }} options
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
  const shown = open
    ? h(
        "button",
        { class: "chip-text chip-open", type: "button", title, dataset: { key: `open-${key}` }, onclick: open },
        words,
      )
    : h("span", { class: "chip-text", title }, words);
  const element = h("span", { class: "chip" }, shown, close);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Delete" && event.key !== "Backspace") return;
    event.preventDefault();
    remove();
  });
  return element;
}

// The keys of a website's pages, and the lists of them. They rest while a dialog is open or something is being typed, except
// where the platform has the same key for the same thing (Esc closes a dialog).

import { RANGES, shiftRange, spanOf, withRange } from "./view_state.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";

const SHORTCUTS = [
  ["1 to 5", "Today, 7 days, 30 days, 90 days, 12 months"],
  ["← →", "Earlier and later; on the chart, from one bucket to the next"],
  ["f", "Add a filter"],
  ["/", "Search in all pages; in an open list, its search"],
  ["Esc", "Close what is open; else take away the last filter"],
  ["?", "This list"],
];

/** Starts listening; gives a function that ends it. `more`: what other keys do, by the key. */
export function listenForShortcuts(board, more) {
  const press = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = actionFor(event, board, more);
    if (!act) return;
    event.preventDefault();
    act();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

function actionFor(event, board, more) {
  const { key, target } = event;
  const isTyping = target.matches?.("input, select, textarea, [contenteditable]");
  const dialog = document.querySelector("dialog[open]");
  if (key === "/" && dialog && !isTyping) {
    const search = dialog.querySelector("input[type='search']");
    return search && (() => search.focus());
  }
  if (dialog || isTyping) return null;
  const view = board.view();
  if (/^[1-5]$/.test(key)) return () => board.go(withRange(view, RANGES[key - 1].name));
  if (key === "ArrowLeft") return () => board.go(shiftRange(view, -1));
  if (key === "ArrowRight") return spanOf(view).to < spanOf(view).today ? () => board.go(shiftRange(view, 1)) : null;
  if (key === "Escape" && view.filters.length) return () => board.go({ ...view, filters: view.filters.slice(0, -1) });
  return Object.hasOwn(more, key) ? more[key] : null;
}

/** Lists the dashboard's keys, or others: [[keys, what they do], ...]. */
export function shortcutsDialog(rows = SHORTCUTS) {
  openDialog({
    title: "Keys",
    body: [
      h(
        "table",
        { class: "table keys-table" },
        h(
          "tbody",
          null,
          rows.map(([key, does]) =>
            h(
              "tr",
              null,
              h(
                "th",
                { scope: "row" },
                key.split(" ").map((one) => (one === "to" ? " to " : h("kbd", null, one))),
              ),
              h("td", null, does),
            ),
          ),
        ),
      ),
      h(
        "p",
        { class: "soft" },
        "Everything can be reached with Tab and Enter, too. Days on the chart can be clicked, or dragged over, to look closer.",
      ),
    ],
  });
}

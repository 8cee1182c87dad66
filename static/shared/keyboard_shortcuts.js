// Keyboard shortcuts of a website's pages, and the dialog that lists them. They are off while a dialog is open or text is
// being typed, except where the browser has the same key for the same action (Esc closes a dialog).

import { QUICK, isFiltered, shiftRange, spanOf, withPeriod, withoutLastFilter } from "./view_state.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("shared");

/**
 * Starts listening; returns a function that stops it. `more`: actions of other keys, by key.
 *
 * @param {Board} board
 * @param {Record<string, () => void>} more
 */
export function listenForShortcuts(board, more) {
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = actionFor(event, board, more);
    if (!act) return;
    event.preventDefault();
    act();
  };
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

/**
 * @param {KeyboardEvent} event
 * @param {Board} board
 * @param {Record<string, () => void>} more
 */
function actionFor({ key, target }, board, more) {
  const isTyping = target instanceof Element && target.matches("input, select, textarea, [contenteditable]");
  const dialog = document.querySelector("dialog[open]");
  if (key === "/" && dialog && !isTyping) {
    const search = /** @type {HTMLElement | null} */ (dialog.querySelector("input[type='search']"));
    return search && (() => search.focus());
  }
  if (dialog || isTyping) return null;
  const view = board.view();
  if (/^[1-5]$/.test(key)) return () => board.go(withPeriod(view, QUICK[Number(key) - 1].name));
  if (key === "ArrowLeft") return () => board.go(shiftRange(view, -1));
  if (key === "ArrowRight") return spanOf(view).to < spanOf(view).today ? () => board.go(shiftRange(view, 1)) : null;
  if (key === "Escape" && isFiltered(view)) return () => board.go(withoutLastFilter(view));
  return Object.hasOwn(more, key) ? more[key] : null;
}

/**
 * Opens the list of shortcuts. `keys` are names of keys with spaces between them, or nodes.
 *
 * @param {[keys: Child, does: string][]} rows
 */
export function shortcutsDialog(rows) {
  const row = (/** @type {[keys: Child, does: string]} */ [keys, does]) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, typeof keys === "string" ? keys.split(" ").map((one) => h("kbd", null, one)) : keys),
      h("td", null, does),
    );
  openDialog({
    title: t("keyboard_shortcuts"),
    body: [
      h("table", { class: "table keys-table" }, h("tbody", null, rows.map(row))),
      h("p", { class: "soft" }, t("keyboard_hint")),
    ],
  });
}

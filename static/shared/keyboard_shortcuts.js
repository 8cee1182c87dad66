// Keyboard shortcuts of a website's pages (shortcuts_dialog.js lists them). They are off while a dialog is open or text is
// being typed, except where the browser has the same key for the same action (Esc closes a dialog).

import { QUICK, isFiltered, shiftRange, spanOf, withPeriod, withoutLastFilter } from "./view_state.js";
import { texts } from "./messages.js";

const t = await texts("shared");
const isMac = /Mac|iP(hone|ad|od)/.test(navigator.platform);
/** The keys that open the search over everything, as they are written on the keyboard. */
export const PALETTE_KEYS = isMac ? "⌘ K" : t("key_ctrl", { key: "K" });

/**
 * Returns whether a key event is of PALETTE_KEYS. Ctrl K deletes a line of text on a Mac.
 *
 * @param {KeyboardEvent} event
 */
export function isPaletteKey({ key, ctrlKey, metaKey, altKey, shiftKey }) {
  return key.toLowerCase() === "k" && !altKey && !shiftKey && (isMac ? metaKey && !ctrlKey : ctrlKey !== metaKey);
}

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
  if (key === "Escape" && (isFiltered(view) || view.goal)) return () => board.go(withoutLastFilter(view));
  return Object.hasOwn(more, key) ? more[key] : null;
}

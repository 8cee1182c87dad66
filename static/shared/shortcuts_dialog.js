// The dialog that lists the keyboard shortcuts.

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { PALETTE_KEYS } from "./keyboard_shortcuts.js";
import { texts } from "./messages.js";

const t = await texts("shared");

/**
 * Opens the list of a page's shortcuts.
 *
 * @param {PageDefinition} page
 * @param {boolean} isFramed  whether the page has the frame, with the search over everything
 */
export function shortcutsDialog(page, isFramed) {
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
      h("table", { class: "table keys-table" }, h("tbody", null, shortcutRows(page, isFramed).map(row))),
      h("p", { class: "soft" }, t("keyboard_hint")),
    ],
  });
}

/**
 * Returns [keys, what they do]; keys are names with spaces between them, or nodes.
 *
 * @param {PageDefinition} page
 * @param {boolean} isFramed  whether the page has the frame, with the search over everything
 * @returns {[keys: Child, does: string][]}
 */
function shortcutRows(page, isFramed) {
  const hasFilters = !page.fields || page.fields.length > 0;
  return [
    [t.rich("key_to_key", { first: h("kbd", null, "1"), last: h("kbd", null, "5") }), t("keys_periods")],
    ["← →", t("keys_arrows")],
    .../** @type {[string, string][]} */ (isFramed ? [[PALETTE_KEYS, t("key_palette")]] : []),
    .../** @type {[string, string][]} */ (hasFilters ? [["f", t("add_a_filter")]] : []),
    ...(page.shortcuts || []).map(([key, words]) => /** @type {[string, string]} */ ([key, words])),
    ["Esc", hasFilters ? t("key_escape_filter") : t("key_escape")],
    ["?", t("key_help")],
  ];
}

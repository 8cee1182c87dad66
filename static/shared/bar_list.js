// Lists of values with a bar behind each.

import { h, visuallyHidden } from "./dom.js";
import { number, percent } from "./formats.js";
import { texts } from "./messages.js";

const t = await texts("shared");
// What is counted, by its number, for screen readers.
/** @type {Record<string, (count: number) => string>} */
export const UNITS = {
  visitors: (count) => t("unit_visitors", { count }),
  visits: (count) => t("unit_visits", { count }),
  events: (count) => t("unit_events", { count }),
  conversions: (count) => t("unit_conversions", { count }),
};

/**
 * Returns a second figure of a row, beside its count.
 *
 * @param {number} count
 * @param {(count: number) => string} unit
 */
export function asideFigure(count, unit) {
  return h("span", { class: "bar-aside" }, number(count), visuallyHidden(` ${unit(count)}, `));
}

/**
 * Returns a list of bars. `rows`: [{ key, label (nodes), text, count, share (of all, 0 to 1, or null), bar (0 to 1),
 * pressed, more (a node beside the figures), changed (a node with the change of the count), link (a node at the end of the row) }]. `choose(row)` is called on a click; null where rows are not buttons.
 * `unit(count)` names what is counted.
 *
 * @param {BarRow[]} rows
 * @param {{ choose: ((row: BarRow) => void) | null, unit: (count: number) => string }} options
 */
export function barList(rows, { choose, unit }) {
  return h(
    "ol",
    { class: "bars" },
    rows.map((row) => h("li", null, bar(row, choose, unit), row.link || null)),
  );
}

/**
 * @param {BarRow} row
 * @param {((row: BarRow) => void) | null} choose
 * @param {(count: number) => string} unit
 */
function bar(row, choose, unit) {
  return h(
    choose ? "button" : "div",
    {
      class: "bar",
      type: choose ? "button" : null,
      dataset: { key: row.key },
      "aria-pressed": row.pressed === undefined ? null : String(row.pressed),
      title: row.text,
      style: { "--bar": String(row.bar) },
      onclick: choose ? () => choose(row) : null,
    },
    h("span", { class: row.value === "" ? "bar-label soft" : "bar-label" }, h("bdi", null, row.label)),
    row.more || null,
    row.changed || null,
    row.share === null ? null : h("span", { class: "bar-share" }, percent(100 * row.share)),
    row.count === null
      ? null
      : h("span", { class: "bar-count" }, number(row.count), visuallyHidden(` ${unit(row.count)}`)),
  );
}

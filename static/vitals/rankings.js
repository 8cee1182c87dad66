// Rankings of a metric: pages or devices with p75, its rating, and the share of poor page loads, in the server's order:
// the most poor page loads first. A click on a row filters by it.

import { hasFilter } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { h, visuallyHidden } from "../shared/dom.js";
import { percent, shortNumber } from "../shared/formats.js";
import { fieldName, fieldTitle, isIn, valueNode, valueText } from "../shared/fields.js";
import { addTooltip } from "../shared/tooltip.js";
import { listDialog } from "../shared/list_dialog.js";
import { texts } from "../shared/messages.js";
import { ratingNode, shareBar } from "./metric_cards.js";
import { hasFewSamples, rating, formatMetric } from "./web_vitals.js";

const t = await texts("vitals");

// The read API's maximum of `limit`.
const MAX_ROWS = 1000;

/**
 * Returns the rows of a field. `metric`: one of METRICS; `choose(row)` is called on a click, default: filter by the row.
 *
 * @param {string} field
 * @param {VitalsRow[]} rows
 * @param {Metric} metric
 * @param {Threshold} threshold
 * @param {Board} board
 * @param {(row: VitalsRow) => void} [choose]
 */
export function rankedList(field, rows, metric, threshold, board, choose = (row) => board.toggle(field, row.value)) {
  const measured = rows.filter((row) => row.samples);
  if (!measured.length) {
    return h("p", { class: "nothing soft" }, t("no_values", { metric: metric.short }));
  }
  return h(
    "ol",
    { class: "ranked" },
    measured.map((row) => h("li", null, rowOf(field, row, metric, threshold, board, choose))),
  );
}

/**
 * @param {string} field
 * @param {VitalsRow} row
 * @param {Metric} metric
 * @param {Threshold} threshold
 * @param {Board} board
 * @param {(row: VitalsRow) => void} choose
 */
function rowOf(field, row, metric, threshold, board, choose) {
  const rated = rating(row.p75, threshold) || "good";
  const isOn = hasFilter(board.view(), field, row.value);
  const button = h(
    "button",
    {
      class: "ranked-row",
      type: "button",
      "aria-pressed": String(isOn),
      dataset: { key: `${field}=${row.value}`, value: row.value, p75: String(row.p75) },
      onclick: () => choose(row),
    },
    h("span", { class: "ranked-name" }, h("bdi", null, valueNode(field, row.value))),
    shareBar(row),
    h("span", { class: "ranked-poor" }, t("share_poor", { share: percent(row.poor) })),
    h(
      "span",
      { class: "ranked-samples soft" },
      t("of_samples", { samples: shortNumber(row.samples) }),
      hasFewSamples(row.samples) ? visuallyHidden(`, ${t("few")}`) : null,
    ),
    h("span", { class: "ranked-p75" }, formatMetric(metric.name, row.p75), visuallyHidden(` ${t("at_p75")}`)),
    ratingNode(rated),
  );
  addTooltip(button, () => hintOf(field, row, metric, isOn));
  return button;
}

/**
 * @param {string} field
 * @param {VitalsRow} row
 * @param {{ name: string }} options
 * @param {boolean} isOn
 */
function hintOf(field, row, { name }, isOn) {
  const value = (/** @type {number | null} */ of) => formatMetric(name, of);
  return [
    h("strong", { class: "wrap" }, valueText(field, row.value)),
    h("p", null, t("percentiles", { p50: value(row.p50), p75: value(row.p75), p95: value(row.p95) })),
    h(
      "p",
      null,
      t("ratings_of", {
        count: row.samples,
        ...{ good: percent(row.good), medium: percent(row.needs_improvement), poor: percent(row.poor) },
      }),
    ),
    hasFewSamples(row.samples) ? h("p", null, t("few_samples")) : null,
    h("p", { class: "soft" }, isOn ? t("click_removes") : t("click_filters", { field: fieldName(field) })),
  ];
}

/**
 * Opens the dialog with all values of a field.
 *
 * @param {string} field
 * @param {Metric} metric
 * @param {Threshold} threshold
 * @param {Board} board
 */
export function rankedDialog(field, metric, threshold, board) {
  const dialog = listDialog({
    title: t("list_by", { list: fieldTitle(field), metric: metric.short }),
    load: async () => {
      const answer = await board.request("vitals", { by: field, metric: metric.name, limit: MAX_ROWS });
      if (!answer.ok) return { error: answer.error };
      const note = answer.data.length === MAX_ROWS ? ` ${t("first_rows", { max: MAX_ROWS })}` : "";
      return { rows: answer.data.filter((/** @type {VitalsRow} */ row) => row.samples), note };
    },
    matches: (row, text) => isIn(text, field, row.value),
    draw: (rows) =>
      rankedList(field, rows, metric, threshold, board, (row) => {
        dialog.close();
        board.toggle(field, row.value);
      }),
    failed: (error, again) => failureNotice(t("list_failed", { list: fieldTitle(field) }), error, again),
  });
}

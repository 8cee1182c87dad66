// Where a metric is worst: pages or devices as rows, each with p75, its rating, and how many of its page loads were
// poor. A press on a row filters by it. The order is the server's: most poor values first, where most people wait.

import { hasFilter } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { h, visuallyHidden } from "../shared/dom.js";
import { plural, percent, shortNumber } from "../shared/formats.js";
import { fieldName, fieldTitle, valueNode, valueText } from "../shared/fields.js";
import { addTooltip } from "../shared/tooltip.js";
import { listDialog } from "../shared/bar_list.js";
import { ratingNode, shareBar } from "./metric_cards.js";
import { hasFewSamples, rating, formatMetric } from "./web_vitals.js";

// CONTRACT: limit is at most 1000.
const MAX_ROWS = 1000;

/** The rows of a field; `metric` one of vital_words.js's. `choose(row)` is called on a press: where not given, it filters. */
export function rankedList(field, rows, metric, threshold, board, choose = (row) => board.toggle(field, row.value)) {
  const measured = rows.filter((row) => row.samples);
  if (!measured.length) {
    return h("p", { class: "nothing soft" }, `${metric.short} was measured on no ${fieldName(field)} in these days.`);
  }
  return h(
    "ol",
    { class: "ranked" },
    measured.map((row) => h("li", null, rowOf(field, row, metric, threshold, board, choose))),
  );
}

function rowOf(field, row, metric, threshold, board, choose) {
  const rated = rating(row.p75, threshold);
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
    h("span", { class: "ranked-poor" }, `${percent(row.poor)} poor`),
    h(
      "span",
      { class: "ranked-samples soft" },
      `of ${shortNumber(row.samples)}`,
      hasFewSamples(row.samples) ? visuallyHidden(", few") : null,
    ),
    h("span", { class: "ranked-p75" }, formatMetric(metric.name, row.p75), visuallyHidden(" at p75")),
    ratingNode(rated),
  );
  addTooltip(button, () => hintOf(field, row, metric, isOn));
  return button;
}

function hintOf(field, row, { name }, isOn) {
  return [
    h("strong", { class: "wrap" }, valueText(field, row.value)),
    h(
      "p",
      null,
      `p50 ${formatMetric(name, row.p50)} · p75 ${formatMetric(name, row.p75)} · p95 ${formatMetric(name, row.p95)}`,
    ),
    h(
      "p",
      null,
      `${percent(row.good)} good, ${percent(row.needs_improvement)} in need of improvement, ${percent(row.poor)} poor, of ${plural(row.samples, "sample")}`,
    ),
    hasFewSamples(row.samples) ? h("p", null, "So few that a handful of slow ones moves p75.") : null,
    h("p", { class: "soft" }, isOn ? "Press to take this filter away" : `Press to see this ${fieldName(field)} alone`),
  ];
}

/** All values of a field, searchable. */
export function rankedDialog(field, metric, threshold, board) {
  const dialog = listDialog({
    title: `${fieldTitle(field)} by ${metric.short}`,
    load: async () => {
      const answer = await board.ask("vitals", { by: field, metric: metric.name, limit: MAX_ROWS });
      if (!answer.ok) return { error: answer.error };
      const note = answer.data.length === MAX_ROWS ? ": the first thousand" : "";
      return { rows: answer.data.filter((row) => row.samples), note };
    },
    matches: (row, text) => row.value.toLowerCase().includes(text),
    draw: (rows) =>
      rankedList(field, rows, metric, threshold, board, (row) => {
        dialog.close();
        board.toggle(field, row.value);
      }),
    failed: (error, again) => failureNotice(`${fieldTitle(field)} cannot be shown.`, error, again),
  });
}

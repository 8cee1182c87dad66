// p75 of a metric by day of the website as a chart with the thresholds as lines, and as a table.

import { withDays } from "../shared/view_state.js";
import { bucketLabel, axisTicks } from "../shared/buckets.js";
import { chartWithTable } from "../shared/chart_with_table.js";
import { fill, h } from "../shared/dom.js";
import { number, percent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { RATINGS, RATING_NAMES, rating, formatMetric } from "./web_vitals.js";

const t = await texts("vitals");
const LABEL_PX = 76;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
// The chart's axis has integer steps: cls, which is usually below 1, is drawn in thousandths.
/** @type {Record<string, number>} */
const SCALES = { cls: 1000 };

/**
 * Draws into `root`; returns { draw(metric, rows, threshold), end() }.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function trendChart(root, board) {
  const legend = h("div", { class: "legend" });
  const plot = chartWithTable();
  const nodes = [h("div", { class: "series-head" }, legend), ...plot.nodes];

  return {
    async draw(/** @type {Metric} */ metric, /** @type {VitalsRow[]} */ rows, /** @type {Threshold} */ threshold) {
      if (!rows.some((/** @type {VitalsRow} */ row) => row.samples)) {
        return void fill(root, h("p", { class: "nothing soft" }, t("no_values", { metric: metric.short })));
      }
      if (!root.contains(legend)) fill(root, nodes);
      fill(legend, legendOf(metric, threshold));
      await plot.draw(
        () => chartData(board, metric, rows, threshold),
        () => tableOf(board, metric, rows, threshold),
      );
    },
    end: () => plot.end(),
  };
}

/**
 * @param {{ name: string, short: string }} options
 * @param {{ good: number, poor: number }} options
 */
function legendOf({ name, short }, { good, poor }) {
  const item = (/** @type {string} */ kind, /** @type {string} */ words) =>
    h("span", { class: "legend-item" }, h("span", { class: `legend-line ${kind}` }), words);
  return [
    item("now", t("by_day", { metric: short })),
    item("limit-good", t("good_up_to", { limit: formatMetric(name, good) })),
    item("limit-poor", t("poor_above", { limit: formatMetric(name, poor) })),
  ];
}

/**
 * Returns midnight UTC of the date of the website's day at a moment.
 *
 * @param {number} moment
 * @param {Board} board
 */
function dayOf(moment, { site }) {
  const local = moment + site.dayOffset * MINUTE_MS;
  return local - (local % DAY_MS);
}

/**
 * Returns what shared/chart.js draws.
 *
 * @param {Board} board
 * @param {Metric} metric
 * @param {VitalsRow[]} rows
 * @param {Threshold} threshold
 */
function chartData(board, metric, rows, threshold) {
  const { name } = metric;
  const scale = SCALES[name] || 1;
  const scaled = (/** @type {number | null} */ value) => (value === null ? null : value * scale);
  const days = rows.map((row) => dayOf(Date.parse(row.time), board));
  const open = days.indexOf(dayOf(Date.now(), board));
  const day = (/** @type {number} */ i) => bucketLabel(days[i], "UTC", "day");
  const words = (/** @type {number} */ i) => {
    const { samples, p75 } = rows[i];
    if (!samples) return t("slider_none");
    return t("slider_value", { value: formatMetric(name, p75), rating: ratingWords(p75, threshold), count: samples });
  };
  return {
    label: t("chart_label", { metric: metric.short }),
    now: rows.map((row) => scaled(row.p75)),
    before: null,
    lines: [
      { at: threshold.good * scale, colour: "--rate-good" },
      { at: threshold.poor * scale, colour: "--rate-poor" },
    ],
    open,
    format: (/** @type {number | null} */ value) => (value ? formatMetric(name, value / scale) : "0"),
    text: (/** @type {number} */ i) => {
      const values = { day: day(i), words: words(i) };
      return i === open ? t("slider_open_day", values) : t("slider_day", values);
    },
    tip: (/** @type {number} */ i) => tipOf(metric, rows[i], threshold, day(i), i === open),
    ticks: (/** @type {number} */ width) => axisTicks(days, "UTC", "day", Math.max(2, Math.floor(width / LABEL_PX))),
    pick: (/** @type {any} */ first, /** @type {any} */ last) => {
      const [from, to] = [first, last].map((i) => new Date(days[i]).toISOString().slice(0, 10));
      const span = board.span();
      if (from !== span.from || to !== span.to) board.go(withDays(board.view(), from, to));
    },
  };
}

/**
 * @param {{ name: string }} options
 * @param {VitalsRow} row
 * @param {Threshold} threshold
 * @param {string} day
 * @param {boolean} isOpen
 */
function tipOf({ name }, row, threshold, day, isOpen) {
  const when = h(
    "p",
    { class: "chart-tip-when" },
    day,
    isOpen ? h("span", { class: "soft" }, ` ${t("so_far")}`) : null,
  );
  if (!row.samples) return [when, h("p", { class: "soft" }, t("no_samples"))];
  return [
    when,
    h(
      "p",
      { class: "chart-tip-now" },
      h("strong", null, formatMetric(name, row.p75)),
      ` ${ratingWords(row.p75, threshold)}`,
    ),
    h("p", { class: "soft" }, t("p50_p95", { p50: formatMetric(name, row.p50), p95: formatMetric(name, row.p95) })),
    h("p", { class: "soft" }, t("samples_count", { count: row.samples })),
  ];
}

/**
 * @param {Board} board
 * @param {Metric} metric
 * @param {VitalsRow[]} rows
 * @param {Threshold} threshold
 */
function tableOf(board, { name, short }, rows, threshold) {
  const heads = [
    t("samples_head"),
    "p50",
    "p75",
    "p95",
    t("rating_of_p75"),
    ...Object.values(RATINGS).map((one) => one.words),
  ];
  const body = rows.map((row) => {
    const cells = [
      number(row.samples),
      formatMetric(name, row.p50),
      formatMetric(name, row.p75),
      formatMetric(name, row.p95),
      ratingWords(row.p75, threshold),
      ...RATING_NAMES.map((share) => percent(row[share])),
    ];
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, bucketLabel(dayOf(Date.parse(row.time), board), "UTC", "day")),
      cells.map((text) => h("td", { class: "num" }, text)),
    );
  });
  return h(
    "table",
    { class: "table" },
    h("caption", { class: "visually-hidden" }, t("table", { metric: short })),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, t("day")),
        heads.map((text) => h("th", { class: "num", scope: "col" }, text)),
      ),
    ),
    h("tbody", null, body),
  );
}

/**
 * Returns a value's rating in lower case; "–" without a value.
 *
 * @param {number | null} value
 * @param {Threshold} threshold
 */
function ratingWords(value, threshold) {
  const rated = rating(value, threshold);
  return rated ? RATINGS[rated].words.toLowerCase() : "–";
}

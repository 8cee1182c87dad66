// p75 of a metric by UTC day, with the thresholds as lines and the table behind it.

import { withDays } from "../shared/view_state.js";
import { bucketLabel, axisTicks } from "../shared/buckets.js";
import { chartWithTable } from "../shared/chart_with_table.js";
import { fill, h } from "../shared/dom.js";
import { plural, number, percent } from "../shared/formats.js";
import { RATINGS, rating, formatMetric } from "./web_vitals.js";

const A_LABEL_PX = 76;
const DAY_MS = 86_400_000;
// The chart's axis has whole steps: cls, which is below 1 as a rule, is drawn in thousandths.
const SCALES = { cls: 1000 };

/** The part in `root`; gives { draw(metric, rows, threshold), end() }. */
export function trendChart(root, board) {
  const legend = h("div", { class: "legend" });
  const plot = chartWithTable();
  const nodes = [h("div", { class: "series-head" }, legend), ...plot.nodes];

  return {
    async draw(metric, rows, threshold) {
      if (!rows.some((row) => row.samples)) {
        return void fill(root, h("p", { class: "nothing soft" }, `${metric.short} was not measured in these days.`));
      }
      if (!root.contains(legend)) fill(root, nodes);
      fill(legend, legendOf(metric, threshold));
      const shown = [metric, rows, threshold];
      await plot.draw(
        () => chartData(board, ...shown),
        () => tableOf(...shown),
      );
    },
    end: () => plot.end(),
  };
}

function legendOf({ name, short }, { good, poor }) {
  const item = (kind, words) => h("span", { class: "legend-item" }, h("span", { class: `legend-line ${kind}` }), words);
  return [
    item("now", `${short} at p75, by UTC day`),
    item("limit-good", `good up to ${formatMetric(name, good)}`),
    item("limit-poor", `poor above ${formatMetric(name, poor)}`),
  ];
}

/** What shared/chart.js draws. */
function chartData(board, metric, rows, threshold) {
  const { name } = metric;
  const scale = SCALES[name] || 1;
  const scaled = (value) => (value === null ? null : value * scale);
  const days = rows.map((row) => Math.floor(Date.parse(row.time) / DAY_MS) * DAY_MS);
  const open = days.indexOf(Math.floor(Date.now() / DAY_MS) * DAY_MS);
  const day = (i) => bucketLabel(days[i], "UTC", "day");
  const soFar = (i) => (i === open ? ", so far" : "");
  const words = (i) => {
    const { samples, p75 } = rows[i];
    if (!samples) return "no samples";
    const rated = RATINGS[rating(p75, threshold)].words.toLowerCase();
    return `${formatMetric(name, p75)}, ${rated}, ${plural(samples, "sample")}`;
  };
  return {
    label: `${metric.short} at p75 by UTC day; arrow keys go from day to day`,
    now: rows.map((row) => scaled(row.p75)),
    before: null,
    lines: [
      { at: scaled(threshold.good), colour: "--rate-good" },
      { at: scaled(threshold.poor), colour: "--rate-poor" },
    ],
    open,
    format: (value) => (value ? formatMetric(name, value / scale) : "0"),
    say: (i) => `${day(i)}: ${words(i)}${soFar(i)}`,
    tip: (i) => tipOf(metric, rows[i], threshold, day(i), i === open),
    ticks: (width) => axisTicks(days, "UTC", "day", Math.max(2, Math.floor(width / A_LABEL_PX))),
    pick: (first, last) => {
      const [from, to] = [first, last].map((i) => new Date(days[i]).toISOString().slice(0, 10));
      const span = board.span();
      if (from !== span.from || to !== span.to) board.go(withDays(board.view(), from, to));
    },
  };
}

function tipOf({ name }, row, threshold, day, isOpen) {
  const when = h("p", { class: "chart-tip-when" }, day, isOpen ? h("span", { class: "soft" }, " so far") : null);
  if (!row.samples) return [when, h("p", { class: "soft" }, "No samples")];
  return [
    when,
    h(
      "p",
      { class: "chart-tip-now" },
      h("strong", null, formatMetric(name, row.p75)),
      ` ${RATINGS[rating(row.p75, threshold)].words.toLowerCase()}`,
    ),
    h("p", { class: "soft" }, `p50 ${formatMetric(name, row.p50)} · p95 ${formatMetric(name, row.p95)}`),
    h("p", { class: "soft" }, plural(row.samples, "sample")),
  ];
}

function tableOf({ name, short }, rows, threshold) {
  const heads = ["Samples", "p50", "p75", "p95", "p75 is", ...Object.values(RATINGS).map((one) => one.words)];
  const body = rows.map((row) => {
    const rated = rating(row.p75, threshold);
    const cells = [
      number(row.samples),
      formatMetric(name, row.p50),
      formatMetric(name, row.p75),
      formatMetric(name, row.p95),
      rated ? RATINGS[rated].words.toLowerCase() : "–",
      ...Object.keys(RATINGS).map((share) => percent(row[share])),
    ];
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, bucketLabel(Date.parse(row.time), "UTC", "day")),
      cells.map((text) => h("td", { class: "num" }, text)),
    );
  });
  return h(
    "table",
    { class: "table" },
    h("caption", { class: "unseen" }, `${short} by UTC day`),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, "UTC day"),
        heads.map((text) => h("th", { class: "num", scope: "col" }, text)),
      ),
    ),
    h("tbody", null, body),
  );
}

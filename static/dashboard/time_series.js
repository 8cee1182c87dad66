// The chart of the chosen figure with its legend, and its table. Buckets are labelled in the view's zone.

import { bucketLabel, axisTicks } from "../shared/buckets.js";
import { chartWithTable } from "../shared/chart_with_table.js";
import { fill, h } from "../shared/dom.js";
import { plural, dayRange, number, shortNumber } from "../shared/formats.js";
import { figureNamed } from "./key_figures.js";

/** @type {[name: string, noun: string, column: string][]} */
const COUNTS = [
  ["visitors", "visitor", "Visitors"],
  ["visits", "visit", "Visits"],
  ["pageviews", "pageview", "Pageviews"],
  ["events", "event", "Events"],
];
const LABEL_PX = 76;

/**
 * Draws into `root`; returns { tools, draw(view, span, rows, before), redraw(view), end() }. `counts`: the figures of a
 * bucket, [[name, noun, table column], ...].
 *
 * @param {HTMLElement} root
 * @param {{ pick: (first: number, last: number) => void, counts?: [string, string, string][] }} options
 */
export function timeSeriesChart(root, { pick, counts = COUNTS }) {
  const legend = h("div", { class: "legend" });
  const tools = h("div", { class: "row no-print" });
  const plot = chartWithTable();
  fill(root, h("div", { class: "series-head" }, legend, tools), plot.nodes);
  /** @type {any} */
  let last = null;

  /**
   * @param {View} view
   */
  async function redraw(view) {
    if (!last) return;
    const { span, rows, before } = last;
    const figure = figureNamed(view.figure);
    fill(legend, legendOf(figure, span, before));
    await plot.draw(
      () => chartData(view, span, rows, before, { pick, counts }),
      () => tableOf(last, last.view, counts),
    );
  }

  return {
    tools,
    draw(
      /** @type {View} */ view,
      /** @type {Span} */ span,
      /** @type {Bucket[]} */ rows,
      /** @type {Bucket[] | null} */ before,
    ) {
      last = { view, span, rows, before };
      return redraw(view);
    },
    redraw(/** @type {View} */ view) {
      if (last) last.view = view;
      return redraw(view);
    },
    end: () => plot.end(),
  };
}

/**
 * @param {any} figure
 * @param {Span} span
 * @param {Bucket[] | null} before
 */
function legendOf(figure, span, before) {
  return [
    h(
      "span",
      { class: "legend-item" },
      h("span", { class: "legend-line now" }),
      `${figure.title}, ${dayRange(span.from, span.to)}`,
    ),
    before
      ? h(
          "span",
          { class: "legend-item soft" },
          h("span", { class: "legend-line before" }),
          dayRange(span.before.from, span.before.to),
        )
      : null,
  ];
}

/**
 * Returns what shared/chart.js draws.
 *
 * @param {View} view
 * @param {Span} span
 * @param {Bucket[]} rows
 * @param {Bucket[] | null} before
 * @param {{ pick: (first: number, last: number) => void, counts: [string, string, string][] }} options
 */
function chartData(view, span, rows, before, { pick, counts }) {
  const starts = rows.map((row) => Date.parse(row.time));
  const now = Date.now();
  const open = span.isOpen ? starts.findLastIndex((start) => start <= now) : -1;
  const ahead = (/** @type {number} */ i) => starts[i] > now;
  const figure = figureNamed(view.figure);
  return {
    label: `${figure.title} by ${span.interval}, ${dayRange(span.from, span.to)}; use the arrow keys to move between ${span.interval}s`,
    now: rows.map((row, i) => (ahead(i) ? null : row[view.figure])),
    before: before && rows.map((_, i) => before[i]?.[view.figure] ?? null),
    open,
    format: shortNumber,
    say: (/** @type {number} */ i) =>
      `${bucketLabel(starts[i], view.zone, span.interval)}: ${ahead(i) ? "not yet" : countsOf(rows[i], counts).join(", ")}${i === open ? ", so far" : ""}`,
    tip: (/** @type {number} */ i) =>
      tipOf(view, span, rows[i], before?.[i], { counts, starts, i, open, isAhead: ahead(i) }),
    ticks: (/** @type {number} */ width) =>
      axisTicks(starts, view.zone, span.interval, Math.max(2, Math.floor(width / LABEL_PX))),
    pick: (/** @type {number} */ i, /** @type {number} */ j) => pick(starts[i], starts[j]),
  };
}

/**
 * @param {Bucket} row
 * @param {[string, string, string][]} counts
 */
function countsOf(row, counts) {
  return counts.map(([name, one]) => plural(row[name], one));
}

/**
 * @param {View} view
 * @param {Span} span
 * @param {Bucket} row
 * @param {Bucket | null | undefined} before
 * @param {{ counts: [string, string, string][], starts: number[], i: number, open: number, isAhead: boolean }} options
 */
function tipOf(view, span, row, before, { counts, starts, i, open, isAhead }) {
  const [, one] = counts.find(([name]) => name === view.figure) || counts[0];
  const others = counts.filter(([name]) => name !== view.figure);
  const words = bucketLabel(starts[i], view.zone, span.interval);
  return [
    h("p", { class: "chart-tip-when" }, words, i === open ? h("span", { class: "soft" }, " so far") : null),
    isAhead
      ? null
      : h(
          "p",
          { class: "chart-tip-now" },
          h("span", { class: "legend-line now" }),
          h("strong", null, plural(row[view.figure], one)),
        ),
    before
      ? h(
          "p",
          { class: "soft" },
          h("span", { class: "legend-line before" }),
          `${number(before[view.figure])}, ${bucketLabel(Date.parse(before.time), view.zone, span.interval, true)}`,
        )
      : null,
    isAhead ? null : h("p", { class: "soft" }, others.map(([name, other]) => plural(row[name], other)).join(" · ")),
  ];
}

/**
 * @param {{ rows: Bucket[], before: Bucket[] | null, span: Span }} options
 * @param {View} view
 * @param {[string, string, string][]} counts
 */
function tableOf({ rows, before, span }, view, counts) {
  const now = Date.now();
  const body = rows.map((row, i) => {
    const start = Date.parse(row.time);
    const words = bucketLabel(start, view.zone, span.interval);
    if (start > now) return null;
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, words),
      counts.map(([name]) => h("td", { class: "num" }, number(row[name]))),
      before ? h("td", { class: "num soft" }, number(before[i]?.[view.figure])) : null,
    );
  });
  return h(
    "table",
    { class: "table" },
    h("caption", { class: "visually-hidden" }, `By ${span.interval}, ${dayRange(span.from, span.to)}, ${view.zone}`),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, span.interval === "day" ? "Day" : "Hour"),
        counts.map(([, , title]) => h("th", { class: "num", scope: "col" }, title)),
        before ? h("th", { class: "num", scope: "col" }, `${figureNamed(view.figure).title}, range before`) : null,
      ),
    ),
    h("tbody", null, body),
  );
}

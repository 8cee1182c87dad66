// The chart of the chosen figure with its legend, and its table. Buckets are labelled in the view's zone.

import { axisTicks, bucketDays, bucketLabels } from "../shared/buckets.js";
import { chartWithTable } from "../shared/chart_with_table.js";
import { fill, h } from "../shared/dom.js";
import { dayRange, number, shortNumber } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { marksOf } from "./annotations.js";
import { shownFigure } from "./conversions.js";
import { figureNamed, figuresOf } from "./key_figures.js";

const t = await texts("dashboard");
const shared = await texts("shared");

/** @type {Record<string, { title: string, chart: (values: Record<string, string>) => string, table: (values: Record<string, string>) => string }>} */
const INTERVALS = {
  minute: {
    title: t("minute"),
    chart: (values) => t("chart_by_minute", values),
    table: (values) => t("table_by_minute", values),
  },
  hour: {
    title: t("hour"),
    chart: (values) => t("chart_by_hour", values),
    table: (values) => t("table_by_hour", values),
  },
  day: { title: t("day"), chart: (values) => t("chart_by_day", values), table: (values) => t("table_by_day", values) },
  week: {
    title: t("week"),
    chart: (values) => t("chart_by_week", values),
    table: (values) => t("table_by_week", values),
  },
  month: {
    title: t("month"),
    chart: (values) => t("chart_by_month", values),
    table: (values) => t("table_by_month", values),
  },
};
const LABEL_PX = 76;

/**
 * Called with the first moments of the first and the last bucket that are chosen, and with their days.
 *
 * @typedef {(first: number, last: number, days: Days) => void} Pick
 */

/**
 * Draws into `root`; returns { tools, draw(view, span, rows, before, annotations, count, imported, project), redraw(view),
 * end() }. `counts`: the figures of a bucket, by default those of the dashboard; `count`: which of them holds conversions,
 * or null; `imported`: what the answer contains about imported sums; `project(row, figure)`: what the bucket that is not
 * over is likely to have at its end, or null.
 *
 * @param {HTMLElement} root
 * @param {{ pick: Pick, openMark?: (mark: ChartMark) => void, counts?: Figure[] }} options
 */
export function timeSeriesChart(root, { pick, openMark, counts }) {
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
    const { span, rows, before, annotations, count, imported, project } = last;
    const own = counts || figuresOf(count).filter(({ inSeries }) => inSeries);
    const shown = { ...view, figure: shownFigure(view.figure, count) };
    const { open, likely } = openBucket(rows, span, (row) => project(row, shown.figure));
    fill(
      legend,
      legendOf(titleOf(shown.figure, own), span, before),
      likely === null
        ? null
        : h("span", { class: "legend-item soft" }, h("span", { class: "legend-likely" }), t("projected")),
      importedLegend(imported),
    );
    const hatched = importedBuckets(rows, span, imported);
    await plot.draw(
      () => ({
        ...chartData(shown, span, rows, before, { pick, counts: own, hatched, open, likely }),
        marks: marksOf(
          annotations,
          rows.map((/** @type {Bucket} */ { time }) => time),
        ),
        openMark,
      }),
      () => tableOf(last, shown, own),
    );
  }

  return {
    tools,
    draw(
      /** @type {View} */ view,
      /** @type {Span} */ span,
      /** @type {Bucket[]} */ rows,
      /** @type {Bucket[] | null} */ before,
      /** @type {Annotation[]} */ annotations = [],
      /** @type {string | null} */ count = null,
      /** @type {ImportedDays | null} */ imported = null,
      /** @type {(row: Bucket, figure: string) => number | null} */ project = () => null,
    ) {
      last = { view, span, rows, before, annotations, count, imported, project };
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
 * @param {string} figure
 * @param {Figure[]} counts
 */
function titleOf(figure, counts) {
  return (counts.find(({ name }) => name === figure) || figureNamed(figure)).title;
}

/**
 * @param {string} title  of the figure
 * @param {Span} span
 * @param {Bucket[] | null} before
 */
function legendOf(title, span, before) {
  return [
    h(
      "span",
      { class: "legend-item" },
      h("span", { class: "legend-line now" }),
      `${title}, ${dayRange(span.from, span.to)}`,
    ),
    before && span.before
      ? h(
          "span",
          { class: "legend-item soft" },
          h("span", { class: "legend-line before" }),
          shared("compared_with", { days: dayRange(span.before.from, span.before.to) }),
        )
      : null,
  ];
}

/**
 * Returns the index of the bucket that is not over, or -1, and what it is likely to have at its end, or null.
 *
 * @param {Bucket[]} rows
 * @param {Span} span
 * @param {(row: Bucket) => number | null} project
 */
function openBucket(rows, span, project) {
  const now = Date.now();
  const open = span.isOpen ? rows.findLastIndex(({ time }) => Date.parse(time) <= now) : -1;
  // A single bucket is a bar.
  return { open, likely: open >= 0 && rows.length > 1 ? project(rows[open]) : null };
}

/**
 * Returns the legend of hatched buckets, and how many days of imported sums are excluded.
 *
 * @param {ImportedDays | null} imported
 */
function importedLegend(imported) {
  if (!imported) return [];
  const excluded = imported.days - imported.counted_days;
  return [
    imported.counted_days
      ? h("span", { class: "legend-item" }, h("span", { class: "legend-hatch" }), t("imported_sums"))
      : null,
    excluded ? h("span", { class: "legend-item soft" }, t("imported_excluded", { count: excluded })) : null,
  ];
}

/**
 * Returns the indexes of the buckets that contain imported sums.
 *
 * @param {Bucket[]} rows
 * @param {Span} span
 * @param {ImportedDays | null} imported
 */
function importedBuckets(rows, span, imported) {
  const times = rows.map(({ time }) => time);
  return (imported?.ranges || []).flatMap((range) =>
    times.flatMap((_, i) => {
      const { from, to } = bucketDays(times, i, span, span.interval);
      return from <= range.to && to >= range.from ? [i] : [];
    }),
  );
}

/**
 * Returns the labels of the buckets of a series and of the one before; with the year where they are of different years.
 *
 * @param {View} view
 * @param {Span} span
 * @param {Bucket[]} rows
 * @param {Bucket[] | null} before
 */
function labelsOf({ zone }, span, rows, before) {
  const other = span.before || span;
  const withYear = other.from.slice(0, 4) !== span.to.slice(0, 4);
  const times = (/** @type {Bucket[]} */ of) => of.map(({ time }) => time);
  const labels = (/** @type {Bucket[]} */ of, /** @type {Days} */ range) =>
    bucketLabels(times(of), { zone, interval: span.interval, range, withYear });
  return { now: labels(rows, span), before: labels(before || [], other) };
}

/**
 * Returns what shared/chart.js draws.
 *
 * @param {View} view
 * @param {Span} span
 * @param {Bucket[]} rows
 * @param {Bucket[] | null} before
 * @param {{ pick: Pick, counts: Figure[], hatched: number[], open: number, likely: number | null }} options
 */
function chartData(view, span, rows, before, { pick, counts, hatched, open, likely }) {
  const times = rows.map((row) => row.time);
  const starts = times.map((time) => Date.parse(time));
  const now = Date.now();
  const ahead = (/** @type {number} */ i) => starts[i] > now;
  const labels = labelsOf(view, span, rows, before);
  const isWide = span.interval === "week" || span.interval === "month";
  const partial = isWide ? times.flatMap((_, i) => (bucketDays(times, i, span, span.interval).isWhole ? [] : [i])) : [];
  return {
    label: INTERVALS[span.interval].chart({
      figure: titleOf(view.figure, counts),
      days: dayRange(span.from, span.to),
    }),
    now: rows.map((row, i) => (ahead(i) ? null : row[view.figure])),
    before: before && rows.map((_, i) => before[i]?.[view.figure] ?? null),
    ...{ open, likely, partial },
    hatched,
    // A line of one day's hours, or of one bucket, shows little.
    bars: rows.length === 1 || (span.days === 1 && span.interval === "hour"),
    format: shortNumber,
    when: labels.now,
    text(/** @type {number} */ i) {
      const words = ahead(i) ? [t("not_yet")] : counts.map(({ name, described }) => described(rows[i][name]));
      if (i === open) words.push(t("so_far"), ...(likely === null ? [] : [likelyWords(likely)]));
      if (hatched.includes(i)) words.push(t("imported_sums"));
      return shared("label_value", { label: labels.now(i), value: words.join(", ") });
    },
    tip: (/** @type {number} */ i) =>
      tipOf(view, rows[i], before?.[i], {
        ...{ counts, labels, i },
        ...{ isOpen: i === open, likely, isAhead: ahead(i), isImported: hatched.includes(i) },
      }),
    ticks: (/** @type {number} */ width) =>
      axisTicks(starts, view.zone, span.interval, Math.max(2, Math.floor(width / LABEL_PX))),
    pick: (/** @type {number} */ i, /** @type {number} */ j) => {
      const [{ from }, { to }] = [i, j].map((one) => bucketDays(times, one, span, span.interval));
      pick(starts[i], starts[j], { from, to });
    },
  };
}

/**
 * Returns what a bucket is likely to have at its end, in two digits: it is an estimate.
 *
 * @param {number} likely
 */
function likelyWords(likely) {
  return t("likely", { value: number(Number(likely.toPrecision(2))) });
}

/**
 * @param {View} view
 * @param {Bucket} row
 * @param {Bucket | null | undefined} before
 * @param {{ counts: Figure[], labels: ReturnType<typeof labelsOf>, i: number, isOpen: boolean, likely: number | null, isAhead: boolean, isImported: boolean }} options
 */
function tipOf(view, row, before, { counts, labels, i, isOpen, likely, isAhead, isImported }) {
  const { described } = counts.find(({ name }) => name === view.figure) || counts[0];
  const others = counts.filter(({ name }) => name !== view.figure);
  return [
    h("p", { class: "chart-tip-when" }, labels.now(i), isOpen ? h("span", { class: "soft" }, " ", t("so_far")) : null),
    isAhead
      ? null
      : h(
          "p",
          { class: "chart-tip-now" },
          h("span", { class: "legend-line now" }),
          h("strong", null, described(row[view.figure])),
        ),
    isOpen && likely !== null
      ? h("p", { class: "soft" }, h("span", { class: "legend-likely" }), likelyWords(likely))
      : null,
    before
      ? h(
          "p",
          { class: "soft" },
          h("span", { class: "legend-line before" }),
          `${number(before[view.figure])}, ${labels.before(i)}`,
        )
      : null,
    isAhead ? null : h("p", { class: "soft" }, others.map((other) => other.described(row[other.name])).join(" · ")),
    isImported ? h("p", { class: "soft" }, t("imported_sums")) : null,
  ];
}

/**
 * @param {{ rows: Bucket[], before: Bucket[] | null, span: Span, imported: ImportedDays | null }} options
 * @param {View} view
 * @param {Figure[]} counts
 */
function tableOf({ rows, before, span, imported }, view, counts) {
  const now = Date.now();
  const hatched = importedBuckets(rows, span, imported);
  const labels = labelsOf(view, span, rows, before);
  const { open } = openBucket(rows, span, () => null);
  const body = rows.map((row, i) => {
    if (Date.parse(row.time) > now) return null;
    return h(
      "tr",
      null,
      h(
        "th",
        { scope: "row" },
        labels.now(i),
        i === open ? h("span", { class: "soft" }, " · ", t("so_far")) : null,
        hatched.includes(i) ? h("span", { class: "soft" }, " · ", t("imported_sums")) : null,
      ),
      counts.map(({ name }) => h("td", { class: "num" }, number(row[name]))),
      before
        ? [
            h("td", { class: "soft" }, before[i] ? labels.before(i) : "–"),
            h("td", { class: "num soft" }, number(before[i]?.[view.figure])),
          ]
        : null,
    );
  });
  return h(
    "table",
    { class: "table" },
    h(
      "caption",
      { class: "visually-hidden" },
      INTERVALS[span.interval].table({ days: dayRange(span.from, span.to), zone: view.zone }),
    ),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, INTERVALS[span.interval].title),
        counts.map(({ title }) => h("th", { class: "num", scope: "col" }, title)),
        before
          ? [
              h("th", { scope: "col" }, t("compared_with_days")),
              h("th", { class: "num", scope: "col" }, titleOf(view.figure, counts)),
            ]
          : null,
      ),
    ),
    h("tbody", null, body),
  );
}

// The cards of the five web vitals: p75 with its rating, the shares of good, needs improvement and poor, p50, p95 and the
// number of page loads. A click selects the metric that the rest of the page shows.

import { h, visuallyHidden } from "../shared/dom.js";
import { percent, shortNumber } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";
import { texts } from "../shared/messages.js";
import { beforeNode, rowChangeNode } from "../dashboard/key_figures.js";
import { METRICS, RATINGS, RATING_NAMES, hasFewSamples, rating, formatMetric } from "./web_vitals.js";

const t = await texts("vitals");

/**
 * Returns the list. `rows`, `thresholds`: the read API's; `choose(name)` is called on a click.
 *
 * @param {VitalsRow[]} rows
 * @param {Record<string, Threshold>} thresholds
 * @param {{ chosen: string, choose: (name: string) => void, span: Span }} options
 */
export function metricCards(rows, thresholds, { chosen, choose, span }) {
  const items = METRICS.map((metric) => {
    const row = rows.find((one) => one.metric === metric.name);
    // The answer has a row for each metric.
    return h("li", null, row && card(metric, row, thresholds[metric.name], metric.name === chosen, choose, span));
  });
  return h("ul", { class: "metrics", "aria-label": t("metrics") }, items);
}

/**
 * @param {Metric} metric
 * @param {VitalsRow} row
 * @param {Threshold} threshold
 * @param {boolean} isChosen
 * @param {(name: string) => void} choose
 * @param {Span} span
 */
function card(metric, row, threshold, isChosen, choose, span) {
  const { name } = metric;
  const rated = rating(row.p75, threshold);
  const button = h(
    "button",
    {
      class: "metric",
      type: "button",
      "aria-pressed": String(isChosen),
      dataset: { key: `metric-${name}`, metric: name, p75: String(row.p75), samples: String(row.samples) },
      onclick: () => choose(name),
    },
    h("span", { class: "metric-name" }, h("strong", null, metric.short), " ", h("span", null, metric.long)),
    h("span", { class: "metric-value" }, formatMetric(name, row.p75), visuallyHidden(` ${t("at_p75")}`)),
    rowChangeNode({ name: "p75", up: -1 }, row, row.previous, span, [row.samples, row.previous?.samples || 0]),
    rated ? ratingNode(rated) : h("span", { class: "rating soft" }, t("not_measured")),
    row.samples ? [shareBar(row), shares(row), more(name, row)] : null,
  );
  addTooltip(button, () => hintOf(metric, row, threshold, span), { byTouch: true });
  return button;
}

/**
 * Returns the rating as a sign and a word.
 *
 * @param {RatingName} rated
 */
export function ratingNode(rated) {
  const { words, sign } = RATINGS[rated];
  return h("span", { class: `rating ${rated}` }, h("span", { "aria-hidden": "true" }, `${sign} `), words);
}

/**
 * Returns the three shares as parts of a bar.
 *
 * @param {VitalsRow} row
 */
export function shareBar(row) {
  const parts = RATING_NAMES.filter((rated) => row[rated] > 0);
  return h(
    "span",
    { class: "share-bar", "aria-hidden": "true" },
    parts.map((rated) => h("span", { class: rated, style: { "flex-grow": String(row[rated]) } })),
  );
}

/**
 * @param {VitalsRow} row
 */
function shares(row) {
  const part = (/** @type {RatingName} */ rated) =>
    h(
      "span",
      { class: rated },
      h("span", { class: "sign", "aria-hidden": "true" }, RATINGS[rated].sign),
      " ",
      percent(row[rated]),
      visuallyHidden(` ${RATINGS[rated].words.toLowerCase()}`),
    );
  return h("span", { class: "metric-shares" }, RATING_NAMES.map(part));
}

/**
 * @param {string} name
 * @param {VitalsRow} row
 */
function more(name, row) {
  const few = hasFewSamples(row.samples);
  const values = { count: row.samples, samples: shortNumber(row.samples) };
  const figure = (/** @type {string} */ words, /** @type {string} */ value) =>
    h("span", null, h("span", { class: "soft" }, `${words} `), value);
  return h(
    "span",
    { class: "metric-more" },
    figure("p50", formatMetric(name, row.p50)),
    figure("p95", formatMetric(name, row.p95)),
    h("span", { class: few ? "few" : "soft" }, few ? t("samples_few", values) : t("samples", values)),
  );
}

/**
 * @param {Metric} metric
 * @param {VitalsRow} row
 * @param {{ good: number, poor: number }} options
 * @param {Span} span
 */
function hintOf(metric, row, { good, poor }, span) {
  const value = (/** @type {any} */ of) => formatMetric(metric.name, of);
  return [
    h("strong", null, t("name_long", { metric: metric.short, long: metric.long })),
    h("p", null, metric.means),
    h("p", { class: "soft" }, t("limits", { good: value(good), poor: value(poor) })),
    row.samples
      ? h(
          "p",
          { class: "soft" },
          t("page_loads", {
            count: row.samples,
            ...{ p50: value(row.p50), p75: value(row.p75), p95: value(row.p95) },
            ...{ good: percent(row.good), medium: percent(row.needs_improvement), poor: percent(row.poor) },
          }),
        )
      : null,
    row.previous?.samples ? beforeNode(value(row.previous.p75), span) : null,
    hasFewSamples(row.samples) ? h("p", null, t("few_samples")) : null,
  ];
}

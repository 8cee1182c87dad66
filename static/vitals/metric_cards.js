// The five web vitals side by side: of each p75, its rating in a word, the shares of good, needs improvement and poor,
// p50 and p95, and of how many page loads. A press chooses what the rest of the page is about.

import { h, visuallyHidden } from "../shared/dom.js";
import { plural, percent, shortNumber } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";
import { METRICS, RATINGS, hasFewSamples, rating, formatMetric, wholePercent } from "./web_vitals.js";

/** The list. `rows`, `thresholds`: as the read API tells them; `choose(name)` is called on a press. */
export function metricCards(rows, thresholds, { chosen, choose }) {
  const items = METRICS.map((metric) => {
    const row = rows.find((one) => one.metric === metric.name);
    return h("li", null, card(metric, row, thresholds[metric.name], metric.name === chosen, choose));
  });
  return h("ul", { class: "metrics", "aria-label": "Metrics" }, items);
}

function card(metric, row, threshold, isChosen, choose) {
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
    h("span", { class: "metric-value" }, formatMetric(name, row.p75), visuallyHidden(" at p75")),
    rated ? ratingNode(rated) : h("span", { class: "rating soft" }, "Not measured"),
    row.samples ? [shareBar(row), shares(row), more(name, row)] : null,
  );
  addTooltip(button, () => hintOf(metric, row, threshold), { byTouch: true });
  return button;
}

/** The rating as a sign and a word. */
export function ratingNode(rated) {
  const { words, sign } = RATINGS[rated];
  return h("span", { class: `rating ${rated}` }, h("span", { "aria-hidden": "true" }, `${sign} `), words);
}

/** The three shares as parts of a bar. */
export function shareBar(row) {
  const parts = Object.keys(RATINGS).filter((rated) => row[rated] > 0);
  return h(
    "span",
    { class: "share-bar", "aria-hidden": "true" },
    parts.map((rated) => h("span", { class: rated, style: { "flex-grow": String(row[rated]) } })),
  );
}

function shares(row) {
  const part = (rated, words) =>
    h(
      "span",
      { class: rated },
      h("span", { class: "sign", "aria-hidden": "true" }, RATINGS[rated].sign),
      " ",
      wholePercent(row[rated]),
      visuallyHidden(` ${words}`),
    );
  return h(
    "span",
    { class: "metric-shares" },
    part("good", "good"),
    part("needs_improvement", "need improvement"),
    part("poor", "poor"),
  );
}

function more(name, row) {
  const figure = (words, value) => h("span", null, h("span", { class: "soft" }, `${words} `), value);
  return h(
    "span",
    { class: "metric-more" },
    figure("p50", formatMetric(name, row.p50)),
    figure("p95", formatMetric(name, row.p95)),
    h(
      "span",
      { class: hasFewSamples(row.samples) ? "few" : "soft" },
      `${shortNumber(row.samples)} ${row.samples === 1 ? "sample" : "samples"}${hasFewSamples(row.samples) ? ": few" : ""}`,
    ),
  );
}

function hintOf(metric, row, { good, poor }) {
  const value = (of) => formatMetric(metric.name, of);
  return [
    h("strong", null, `${metric.short}: ${metric.long}`),
    h("p", null, metric.means),
    h("p", { class: "soft" }, `Good up to ${value(good)}, poor above ${value(poor)}.`),
    row.samples
      ? h(
          "p",
          { class: "soft" },
          `Of ${plural(row.samples, "page load")}: half within ${value(row.p50)}, three of four within ${value(row.p75)}, 95 of 100 within ${value(row.p95)}. ${percent(row.good)} good, ${percent(row.needs_improvement)} in need of improvement, ${percent(row.poor)} poor.`,
        )
      : null,
    hasFewSamples(row.samples) ? h("p", null, "So few that a handful of slow ones moves p75.") : null,
  ];
}

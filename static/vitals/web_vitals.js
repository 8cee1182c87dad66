// The web vitals: names, definitions, advice, formats and ratings of values. Thresholds are the server's
// (meta.thresholds). Pure.

import { decimal, number } from "../shared/formats.js";
import { joinWords } from "../shared/join_words.js";
import { texts } from "../shared/messages.js";

const t = await texts("vitals");
const SECOND_MS = 1000;
// Below this number of page loads a few of them change p75 strongly (with 100 its 95% interval spans 17 ranks).
const FEW_SAMPLES = 100;

// The first three are Google's Core Web Vitals, in its order.
/** @type {Metric[]} */
export const METRICS = [
  {
    name: "lcp",
    short: "LCP",
    long: t("lcp_name"),
    isCore: true,
    means: t("lcp_means"),
    helps: t("lcp_helps"),
  },
  {
    name: "inp",
    short: "INP",
    long: t("inp_name"),
    isCore: true,
    means: t("inp_means"),
    helps: t("inp_helps"),
  },
  {
    name: "cls",
    short: "CLS",
    long: t("cls_name"),
    isCore: true,
    means: t("cls_means"),
    helps: t("cls_helps"),
  },
  {
    name: "fcp",
    short: "FCP",
    long: t("fcp_name"),
    isCore: false,
    means: t("fcp_means"),
    helps: t("fcp_helps"),
  },
  {
    name: "ttfb",
    short: "TTFB",
    long: t("ttfb_name"),
    isCore: false,
    means: t("ttfb_means"),
    helps: t("ttfb_helps"),
  },
];

/** @type {Record<RatingName, { words: string, sign: string }>} */
export const RATINGS = {
  good: { words: t("good"), sign: "●" },
  needs_improvement: { words: t("needs_improvement"), sign: "◆" },
  poor: { words: t("poor"), sign: "▲" },
};

/** The names of ratings, in the order in which they are shown. */
export const RATING_NAMES = /** @type {RatingName[]} */ (Object.keys(RATINGS));

/**
 * Returns the metric with that name; the first one for an unknown name.
 *
 * @param {string | null} name
 */
export function metricNamed(name) {
  return METRICS.find((metric) => metric.name === name) || METRICS[0];
}

/**
 * Returns "good", "needs_improvement" or "poor"; null without a value.
 *
 * @param {number | null | undefined} value
 * @param {{ good: number, poor: number }} options
 */
export function rating(value, { good, poor }) {
  if (value === null || value === undefined) return null;
  return value <= good ? "good" : value <= poor ? "needs_improvement" : "poor";
}

/**
 * Returns a value with its unit, without trailing zeros: "2.41 s", "248 ms", "0.083".
 *
 * @param {string} name
 * @param {number | null | undefined} value
 */
export function formatMetric(name, value) {
  if (value === null || value === undefined) return "–";
  if (name === "cls") return trimmedDecimal(value, 3);
  return value < SECOND_MS ? `${number(value)}\u00a0ms` : `${trimmedDecimal(value / SECOND_MS, 2)}\u00a0s`;
}

/**
 * @param {number} value
 * @param {number} decimals
 */
function trimmedDecimal(value, decimals) {
  const most = 10 ** decimals;
  const rounded = Math.round(value * most) / most;
  const needed = [0, 1, 2, 3].find((some) => Number(rounded.toFixed(some)) === rounded);
  return decimal(rounded, needed);
}

/**
 * Returns whether there are values, but too few for reliable percentiles.
 *
 * @param {number} samples
 */
export function hasFewSamples(samples) {
  return samples > 0 && samples < FEW_SAMPLES;
}

/**
 * Returns the result of the three core metrics: { isMet, words }. isMet is null where LCP or CLS has no values and the
 * others are good. INP may be missing: a page without interactions has none.
 *
 * @param {VitalsRow[]} rows
 * @param {Record<string, Threshold>} thresholds
 */
export function verdict(rows, thresholds) {
  const core = METRICS.filter((metric) => metric.isCore).map((metric) => {
    const row = rows.find((one) => one.metric === metric.name);
    const p75 = row ? row.p75 : null;
    return { ...metric, p75, samples: row ? row.samples : 0, rated: rating(p75, thresholds[metric.name]) };
  });
  const [measured, missing] = [core.filter((one) => one.rated), core.filter((one) => !one.rated)];
  const named = (/** @type {typeof core} */ some) => ({
    metrics: joinWords(some.map((one) => one.short)),
    count: some.length,
  });
  if (!measured.length) return { isMet: null, words: t("no_values_of", named(missing)) };
  const off = measured.filter((one) => one.rated !== "good");
  const notes = [
    missing.length ? t("not_measured_of", named(missing)) : "",
    measured.some((one) => hasFewSamples(one.samples)) ? t("few_loads") : "",
  ];
  const words = (/** @type {string} */ result) => [result, ...notes].filter(Boolean).join(" ");
  if (!off.length) {
    const isMet = missing.every((one) => one.name === "inp") || null;
    return { isMet, words: words(t("good_for_most", named(measured))) };
  }
  const faults = off.map((one) => {
    const { good, poor } = thresholds[one.name];
    const values = { metric: one.short, value: formatMetric(one.name, one.p75) };
    return one.rated === "poor"
      ? t("is_poor", { ...values, limit: formatMetric(one.name, poor) })
      : t("is_medium", { ...values, limit: formatMetric(one.name, good) });
  });
  return { isMet: false, words: words(`${faults.reduce((one, other) => t("two_faults", { one, other }))}.`) };
}

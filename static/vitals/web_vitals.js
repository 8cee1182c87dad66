// The web vitals: names, definitions, advice, formats and ratings of values. Thresholds are the server's
// (meta.thresholds). Pure.

import { decimal, number, percent } from "../shared/formats.js";

const SECOND_MS = 1000;
// Below this number of page loads a few of them change p75 strongly (with 100 its 95% interval spans 17 ranks).
const FEW_SAMPLES = 100;

// The first three are Google's Core Web Vitals, in its order.
/** @type {Metric[]} */
export const METRICS = [
  {
    name: "lcp",
    short: "LCP",
    long: "Largest Contentful Paint",
    isCore: true,
    means: "Time until the largest visible image or text block is drawn.",
    helps:
      "Respond faster (see TTFB), compress the main image and reference it in the HTML, and avoid scripts and styles that delay it.",
  },
  {
    name: "inp",
    short: "INP",
    long: "Interaction to Next Paint",
    isCore: true,
    means: "Time from a click, tap or key press to the next frame, for the slowest interaction of the page.",
    helps: "Split long tasks, draw before computing, and load fewer scripts.",
  },
  {
    name: "cls",
    short: "CLS",
    long: "Cumulative Layout Shift",
    isCore: true,
    means: "How much visible content moves unexpectedly. A number without a unit; 0 means no movement.",
    helps: "Set width and height of images, ads and embeds, and do not insert content above existing content.",
  },
  {
    name: "fcp",
    short: "FCP",
    long: "First Contentful Paint",
    isCore: false,
    means: "Time until the first text or image is drawn.",
    helps: "Respond faster, and reduce styles, fonts and scripts that block rendering.",
  },
  {
    name: "ttfb",
    short: "TTFB",
    long: "Time to First Byte",
    isCore: false,
    means: "Time until the first byte of the page arrives, including redirects and connection setup.",
    helps: "Cache pages, serve from closer to your visitors, avoid redirects, and profile the server.",
  },
];

/** @type {Record<RatingName, { words: string, sign: string }>} */
export const RATINGS = {
  good: { words: "Good", sign: "●" },
  needs_improvement: { words: "Needs improvement", sign: "◆" },
  poor: { words: "Poor", sign: "▲" },
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
 * Returns a share in whole percent; only exact shares are shown as 0% or 100%.
 *
 * @param {number} value
 */
export function wholePercent(value) {
  if (value > 0 && value < 0.5) return `<${percent(1, 0)}`;
  if (value < 100 && value >= 99.5) return `>${percent(99, 0)}`;
  return percent(value, 0);
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
  const without = missing.length
    ? ` ${joinWords(missing.map((one) => one.short))} ${missing.length > 1 ? "were" : "was"} not measured.`
    : "";
  if (!measured.length) return { isMet: null, words: `No values of ${joinWords(missing.map((one) => one.short))}.` };
  const off = measured.filter((one) => one.rated !== "good");
  const names = joinWords(measured.map((one) => one.short));
  const few = measured.some((one) => hasFewSamples(one.samples))
    ? " There are few page loads; more of them may change this."
    : "";
  if (!off.length) {
    const of = measured.length > 1 ? `${names} are each good` : `${names} is good`;
    const isMet = missing.every((one) => one.name === "inp") || null;
    return { isMet, words: `${of} for at least 75% of page loads.${without}${few}` };
  }
  const faults = off.map((one) => {
    const { good, poor } = thresholds[one.name];
    return one.rated === "poor"
      ? `${one.short} is poor: ${formatMetric(one.name, one.p75)} at p75, poor is above ${formatMetric(one.name, poor)}`
      : `${one.short} needs improvement: ${formatMetric(one.name, one.p75)} at p75, good is up to ${formatMetric(one.name, good)}`;
  });
  return { isMet: false, words: `${faults.join("; ")}.${without}${few}` };
}

/**
 * Returns "a, b and c".
 *
 * @param {string[]} words
 */
export function joinWords(words) {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join("");
}

// What web vitals are called, what they mean, what helps, how their values are said and rated. Pure: nothing here
// touches the page. Thresholds are the server's (meta.thresholds); what is told of a metric is a row of its answer.

import { decimal, number, percent } from "../shared/formats.js";

const SECOND_MS = 1000;
// our choice: below so many page loads a few of them move p75 by much (with 100, by 8 in 100 places either way).
const FEW_SAMPLES = 100;

// The first three are Google's Core Web Vitals, in its order.
export const METRICS = [
  {
    name: "lcp",
    short: "LCP",
    long: "Largest Contentful Paint",
    isCore: true,
    means: "How long it takes until the largest image or block of text in view is drawn.",
    helps:
      "Answer sooner (see TTFB), make the main image small and let the browser find it at once, and let no script or style hold it up.",
  },
  {
    name: "inp",
    short: "INP",
    long: "Interaction to Next Paint",
    isCore: true,
    means: "How long the page takes to react, in the slowest of all that a visitor clicked, tapped or typed on it.",
    helps: "Let scripts do less at one go: split long work, draw first and compute after, and load fewer of them.",
  },
  {
    name: "cls",
    short: "CLS",
    long: "Cumulative Layout Shift",
    isCore: true,
    means: "How far what is in view jumps about without being asked to: a number without a unit, 0 is still.",
    helps: "Give images, ads and embedded things their width and height, and put nothing in above what is being read.",
  },
  {
    name: "fcp",
    short: "FCP",
    long: "First Contentful Paint",
    means: "How long it takes until anything of the page is drawn.",
    helps: "Answer sooner, and keep the styles, fonts and scripts few that have to be there before anything is drawn.",
  },
  {
    name: "ttfb",
    short: "TTFB",
    long: "Time to First Byte",
    means: "How long it takes until the first byte of the page comes, with redirects and connecting.",
    helps: "Cache pages, answer from nearer to the visitors, avoid redirects, and look at what the server does first.",
  },
];

export const RATINGS = {
  good: { words: "Good", sign: "●" },
  needs_improvement: { words: "Needs improvement", sign: "◆" },
  poor: { words: "Poor", sign: "▲" },
};

/** The metric with that name. */
export function metricNamed(name) {
  return METRICS.find((metric) => metric.name === name);
}

/** "good", "needs_improvement" or "poor"; null of nothing. */
export function rating(value, { good, poor }) {
  if (value === null || value === undefined) return null;
  return value <= good ? "good" : value <= poor ? "needs_improvement" : "poor";
}

/** 2.41 s, 248 ms, 0.083; what is round is said round: 2.5 s */
export function formatMetric(name, value) {
  if (value === null || value === undefined) return "–";
  if (name === "cls") return trimmedDecimal(value, 3);
  return value < SECOND_MS ? `${number(value)}\u00a0ms` : `${trimmedDecimal(value / SECOND_MS, 2)}\u00a0s`;
}

function trimmedDecimal(value, decimals) {
  const most = 10 ** decimals;
  const rounded = Math.round(value * most) / most;
  const needed = [0, 1, 2, 3].find((some) => Number(rounded.toFixed(some)) === rounded);
  return decimal(rounded, needed);
}

/** A share in percent, whole: what is not quite none or all is not said to be. */
export function wholePercent(value) {
  if (value > 0 && value < 0.5) return `<${percent(1, 0)}`;
  if (value < 100 && value >= 99.5) return `>${percent(99, 0)}`;
  return percent(value, 0);
}

/** Whether there are values, but too few to rely on their percentiles. */
export function hasFewSamples(samples) {
  return samples > 0 && samples < FEW_SAMPLES;
}

/** What the three core metrics say together: { isMet, words }. Where LCP or CLS is missing, they are not met, but may be
 * unmet: isMet is null. A page may go without INP: nobody touched it. */
export function verdict(rows, thresholds) {
  const core = METRICS.filter((metric) => metric.isCore).map((metric) => {
    const row = rows.find((one) => one.metric === metric.name);
    return { ...metric, p75: row.p75, samples: row.samples, rated: rating(row.p75, thresholds[metric.name]) };
  });
  const [measured, missing] = [core.filter((one) => one.rated), core.filter((one) => !one.rated)];
  const without = missing.length
    ? ` ${joinWords(missing.map((one) => one.short))} ${missing.length > 1 ? "were" : "was"} not measured.`
    : "";
  if (!measured.length)
    return { isMet: null, words: `Nothing was measured of ${joinWords(missing.map((one) => one.short))}.` };
  const off = measured.filter((one) => one.rated !== "good");
  const names = joinWords(measured.map((one) => one.short));
  const few = measured.some((one) => hasFewSamples(one.samples))
    ? " The page loads are few: some more may change this."
    : "";
  if (!off.length) {
    const of = measured.length > 1 ? `${names} are each good` : `${names} is good`;
    const isMet = missing.every((one) => one.name === "inp") || null;
    return { isMet, words: `${of} for at least three of four page loads.${without}${few}` };
  }
  const faults = off.map((one) => {
    const { good, poor } = thresholds[one.name];
    return one.rated === "poor"
      ? `${one.short} is poor: ${formatMetric(one.name, one.p75)} at p75, poor is above ${formatMetric(one.name, poor)}`
      : `${one.short} needs improvement: ${formatMetric(one.name, one.p75)} at p75, good is up to ${formatMetric(one.name, good)}`;
  });
  return { isMet: false, words: `${faults.join("; ")}.${without}${few}` };
}

/** "a, b and c" */
export function joinWords(words) {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join("");
}

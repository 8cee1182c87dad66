// The conclusions that an experiment's numbers support, as sentences. Pure: answers of the read API in, texts out.
//
// A variant is compared with the baseline; the first state that applies decides the sentence:
//   off      the split check failed: no conclusion
//   nobody   one of the two has no visitors
//   few      too few conversions or non-conversions for the tests to be valid
//   same     nobody or everybody converted: nothing to compare
//   sure     both p-values are small: the one valid at any time and the one for a single look
//   faded    only the p-value valid at any time is small, from an earlier look
//   planned  only the p-value for a single look is small: valid for one look at a time fixed in advance
//   open     neither is small: no significant difference, which does not mean that there is none
//
// Intervals of differences are Newcombe's, from the two Wilson intervals, for a single look.

import { plural, decimal, number, percent } from "../shared/formats.js";

// The usual 80% power: a true difference of (1.96 + 0.84) standard errors is detected four times out of five.
const DETECTABLE_STANDARD_ERRORS = 2.8;
const MIN_SHOWN_P = 0.0001;

/**
 * Returns the check of an experiment's split: { state: "none" | "alone" | "off" | "even", title, words }.
 *
 * @param {{ variants: { variant: string, visitors: number }[], split: Experiment['split'] }} options
 */
export function splitCheck({ variants, split }) {
  const all = variants.map(({ variant, visitors }) => `${variant} ${number(visitors)}`).join(", ");
  const visitors = variants.reduce((sum, one) => sum + one.visitors, 0);
  if (!visitors) return { state: "none", title: "No visitors", words: "No assignments in this range." };
  if (variants.length < 2) {
    const words = `All ${plural(visitors, "visitor")} had ${variants[0].variant}. An experiment needs a second variant to compare with.`;
    return { state: "alone", title: "Only one variant", words };
  }
  if (!split.is_off) {
    return {
      state: "even",
      title: "Even split",
      words: `${all}: consistent with an even split (${pValueText(split.p_value)}).`,
    };
  }
  const words = `${all}. An even split is this uneven in fewer than one of 1,000 experiments (${pValueText(split.p_value)}). The assignment is probably broken, and the other figures of this experiment are not reliable. Common causes: a variant that fails or redirects before it is counted, crawlers, or a variant that was added or removed within the range. If the split is uneven on purpose, this check does not apply and the p-values below are valid.`;
  return { state: "off", title: "Uneven split: results are not reliable", words };
}

/**
 * Returns the conclusions of a goal: for each variant but the baseline { variant, state, title, words }.
 *
 * @param {Experiment} experiment
 * @param {Goal} goal
 * @param {ExperimentsMeta} meta
 */
export function conclusionsOf(experiment, goal, meta) {
  const [base, ...others] = goal.variants;
  return others.map((one) => ({ variant: one.variant, ...conclusionFor(base, one, experiment, meta) }));
}

/**
 * @param {Variant} base
 * @param {Variant} one
 * @param {Experiment} experiment
 * @param {ExperimentsMeta} meta
 */
function conclusionFor(base, one, experiment, meta) {
  const [a, b] = [base.variant, one.variant];
  if (experiment.split.is_off) {
    const words = "The split is uneven; a difference here may be caused by it.";
    return { state: "off", title: `${b} cannot be compared with ${a}`, words };
  }
  const empty = [base, one].filter((arm) => !arm.visitors);
  if (empty.length) {
    const words = `${joinWords(empty.map((arm) => arm.variant))} had no visitors in this range.`;
    return { state: "nobody", title: `${b} cannot be compared with ${a}`, words };
  }
  const few = [base, one].filter((arm) => !arm.enough_data);
  if (few.length) return { state: "few", ...tooFewVisitors(base, one, few, meta) };
  if (one.p_value === null || one.p_value_any_time === null) {
    return { state: "same", title: `${b} and ${a} have the same rate`, words: "There is no difference to test." };
  }
  const isSure = isSmall(one.p_value_any_time, meta);
  const isPlanned = isSmall(one.p_value, meta);
  const how = one.conversions / one.visitors > base.conversions / base.visitors ? "more" : "less";
  const seen = `${rate(one)} compared with ${rate(base)}${one.lift ? `, ${percent(Math.abs(one.lift), 1)} ${how}` : ""}`;
  if (isSure && isPlanned) {
    const words = `${seen}. This is valid however often you have looked (${pValueText(one.p_value_any_time)}). The size of the difference is less certain: the data are consistent with ${intervalText(base, one, true)} ${how}.`;
    return { state: "sure", title: `${b} converts ${how} often than ${a}`, words };
  }
  if (isSure) {
    const words = `${seen}. The difference was significant earlier and no longer is (${pValueText(one.p_value)}). Something has changed in between: compare single weeks.`;
    return { state: "faded", title: `${b} and ${a} differed earlier, and no longer clearly do`, words };
  }
  if (isPlanned) {
    const words = `${seen}. The difference is significant if you decided in advance to look only now (${pValueText(one.p_value)}). If you have looked more than once, it is not significant yet (any time: ${pValueText(one.p_value_any_time)}): let the experiment continue.`;
    return { state: "planned", title: `${b} converts ${how} often than ${a}, if this is the only look`, words };
  }
  const words = `${seen}: chance alone often causes such a difference (${pValueText(one.p_value)}). The variants may still differ: the data are consistent with ${intervalText(base, one, false)}, and with this number of visitors a difference below about ${points(detectableDifference(base, one))} usually remains undetected.`;
  return { state: "open", title: `No significant difference between ${b} and ${a}`, words };
}

/**
 * Returns whether a p-value is below 1 - confidence: with 0.95, 0.05 is not.
 *
 * @param {number | null} value
 * @param {{ confidence: number }} options
 */
export function isSmall(value, { confidence }) {
  // 1 - 0.95 is a little more than 0.05.
  return value !== null && value < Number((1 - confidence).toFixed(9));
}

/**
 * @param {Variant} base
 * @param {Variant} one
 * @param {Variant[]} few
 * @param {{ least_of_a_kind: number }} options
 */
function tooFewVisitors(base, one, few, { least_of_a_kind: least }) {
  const has = (/** @type {Variant} */ arm) =>
    `${arm.variant} has ${plural(arm.conversions, "conversion")} and ${number(arm.visitors - arm.conversions)} visitors without one`;
  const words = `Each variant needs at least ${least} visitors who convert and ${least} who do not: ${joinWords(few.map(has))}. Until then, any difference may be chance.`;
  return { title: `Too few to compare ${one.variant} with ${base.variant}`, words };
}

/**
 * Returns the notes on an experiment's conclusions. `isFiltered`: whether the view has filters.
 *
 * @param {{ variants: { variant: string, visitors: number }[], goals: Goal[], split: Experiment['split'] }} options
 * @param {boolean} isFiltered
 */
export function notesOf({ variants, goals, split }, isFiltered) {
  const others = variants.slice(1).map(({ variant }) => variant);
  const isTested = !split.is_off && goals.length > 0 && others.length > 0;
  return [
    isTested && others.length > 1
      ? `Each of ${number(others.length)} variants is compared with ${variants[0].variant}; both p-values are corrected for multiple comparisons (Holm). Which of ${joinWords(others, "or")} is best was not tested.`
      : null,
    isTested && goals.length > 1
      ? `There are ${number(goals.length)} goals, and p-values are not corrected for that: decide by the goal that you chose before the experiment began. Among many goals one is likely to differ by chance.`
      : null,
    isTested && isFiltered
      ? "Filters select a part of the visitors. Among many parts one is likely to differ by chance."
      : null,
  ].filter(Boolean);
}

/**
 * Returns the interval of the difference of two rates, second minus first: [low, high] in percentage points.
 *
 * @param {Variant} base
 * @param {Variant} one
 */
export function differenceInterval(base, one) {
  const [p, q] = [base, one].map((arm) => (100 * arm.conversions) / arm.visitors);
  const low = q - p - Math.hypot(q - one.rate_low, base.rate_high - p);
  const high = q - p + Math.hypot(one.rate_high - q, p - base.rate_low);
  return [low, high];
}

/**
 * Returns the difference, in percentage points, that a single look detects four times out of five.
 *
 * @param {Variant} base
 * @param {Variant} one
 */
export function detectableDifference(base, one) {
  const p = (base.conversions + one.conversions) / (base.visitors + one.visitors);
  return 100 * DETECTABLE_STANDARD_ERRORS * Math.sqrt(p * (1 - p) * (1 / base.visitors + 1 / one.visitors));
}

/**
 * Returns the interval as text. A clear difference never includes 0 and an unclear one does, also after rounding.
 *
 * @param {Variant} base
 * @param {Variant} one
 * @param {boolean} isClear
 */
function intervalText(base, one, isClear) {
  const [low, high] = differenceInterval(base, one);
  if (!isClear) return `${signedPoints(Math.min(low, 0))} to ${signedPoints(Math.max(high, 0))} percentage points`;
  const [near, far] = [low, high].map(Math.abs).sort((a, b) => a - b);
  return `${pointsNumber(low * high < 0 ? 0 : near)} to ${points(far)}`;
}

/**
 * @param {number} value
 */
function points(value) {
  return `${pointsNumber(value)} percentage points`;
}

/**
 * @param {number} value
 */
function pointsNumber(value) {
  return decimal(value, value >= 1 ? 1 : value ? 2 : 0);
}

/**
 * @param {number} value
 */
function signedPoints(value) {
  return `${value < 0 ? "−" : value > 0 ? "+" : ""}${pointsNumber(Math.abs(value))}`;
}

/**
 * Returns a variant's rate: "4.1%"
 *
 * @param {{ rate: number | null }} options
 */
export function rate({ rate: value }) {
  return percent(value, value !== null && value < 1 ? 2 : 1, 1);
}

/**
 * Returns a p-value as text: "p = 0.012", "p below 0.0001"
 *
 * @param {number | null} value
 */
export function pValueText(value) {
  if (value === null) return "no p-value";
  return value < MIN_SHOWN_P ? `p below ${decimal(MIN_SHOWN_P, 4)}` : `p = ${pValueNumber(value)}`;
}

/**
 * Returns a p-value as a number: "0.012"; close to 0.05 with enough digits to tell the two sides apart.
 *
 * @param {number | null} value
 */
export function pValueNumber(value) {
  if (value === null) return "–";
  if (value < MIN_SHOWN_P) return `<${decimal(MIN_SHOWN_P, 4)}`;
  return decimal(value, Math.abs(value - 0.05) < 0.0006 ? 5 : value < 0.001 ? 4 : value < 0.1 ? 3 : 2);
}

/**
 * Returns "a", "a and b" or "a, b or c".
 *
 * @param {string[]} words
 * @param {string} [last]
 */
function joinWords(words, last = "and") {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}` : words.join("");
}

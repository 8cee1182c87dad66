// The conclusions that an experiment's numbers support, as sentences. Pure: answers of the read API in, texts out.
//
// A variant is compared with the baseline; the first state that applies decides the sentence:
//   off          the split check failed: no conclusion
//   empty        one of the two has no visitors
//   few          too few conversions or non-conversions for the tests to be valid
//   same         no visitors or all visitors converted: nothing to compare
//   significant  both p-values are small: the one valid at any time and the one for a single look
//   earlier      only the p-value valid at any time is small: it was significant earlier
//   planned      only the p-value for a single look is small: valid for one look at a time fixed in advance
//   open         neither is small: no significant difference, which does not mean that there is none
//
// Intervals of differences are Newcombe's, from the two Wilson intervals, for a single look.

import { decimal, number, percent } from "../shared/formats.js";
import { joinWords } from "../shared/join_words.js";
import { texts } from "../shared/messages.js";

const t = await texts("experiments");

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
  if (!visitors) return { state: "none", title: t("split_none"), words: t("split_none_words") };
  if (variants.length < 2) {
    const words = t("split_alone_words", { count: visitors, variant: variants[0].variant });
    return { state: "alone", title: t("split_alone"), words };
  }
  const values = { variants: all, p: pValueText(split.p_value) };
  if (!split.is_off) {
    return { state: "even", title: t("split_even"), words: t("split_even_words", values) };
  }
  return { state: "off", title: t("split_off"), words: t("split_off_words", values) };
}

/**
 * Returns the conclusions of a goal: for each variant but the baseline { variant, state, title, words }, and of a difference
 * the `leader`, the variant that converts more.
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
 * @returns {{ state: string, title: string, words: string, leader?: string }}
 */
function conclusionFor(base, one, experiment, meta) {
  const names = { variant: one.variant, baseline: base.variant };
  if (experiment.split.is_off) return { state: "off", title: t("not_comparable", names), words: t("off_words") };
  const empty = [base, one].filter((arm) => !arm.visitors);
  if (empty.length) {
    const words = t("empty_words", { variants: joinWords(empty.map((arm) => arm.variant)) });
    return { state: "empty", title: t("not_comparable", names), words };
  }
  const few = [base, one].filter((arm) => !arm.enough_data);
  if (few.length) return { state: "few", ...tooFewVisitors(base, one, few, meta) };
  if (one.p_value === null || one.p_value_any_time === null) {
    return { state: "same", title: t("same", names), words: t("same_words") };
  }
  const isSignificant = isSmall(one.p_value_any_time, meta);
  const isPlanned = isSmall(one.p_value, meta);
  const isMore = one.conversions / one.visitors > base.conversions / base.visitors;
  const leader = isMore ? one.variant : base.variant;
  const rates = ratesText(base, one, isMore);
  const p = pValueText(one.p_value);
  const anyTime = pValueText(one.p_value_any_time);
  if (isSignificant && isPlanned) {
    const values = { rates, p: anyTime, ...clearInterval(base, one) };
    return {
      ...{ state: "significant", leader },
      title: isMore ? t("converts_more", names) : t("converts_less", names),
      words: isMore ? t("significant_more", values) : t("significant_less", values),
    };
  }
  if (isSignificant) return { state: "earlier", title: t("earlier", names), words: t("earlier_words", { rates, p }) };
  if (isPlanned) {
    return {
      ...{ state: "planned", leader },
      title: isMore ? t("planned_more", names) : t("planned_less", names),
      words: t("planned_words", { rates, p, p_any_time: anyTime }),
    };
  }
  const detectable = pointsNumber(detectableDifference(base, one));
  const words = t("open_words", { rates, p, detectable, ...unclearInterval(base, one) });
  return { state: "open", title: t("open", names), words };
}

/**
 * Returns what to decide in a sentence. `state`: that of the experiment; `leaders`: the variants that convert more;
 * among several goals one is likely to differ by chance.
 *
 * @param {string} state
 * @param {string[]} leaders
 * @param {number} goals
 */
export function decisionOf(state, leaders, goals) {
  if (state === "off") return t("decide_not");
  if (leaders.length > 1 || (leaders.length && goals > 1)) return t("decide_by_goal", { variants: joinWords(leaders) });
  if (leaders.length) {
    const names = { variant: leaders[0] };
    return state === "significant" ? t("decide_for", names) : t("decide_if_planned", names);
  }
  return state === "earlier" ? t("decide_by_weeks") : t("decide_later");
}

/**
 * Returns "4.1% compared with 3.2%, 28.1% more".
 *
 * @param {Variant} base
 * @param {Variant} one
 * @param {boolean} isMore
 */
function ratesText(base, one, isMore) {
  const rates = { rate: rate(one), baseline: rate(base) };
  if (!one.lift) return t("rates", rates);
  const values = { ...rates, lift: percent(Math.abs(one.lift)) };
  return isMore ? t("rates_more", values) : t("rates_less", values);
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
    t("variant_has", { variant: arm.variant, count: arm.conversions, others: arm.visitors - arm.conversions });
  return {
    title: t("few", { variant: one.variant, baseline: base.variant }),
    words: t("few_words", { least, variants: joinWords(few.map(has)) }),
  };
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
      ? t("note_variants", {
          number: others.length,
          baseline: variants[0].variant,
          variants: joinWords(others, "disjunction"),
        })
      : null,
    isTested && goals.length > 1 ? t("note_goals", { number: goals.length }) : null,
    isTested && isFiltered ? t("note_filters") : null,
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
 * Returns the ends of an unclear difference's interval as texts with signs. It includes 0, also after rounding.
 *
 * @param {Variant} base
 * @param {Variant} one
 */
function unclearInterval(base, one) {
  const [low, high] = differenceInterval(base, one);
  return { low: signedPoints(Math.min(low, 0)), high: signedPoints(Math.max(high, 0)) };
}

/**
 * Returns the ends of a clear difference's interval as texts without signs.
 *
 * @param {Variant} base
 * @param {Variant} one
 */
function clearInterval(base, one) {
  const [low, high] = differenceInterval(base, one);
  const [near, far] = [low, high].map(Math.abs).sort((a, b) => a - b);
  return { low: pointsNumber(low * high < 0 ? 0 : near), high: pointsNumber(far) };
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
 * Returns a variant's rate: "4.1%"; "0.12%" below 1%, so that rates can be compared
 *
 * @param {{ rate: number | null }} options
 */
export function rate({ rate: value }) {
  return percent(value, value !== null && value < 1 ? 2 : 1);
}

/**
 * Returns a p-value as text: "p = 0.012", "p below 0.0001"
 *
 * @param {number | null} value
 */
export function pValueText(value) {
  if (value === null) return t("p_none");
  return value < MIN_SHOWN_P ? t("p_below", { limit: decimal(MIN_SHOWN_P, 4) }) : t("p_is", { p: pValueNumber(value) });
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

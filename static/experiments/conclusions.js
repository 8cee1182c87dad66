// What an experiment's numbers allow one to say, and what they do not, in sentences. Pure: answers of the read API in,
// words out; nothing here touches the page.
//
// Which sentence, for a variant beside the baseline, in this order:
//   off      the split is broken: nothing can be said
//   nobody   one of the two has no visitors
//   few      too few who convert, or too few who do not, for the tests to mean what they say
//   same     none converts, or all do: nothing to compare
//   sure     the p-value that holds at any look is small, and so is the one for a single look
//   faded    the former is small, from an earlier look, but the latter is no longer
//   planned  only the latter is small: true for whoever looks once, when it was planned
//   open     neither: no difference can be told, which is not to say that there is none
//
// Differences are told with an interval: Newcombe's, out of the two Wilson intervals. It is for a single look.

import { plural, decimal, number, percent } from "../shared/formats.js";

// The usual 80 % power: a true difference of (1.96 + 0.84) standard errors is noticed four times out of five.
const DETECTABLE_STANDARD_ERRORS = 2.8;
const MIN_SHOWN_P = 0.0001;

/** The visitors of an experiment's variants: { state: "none" | "alone" | "off" | "even", title, words }. */
export function splitCheck({ variants, split }) {
  const all = variants.map(({ variant, visitors }) => `${variant} ${number(visitors)}`).join(", ");
  const visitors = variants.reduce((sum, one) => sum + one.visitors, 0);
  if (!visitors) return { state: "none", title: "No visitors", words: "Nobody was assigned in these days." };
  if (variants.length < 2) {
    const words = `All ${plural(visitors, "visitor")} of these days had ${variants[0].variant}. An experiment needs a second variant to compare with.`;
    return { state: "alone", title: "Only one variant", words };
  }
  if (!split.is_off) {
    return {
      state: "even",
      title: "Split evenly",
      words: `${all}: as even as chance makes it (${pValueText(split.p_value)}).`,
    };
  }
  const words = `${all}. An even choice is that uneven less than once in a thousand experiments (${pValueText(split.p_value)}), so something is broken, and no other figure of this experiment can be trusted. The usual causes: a variant that fails or leads away before it is counted, crawlers, a variant that was added or taken away within these days. If you split unevenly on purpose, this check does not apply, and the p-values below stand.`;
  return { state: "off", title: "The split is off: do not trust this experiment", words };
}

/** What can be said of a goal: for each variant but the baseline { variant, state, title, words }. */
export function conclusionsOf(experiment, goal, meta) {
  const [base, ...others] = goal.variants;
  return others.map((one) => ({ variant: one.variant, ...conclusionFor(base, one, experiment, meta) }));
}

function conclusionFor(base, one, experiment, meta) {
  const [a, b] = [base.variant, one.variant];
  if (experiment.split.is_off) {
    const words = "The split is off, and as long as it is, a difference here may be of its making.";
    return { state: "off", title: `${b} cannot be compared with ${a}`, words };
  }
  const empty = [base, one].filter((arm) => !arm.visitors);
  if (empty.length) {
    const words = `${joinWords(empty.map((arm) => arm.variant))} had no visitors in these days.`;
    return { state: "nobody", title: `${b} cannot be compared with ${a}`, words };
  }
  const few = [base, one].filter((arm) => !arm.enough_data);
  if (few.length) return { state: "few", ...tooFewVisitors(base, one, few, meta) };
  if (one.p_value === null || one.p_value_any_time === null) {
    return { state: "same", title: `${b} and ${a} are alike`, words: "There is no difference to test." };
  }
  const isSure = isSmall(one.p_value_any_time, meta);
  const isPlanned = isSmall(one.p_value, meta);
  const how = one.conversions / one.visitors > base.conversions / base.visitors ? "more" : "less";
  const seen = `${rate(one)} against ${rate(base)}${one.lift ? `, ${percent(Math.abs(one.lift), 1)} ${how}` : ""}`;
  if (isSure && isPlanned) {
    const words = `${seen}. That holds however often you have looked (${pValueText(one.p_value_any_time)}). How much ${how} is less certain: ${intervalText(base, one, true)} fit what was seen.`;
    return { state: "sure", title: `${b} converts ${how} often than ${a}`, words };
  }
  if (isSure) {
    const words = `${seen}. At an earlier look the difference was too large for chance; by now it is not (${pValueText(one.p_value)}). Something has changed in between: look at the weeks one by one.`;
    return { state: "faded", title: `${b} and ${a} differed, and no longer clearly do`, words };
  }
  if (isPlanned) {
    const words = `${seen}. If you fixed beforehand to look now, and only now, that is too much for chance (${pValueText(one.p_value)}). If you have looked more than once, this is not yet safe to say (at any time: ${pValueText(one.p_value_any_time)}): let it run on.`;
    return { state: "planned", title: `${b} converts ${how} often than ${a}, if this is your one look`, words };
  }
  const words = `${seen}: chance alone makes such a difference often enough (${pValueText(one.p_value)}). That is not to say they are alike: ${intervalText(base, one, false)} fit what was seen, and with so many visitors a difference below about ${points(detectableDifference(base, one))} mostly goes unseen.`;
  return { state: "open", title: `No difference between ${b} and ${a} can be told`, words };
}

/** Whether a p-value is below the limit that the confidence sets: 0.05 is not, where that is 0.95. */
export function isSmall(value, { confidence }) {
  // 1 - 0.95 is a little more than 0.05.
  return value !== null && value < Number((1 - confidence).toFixed(9));
}

function tooFewVisitors(base, one, few, { least_of_a_kind: least }) {
  const has = (arm) =>
    `${arm.variant} has ${number(arm.conversions)} who did and ${number(arm.visitors - arm.conversions)} who did not`;
  const words = `Of each variant at least ${least} visitors have to convert, and ${least} not to, before a test means anything: ${joinWords(few.map(has))}. Until then, any difference may be chance.`;
  return { title: `Too few to compare ${one.variant} with ${base.variant}`, words };
}

/** What has to be known beside the sentences of an experiment: texts. `isFiltered`: whether the view is. */
export function notesOf({ variants, goals, split }, isFiltered) {
  const others = variants.slice(1).map(({ variant }) => variant);
  const isTested = !split.is_off && goals.length > 0 && others.length > 0;
  return [
    isTested && others.length > 1
      ? `${number(others.length)} variants are each compared with ${variants[0].variant}; both p-values are corrected for their number (Holm). Whether ${joinWords(others, "or")} is the best of them was not tested.`
      : null,
    isTested && goals.length > 1
      ? `There are ${number(goals.length)} goals, and nothing corrects for that: go by the one you chose before the experiment began. Of many goals one differs by chance.`
      : null,
    isTested && isFiltered
      ? "A filter shows a part of the visitors. Who looks at part after part finds one with a difference by chance."
      : null,
  ].filter(Boolean);
}

/** The interval of the difference of two rates (0 to 1), second minus first: [low, high] in percentage points. */
export function differenceInterval(base, one) {
  const [p, q] = [base, one].map((arm) => (100 * arm.conversions) / arm.visitors);
  const low = q - p - Math.hypot(q - one.rate_low, base.rate_high - p);
  const high = q - p + Math.hypot(one.rate_high - q, p - base.rate_low);
  return [low, high];
}

/** The difference, in percentage points, that would be noticed four times out of five by a single look. */
export function detectableDifference(base, one) {
  const p = (base.conversions + one.conversions) / (base.visitors + one.visitors);
  return 100 * DETECTABLE_STANDARD_ERRORS * Math.sqrt(p * (1 - p) * (1 / base.visitors + 1 / one.visitors));
}

/** The interval in words. A clear difference does not reach 0 and an unclear one does, whatever the last digit says. */
function intervalText(base, one, isClear) {
  const [low, high] = differenceInterval(base, one);
  if (!isClear) return `${signedPoints(Math.min(low, 0))} to ${signedPoints(Math.max(high, 0))} percentage points`;
  const [near, far] = [low, high].map(Math.abs).sort((a, b) => a - b);
  return `${pointsNumber(low * high < 0 ? 0 : near)} to ${points(far)}`;
}

function points(value) {
  return `${pointsNumber(value)} percentage points`;
}

function pointsNumber(value) {
  return decimal(value, value >= 1 ? 1 : value ? 2 : 0);
}

function signedPoints(value) {
  return `${value < 0 ? "−" : value > 0 ? "+" : ""}${pointsNumber(Math.abs(value))}`;
}

/** "4.1%" */
export function rate({ rate: value }) {
  return percent(value, value < 1 ? 2 : 1, 1);
}

/** "p = 0.012", "p below 0.0001" */
export function pValueText(value) {
  if (value === null) return "no p-value";
  return value < MIN_SHOWN_P ? `p below ${decimal(MIN_SHOWN_P, 4)}` : `p = ${pValueNumber(value)}`;
}

/** 0.012; about the limit of 0.05 with as many digits as tell the two sides apart. */
export function pValueNumber(value) {
  if (value === null) return "–";
  if (value < MIN_SHOWN_P) return `<${decimal(MIN_SHOWN_P, 4)}`;
  return decimal(value, Math.abs(value - 0.05) < 0.0006 ? 5 : value < 0.001 ? 4 : value < 0.1 ? 3 : 2);
}

/** "a", "a and b", "a, b or c" */
function joinWords(words, last = "and") {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}` : words.join("");
}

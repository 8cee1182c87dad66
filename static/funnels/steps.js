// The steps of a funnel in the address: ?step=pathname:/pricing&step=event_name:signup. Pure.
//
// A step: { field, value }; field is pathname (a pageview of that path), event_name (an event with that name) or goal (a
// conversion of the saved goal with that id).

import { valueText } from "../shared/fields.js";
import { texts } from "../shared/messages.js";

const t = await texts("funnels");
const shared = await texts("shared");
// The read API's limits of a funnel.
export const MIN_STEPS = 2;
export const MAX_STEPS = 8;
/** @type {Record<string, string>} */
export const KINDS = { pathname: t("page"), event_name: t("event") };
/** @type {Record<string, string>} */
export const FUNNEL_KINDS = { ...KINDS, goal: shared("goal") };

/** The fields of which two values are shown side by side. */
export const SIDE_FIELDS = ["device", "channel", "country"];

/** The page's part of the address: steps, and what is side by side (`side`, and two values of a field); invalid steps and steps beyond the maximum are ignored. */
/** @type {ViewState} */
export const STEPS_STATE = {
  read: (/** @type {URLSearchParams} */ query) => ({
    steps: query
      .getAll("step")
      .map((text) => readStep(text, FUNNEL_KINDS))
      .filter(Boolean)
      .slice(0, MAX_STEPS),
    side: ["period", ...SIDE_FIELDS].find((one) => one === query.get("side")) || "",
    sideA: query.get("side_a") || "",
    sideB: query.get("side_b") || "",
  }),
  write: ({ steps, side, sideA, sideB }) => [
    ...steps.map((/** @type {FunnelStep} */ step) => ["step", stepText(step)]),
    ...(side ? [["side", side]] : []),
    ...(side && sideA ? [["side_a", sideA]] : []),
    ...(side && sideB ? [["side_b", sideB]] : []),
  ],
};

/**
 * Returns the step of a text as in the address; null for an invalid one.
 *
 * @param {string} text
 * @param {Record<string, string>} [kinds]
 */
export function readStep(text, kinds = KINDS) {
  const at = text.indexOf(":");
  const [field, value] = [text.slice(0, at), text.slice(at + 1)];
  return at > 0 && Object.hasOwn(kinds, field) && value ? { field, value } : null;
}

/**
 * Returns a step as in the address and the read API: "pathname:/pricing".
 *
 * @param {{ field: string, value: string }} options
 */
export function stepText({ field, value }) {
  return `${field}:${value}`;
}

/**
 * Returns a step's value as it is shown: of a goal its name, once the board's saved goals are loaded.
 *
 * @param {FunnelStep} step
 * @param {SavedFilters} saved
 */
export function shownValue({ field, value }, { goals, isLoaded }) {
  if (field !== "goal") return valueText(field, value);
  return goals[value] ?? (isLoaded ? t("deleted_goal") : value);
}

/**
 * Returns what was typed as a step, or null: a path gets a leading slash, a URL is reduced to its path.
 *
 * @param {string} field
 * @param {string} typed
 */
export function typedStep(field, typed) {
  const text = typed.trim();
  if (!text) return null;
  if (field !== "pathname") return { field, value: text };
  if (/^https?:\/\//i.test(text) && URL.canParse?.(text)) return { field, value: new URL(text).pathname };
  return { field, value: text.startsWith("/") ? text : `/${text}` };
}

/**
 * Returns the steps with the one at `from` moved to `to`.
 *
 * @param {FunnelStep[]} steps
 * @param {number} from
 * @param {number} to
 */
export function moveStep(steps, from, to) {
  const rest = steps.filter((_, i) => i !== from);
  return [...rest.slice(0, to), steps[from], ...rest.slice(to)];
}

/**
 * Returns a key for each step that stays the same when it moves; unique also for equal steps.
 *
 * @param {FunnelStep[]} steps
 */
export function stepKeys(steps) {
  const written = steps.map(stepText);
  return written.map((text, i) => `${text}#${written.slice(0, i).filter((other) => other === text).length}`);
}

/**
 * Returns the index of the step with the largest drop-off; -1 where there are less than two to compare.
 *
 * @param {FunnelRow[]} rows
 */
export function largestLoss(rows) {
  const shares = rows.map((row, i) => ({ i, share: row.of_previous ?? -1 })).filter(({ i, share }) => i && share >= 0);
  if (shares.length < 2 || rows[0].visits === 0) return -1;
  const least = shares.reduce((one, other) => (other.share < one.share ? other : one));
  return least.share < 100 && shares.some(({ share }) => share > least.share) ? least.i : -1;
}

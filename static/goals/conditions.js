// How the form of a goal shows its conditions: the event's name or the page's path, and further filters. Pure.

import { valueText } from "../shared/fields.js";
import { OPERATORS as ALL, filterText, readFilter, valuesByKey } from "../shared/filter_words.js";

/** What the first condition compares, with the words of the form. */
export const OPERATORS = ALL.filter(([sign]) => sign !== "!").map(([sign, words]) => [`${sign}=`, words]);

/** @param {"event" | "page"} type */
export const fieldOf = (type) => (type === "page" ? "pathname" : "event_name");

/**
 * Returns the filters of a goal: the condition on its name or path, and further ones.
 *
 * @param {{ type: "event" | "page", operator: string, text: string, more: string[] }} values
 * @returns {string[]}
 */
export function matchOf({ type, operator, text, more }) {
  return [...(text.trim() ? [`filter_${fieldOf(type)}${operator}${text.trim()}`] : []), ...more];
}

/**
 * Returns conditions for reading: "Page begins with /docs, Country is Germany"
 *
 * @param {string[]} match
 */
export function conditionsText(match) {
  return valuesByKey(match.map(readFilter))
    .map(([key, values]) => filterText(key, values))
    .join(", ");
}

/**
 * Returns what the form shows of a goal: its first filter on the name or path, and all others.
 *
 * @param {{ type: "event" | "page", match: string[] }} goal
 */
export function partsOf({ type, match }) {
  const pattern = new RegExp(`^filter_${fieldOf(type)}([\\^*$]?=)(.+)$`, "s");
  const at = match.findIndex((one) => pattern.test(one));
  const [, operator, text] = at < 0 ? [null, "=", ""] : /** @type {RegExpMatchArray} */ (match[at].match(pattern));
  return { operator, text: text && valueText(fieldOf(type), text), more: match.filter((_, i) => i !== at) };
}

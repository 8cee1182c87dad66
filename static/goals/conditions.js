// How the form of a goal shows its conditions: the event's name or the page's path, and further filters as text. Pure.

import { valueText } from "../shared/fields.js";
import { OPERATORS as ALL, readFilter, splitKey } from "../shared/filter_words.js";

const PAGES = ["pathname", "entry_page", "exit_page"];

/** What the first condition compares, with the words of the form. */
export const OPERATORS = ALL.filter(([sign]) => sign !== "!").map(([sign, words]) => [`${sign}=`, words]);

/** @param {"event" | "page"} type */
export const fieldOf = (type) => (type === "page" ? "pathname" : "event_name");

/**
 * Returns the filters of a goal: the condition on its name or path, and further ones, one per line.
 *
 * @param {{ type: "event" | "page", operator: string, text: string, more: string }} values
 * @returns {string[]}
 */
export function matchOf({ type, operator, text, more }) {
  const own = text.trim() ? [`filter_${fieldOf(type)}${operator}${text.trim()}`] : [];
  const others = more.split("\n").map((line) => line.trim());
  return [...own, ...others.filter(Boolean)];
}

/**
 * Returns a condition for reading: "pathname^=/docs"
 *
 * @param {string} written
 */
export function conditionText(written) {
  const [key, value] = readFilter(written);
  const isPage = PAGES.includes(splitKey(key).field);
  return `${key}=${isPage ? valueText("pathname", value) : value}`;
}

/**
 * Returns what the form shows of a goal: its first filter on the name or path, and all others as lines.
 *
 * @param {{ type: "event" | "page", match: string[] }} goal
 */
export function partsOf({ type, match }) {
  const pattern = new RegExp(`^filter_${fieldOf(type)}([\\^*$]?=)(.+)$`, "s");
  const at = match.findIndex((one) => pattern.test(one));
  const [, operator, text] = at < 0 ? [null, "=", ""] : /** @type {RegExpMatchArray} */ (match[at].match(pattern));
  return { operator, text: text && valueText(fieldOf(type), text), more: match.filter((_, i) => i !== at).join("\n") };
}

// Filters as the read API names them, and their words. Pure, except filterValueNode, which creates elements.
//
// A filter's key is a field and the sign of an operator, as in its parameter without "filter_": country, country!,
// pathname*, prop.plan^. In a query the sign stands before "=": filter_country!=DE.

import { FILTERS, fieldName, textNode, valueText } from "./fields.js";
import { texts } from "./messages.js";

const t = await texts("shared");

/** The operators: [sign, words]. */
export const OPERATORS = [
  ["", t("operator_is")],
  ["!", t("operator_is_not")],
  ["*", t("operator_contains")],
  ["^", t("operator_begins_with")],
  ["$", t("operator_ends_with")],
];
const PROPERTY = "prop.";

/** What goals and segments filter by: FILTERS, and properties of event data. */
export const PROPERTY_FILTERS = [...FILTERS, PROPERTY];

/** What the owner's pages filter by: a saved goal too. */
export const OWN_FILTERS = [...FILTERS, "goal", PROPERTY];

/**
 * Returns the parts of a key: { field, sign }.
 *
 * @param {string} key
 */
export function splitKey(key) {
  const isSigned = OPERATORS.some(([sign]) => sign && key.endsWith(sign));
  return isSigned ? { field: key.slice(0, -1), sign: key.slice(-1) } : { field: key, sign: "" };
}

/**
 * Returns whether a page with these fields takes a filter by that key. A goal has no operators.
 *
 * @param {string} key
 * @param {string[]} fields
 */
export function isTaken(key, fields) {
  const { field, sign } = splitKey(key);
  if (field.startsWith(PROPERTY)) return field.length > PROPERTY.length && fields.includes(PROPERTY);
  return fields.includes(field) && (field !== "goal" || !sign);
}

/**
 * Returns the filter of a text as segments have it: ["country!", "DE"] for "filter_country!=DE".
 *
 * @param {string} text
 * @returns {Filter}
 */
export function readFilter(text) {
  const at = text.indexOf("=");
  return [text.slice("filter_".length, at), text.slice(at + 1)];
}

/**
 * Returns a filter as a text: "filter_country!=DE"
 *
 * @param {Filter} filter
 */
export function filterParameter([key, value]) {
  return `filter_${key}=${value}`;
}

/**
 * Returns the values of each key, in the order in which the keys first occur.
 *
 * @param {Filter[]} filters
 * @returns {[key: string, values: string[]][]}
 */
export function valuesByKey(filters) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const [key, value] of filters) found.set(key, [...(found.get(key) || []), value]);
  return [...found];
}

/**
 * Returns a text with a capital first letter.
 *
 * @param {string} text
 */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Returns the parts of a filter's sentence: { field: "Country", operator: "is not", values: "Germany or France" }. `goals`
 * has the names of goals by id.
 *
 * @param {string} key
 * @param {string[]} values
 * @param {Record<string, string>} [goals]
 */
export function filterParts(key, values, goals = {}) {
  const { field, sign } = splitKey(key);
  const isKnown = FILTERS.includes(field);
  const [, operator] = OPERATORS.find(([one]) => one === sign) || OPERATORS[0];
  const own = field === "goal" ? t("goal") : field.startsWith(PROPERTY) ? field.slice(PROPERTY.length) : field;
  const named = values.map((value) => filterValueText(field, value, goals));
  return {
    field: capital(isKnown ? fieldName(field) : own),
    operator,
    values: named.reduce((first, second) => t("either", { first, second })),
  };
}

/**
 * Returns a filter as one text: "Page begins with /blog or /docs"
 *
 * @param {string} key
 * @param {string[]} values
 * @param {Record<string, string>} [goals]
 */
export function filterText(key, values, goals) {
  return t("filter_sentence", filterParts(key, values, goals));
}

/**
 * Returns the name of a value of any field.
 *
 * @param {string} field
 * @param {string} value
 * @param {Record<string, string>} [goals]
 */
export function filterValueText(field, value, goals = {}) {
  if (field === "goal") return goals[value] || value;
  return FILTERS.includes(field) ? valueText(field, value) : value || t("unset_property");
}

/**
 * Returns the name of a value of any field as nodes.
 *
 * @param {string} field
 * @param {string} value
 * @param {Record<string, string>} [goals]
 */
export function filterValueNode(field, value, goals) {
  return FILTERS.includes(field) ? textNode(field, value) : filterValueText(field, value, goals);
}

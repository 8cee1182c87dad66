// The texts of the pages, in the chosen language or the browser's (shared/language.js).
//
//   const t = await texts("funnels");
//   t("add_step")                               "Add a step"
//   t("conversion", { from: "Cart", share })    a text with parameters: "{share} went on from {from}"
//   t("visitors", { count: 3 })                 "3 visitors"
//   t.rich("see_docs", { link: h("a", ...) })   the children of an element: parameters may be nodes
//
// static/messages/ has one file for each language with all parts of the pages ("shared", "funnels"); the server serves each
// part by itself (tally/web/pages.py). A text that depends on a number has a form for each plural category of
// Intl.PluralRules, selected by the parameter `count`: { "one": "{count} visitor", "other": "{count} visitors" }. Numbers
// are written in the viewer's locale.
//
// Keys are written as literals, so that a test finds missing and unused texts (tests/js/unit/messages.test.js).

import { language, locales } from "./language.js";
import { at } from "./paths.js";

/** @typedef {string | Record<string, string>} Message */
/** @typedef {Record<string, string | number | Node>} Values */

const plurals = new Intl.PluralRules(language);
const numbers = new Intl.NumberFormat(locales, { maximumFractionDigits: 20 });
/** @type {Map<string, Promise<Record<string, Message>>>} */
const loaded = new Map();

/**
 * Returns the function that returns the texts of a part of the pages.
 *
 * @param {string} part
 */
export async function texts(part) {
  if (!loaded.has(part)) loaded.set(part, load(part));
  const messages = await /** @type {Promise<Record<string, Message>>} */ (loaded.get(part));

  /**
   * @param {string} key
   * @param {Values} [values]
   */
  function rich(key, values = {}) {
    const message = messages[key];
    if (message === undefined) throw new Error(`The part ${part} has no text ${key}`);
    return filled(typeof message === "string" ? message : formOf(message, Number(values.count)), values);
  }

  const t = (/** @type {string} */ key, /** @type {Record<string, string | number>} */ values = {}) =>
    rich(key, values).join("");
  return Object.assign(t, { rich });
}

/**
 * @param {string} part
 */
async function load(part) {
  const answer = await fetch(at(`/assets/messages/${language}/${part}.json`));
  if (!answer.ok) throw new Error(`The texts of the pages did not load: ${answer.status}`);
  return answer.json();
}

/**
 * Returns the plural form for a count.
 *
 * @param {Record<string, string>} forms
 * @param {number} count
 */
function formOf(forms, count) {
  return forms[plurals.select(count)] ?? forms.other;
}

/**
 * Returns a text with its parameters, as a list of texts and nodes. An unknown parameter stays as it is written.
 *
 * @param {string} text
 * @param {Values} values
 * @returns {(string | Node)[]}
 */
function filled(text, values) {
  // Split by a group: texts at even positions, names of parameters at odd ones.
  return text.split(/\{(\w+)\}/).map((piece, index) => {
    if (index % 2 === 0) return piece;
    const value = values[piece];
    if (value === undefined) return `{${piece}}`;
    return typeof value === "number" ? numbers.format(value) : value;
  });
}

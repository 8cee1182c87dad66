// Lists of words within a sentence, in the language of the pages. Pure.

import { language } from "./language.js";

/**
 * Returns "a", "a and b" or "a, b and c"; with the type "disjunction" "a, b or c".
 *
 * @param {string[]} words
 * @param {Intl.ListFormatType} [type]
 */
export function joinWords(words, type = "conjunction") {
  // American English has a comma before "and".
  return new Intl.ListFormat(language === "en" ? "en-GB" : language, { type }).format(words);
}

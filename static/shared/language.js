// The language of the pages and the locales of numbers and dates. Pure but for reading and storing the choice.
//
// The words are those of the language chosen in this browser, else of the first of the browser's languages that the pages
// have, else English. Numbers and dates follow the browser's locales of that language (en-GB writes 21 Nov); where the
// browser's languages are none that the pages have, they follow the browser's first locale.
//
// Intl may reject what a browser reports: one started under LANG=C reports "C" or "en-US@posix".

const KEY = "tally.language";

/** The languages that static/messages/ has, each by its own name. */
export const LANGUAGES = /** @type {const} */ ({ en: "English", de: "Deutsch", fr: "Français", es: "Español" });

const reported = usableLocales(navigator.languages?.length ? navigator.languages : [navigator.language]);

/** The code of the pages' language: a key of LANGUAGES. */
export const language = languageOf(chosenLanguage(), reported);

/** The locales for Intl, the preferred one first; empty means the browser's default. */
export const locales = localesOf(language, chosenLanguage(), reported);

/**
 * Returns the language tags that Intl accepts, in order. POSIX names are converted.
 *
 * @param {readonly string[]} tags
 */
export function usableLocales(tags) {
  return tags.flatMap((tag) => {
    try {
      // de_DE.UTF-8@euro -> de-DE
      return Intl.NumberFormat.supportedLocalesOf(
        String(tag)
          .replace(/[.@].*/, "")
          .replaceAll("_", "-"),
      );
    } catch {
      return [];
    }
  });
}

/**
 * Returns the language of the pages for a choice ("" for none) and the browser's languages.
 *
 * @param {string} choice
 * @param {readonly string[]} tags
 */
export function languageOf(choice, tags) {
  const known = [choice, ...tags.map((tag) => tag.split("-")[0])];
  return known.find((code) => Object.hasOwn(LANGUAGES, code)) || "en";
}

/**
 * Returns the locales for numbers and dates.
 *
 * @param {string} words
 * @param {string} choice
 * @param {readonly string[]} tags
 */
export function localesOf(words, choice, tags) {
  const same = tags.filter((tag) => tag.split("-")[0] === words);
  if (same.length) return same;
  return choice ? [words] : [...tags];
}

/** Returns the language chosen in this browser, "" for the browser's own. */
export function chosenLanguage() {
  try {
    return localStorage.getItem(KEY) || "";
  } catch {
    return ""; // Storage is blocked.
  }
}

/**
 * Stores a language for this browser, "" for the browser's own, and reloads the page in it.
 *
 * @param {string} code
 */
export function chooseLanguage(code) {
  try {
    if (code) localStorage.setItem(KEY, code);
    else localStorage.removeItem(KEY);
  } catch {
    // Storage is blocked: the language stays the browser's.
  }
  location.reload();
}

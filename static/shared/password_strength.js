// An estimate of how hard a password is to guess. Key sequences, repeated letters, years and common words count as little
// more than one character, since attackers try them first. Pure: nothing leaves the page.

import { texts } from "./messages.js";

const t = await texts("passwords");

// The server accepts 10 to 200 characters.
const MIN_LENGTH = 10;
const MAX_LENGTH = 200;
// Below WEAK_BITS an attacker who has the hash finds the password in hours, below FAIR_BITS in years.
const WEAK_BITS = 38;
const FAIR_BITS = 56;

const KEY_SEQUENCES = [
  "abcdefghijklmnopqrstuvwxyz",
  "01234567890",
  "qwertyuiop",
  "asdfghjkl",
  "zxcvbnm",
  "qwertzuiop",
  "azertyuiop",
  "1qaz2wsx3edc4rfv",
];
const COMMON_WORDS = (
  "password passwort passw0rd p@ssword p@ssw0rd motdepasse welcome willkommen letmein iloveyou dragon monkey sunshine princess football " +
  "baseball master shadow superman batman trustno1 secret hello freedom whatever login admin administrator root user test " +
  "guest changeme default server analytics tally stats website summer winter spring autumn monday january hallo schatz"
).split(" ");

/**
 * Returns { level: 0 to 3, words, fault }: `fault` is a sentence where the password is not accepted, else null.
 *
 * @param {string} password
 * @param {string} [email]
 */
export function strength(password, email = "") {
  const length = [...password].length;
  if (length < MIN_LENGTH) {
    return refused(t("password_too_short", { length, min: MIN_LENGTH }), t("password_min", { min: MIN_LENGTH }));
  }
  if (length > MAX_LENGTH) {
    return refused(t("password_too_long", { length, max: MAX_LENGTH }), t("password_max", { max: MAX_LENGTH }));
  }
  const bits = bitsOf(password, email);
  if (bits < WEAK_BITS) {
    return {
      level: 1,
      words: t("password_weak"),
      fault: null,
    };
  }
  if (bits < FAIR_BITS) return { level: 2, words: t("password_fair"), fault: null };
  return { level: 3, words: t("password_strong"), fault: null };
}

/**
 * @param {string} words
 * @param {string} fault
 */
function refused(words, fault) {
  return { level: 0, words, fault };
}

/**
 * @param {string} password
 * @param {string} email
 */
function bitsOf(password, email) {
  const rest = collapseGuessable(password.toLowerCase(), email.toLowerCase().split(/[@.]/));
  // Letters of words carry about 3 bits each, mixed characters more. A leading capital and a trailing number add little.
  const inner = password.replace(/^\p{Lu}(?=\p{Ll})/u, "a").replace(/[\d!?.]{1,4}$/, "");
  const kinds = [/\p{Lu}/u, /\p{Ll}/u, /\d/, /[^\p{L}\d\s]/u].filter((kind) => kind.test(inner)).length;
  return [...rest].length * (kinds < 2 ? 2.8 : kinds < 3 ? 3.6 : 4.4);
}

/**
 * Returns the password with each guessable piece replaced by one character.
 *
 * @param {string} password
 * @param {string[]} own
 */
function collapseGuessable(password, own) {
  let rest = password;
  for (const word of [...COMMON_WORDS, ...own.filter((part) => part.length > 3)]) rest = rest.replaceAll(word, "w");
  rest = rest.replace(/(?:19|20)\d\d/g, "y").replace(/(.)\1{2,}/gu, "$1");
  for (const row of KEY_SEQUENCES) {
    for (const line of [row, [...row].reverse().join("")]) rest = collapseSequence(rest, line);
  }
  return rest.replace(/(.{2,}?)\1+/gu, "$1");
}

/**
 * @param {string} text
 * @param {string} row
 */
function collapseSequence(text, row) {
  let rest = text;
  for (let size = row.length; size >= 3; size--) {
    for (let start = 0; start + size <= row.length; start++) {
      rest = rest.replaceAll(row.slice(start, start + size), row[start]);
    }
  }
  return rest;
}

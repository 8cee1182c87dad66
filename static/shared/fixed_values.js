// The values that fields with a fixed set of them can have, as they are stored. Pure.

import { VALUES } from "./fields.js";
import { countryName } from "./formats.js";

// Codes that have a name and are not replaced by another one, without groupings and codes for tests.
const LETTERS = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
const NO_COUNTRIES = ["EU", "EZ", "QO", "UN", "XA", "XB", "ZZ"];
const COUNTRIES = LETTERS.flatMap((first) => LETTERS.map((second) => first + second)).filter(
  (code) =>
    countryName(code) !== code && new Intl.Locale(`und-${code}`).region === code && !NO_COUNTRIES.includes(code),
);

/**
 * Returns every value that a field with a fixed set of values can have; null for other fields.
 *
 * @param {string} field
 * @returns {string[] | null}
 */
export function fixedValues(field) {
  if (field === "country") return COUNTRIES;
  return Object.hasOwn(VALUES, field) ? Object.keys(VALUES[field]) : null;
}

// Time zones to choose from, by their current names in the tz database. Browsers list some under older names
// (Asia/Calcutta). Both names are valid everywhere; only the current one is shown. Also their offsets from UTC.

import { offsetAt } from "./view_state.js";

const MINUTE_MS = 60_000;

/** @type {Record<string, string>} */
const CURRENT_NAMES = {
  "Africa/Asmera": "Africa/Asmara",
  "America/Buenos_Aires": "America/Argentina/Buenos_Aires",
  "America/Catamarca": "America/Argentina/Catamarca",
  "America/Coral_Harbour": "America/Atikokan",
  "America/Cordoba": "America/Argentina/Cordoba",
  "America/Godthab": "America/Nuuk",
  "America/Indianapolis": "America/Indiana/Indianapolis",
  "America/Jujuy": "America/Argentina/Jujuy",
  "America/Louisville": "America/Kentucky/Louisville",
  "America/Mendoza": "America/Argentina/Mendoza",
  "Asia/Calcutta": "Asia/Kolkata",
  "Asia/Katmandu": "Asia/Kathmandu",
  "Asia/Rangoon": "Asia/Yangon",
  "Asia/Saigon": "Asia/Ho_Chi_Minh",
  "Atlantic/Faeroe": "Atlantic/Faroe",
  "Europe/Kiev": "Europe/Kyiv",
  "Pacific/Enderbury": "Pacific/Kanton",
  "Pacific/Ponape": "Pacific/Pohnpei",
  "Pacific/Truk": "Pacific/Chuuk",
};

/**
 * Returns every zone that the browser supports, and `more`, sorted.
 *
 * @param {...any} more
 */
export function allZones(...more) {
  const known = (Intl.supportedValuesOf?.("timeZone") || []).map(currentName);
  return [...new Set([...known, "UTC", ...more.filter(Boolean)])].sort();
}

/**
 * Returns a zone's name for display: America/New York
 *
 * @param {string} zone
 */
export function zoneLabel(zone) {
  return currentName(zone).replaceAll("_", " ");
}

/**
 * Returns the name of a zone in the list.
 *
 * @param {string} zone
 */
export function currentName(zone) {
  return CURRENT_NAMES[zone] || zone;
}

/**
 * Returns the minutes from UTC to a zone's standard time and to its summer time in the year of `now`; equal where there is
 * no summer time.
 *
 * @param {string} zone
 * @param {number} [now]
 */
export function zoneOffsets(zone, now = Date.now()) {
  const year = new Date(now).getUTCFullYear();
  const offsets = [0, 6].map((month) => offsetAt(Date.UTC(year, month), zone) / MINUTE_MS);
  return [Math.min(...offsets), Math.max(...offsets)];
}

/**
 * Returns an offset for display: UTC+5:30, UTC
 *
 * @param {number} minutes
 */
export function offsetLabel(minutes) {
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  if (!minutes) return "UTC";
  return `UTC${minutes < 0 ? "\u2212" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

// Formats of numbers, times, countries and languages, in the viewer's locale (shared/language.js). Pure.
//
// The one module that reads the browser's time zone. Intl may reject it: a browser without a known zone reports
// "Etc/Unknown".

import { language, locales, usableLocales } from "./language.js";
import { texts } from "./messages.js";

const t = await texts("shared");

const whole = numberFormat({ maximumFractionDigits: 0 });
const short = numberFormat({ notation: "compact", maximumFractionDigits: 1 });

/** Returns the browser's language where Intl accepts it, else the first accepted of its languages, else "en". */
export function validLanguage() {
  return usableLocales([navigator.language]).includes(navigator.language) ? navigator.language : locales[0] || "en";
}

/**
 * Returns an Intl.NumberFormat in the viewer's language.
 *
 * @param {Intl.NumberFormatOptions} options
 */
export function numberFormat(options) {
  return new Intl.NumberFormat(locales, options);
}

/**
 * Returns a number as "12,480"; "–" for none.
 *
 * @param {number | null | undefined} value
 */
export function number(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/**
 * Returns a number as "12.5K" where space is short; the exact number belongs in a tooltip.
 *
 * @param {number | null | undefined} value
 */
export function shortNumber(value) {
  return value === null || value === undefined
    ? "–"
    : Math.abs(value) < 10_000
      ? whole.format(value)
      : short.format(value);
}

/**
 * Returns a share, rate or change in percent: "43.1%". Every page shows them with one decimal. Only exactly 0 and 100 are
 * shown as "0%" and "100%"; what rounds to them is "<0.1%" and ">99.9%".
 *
 * @param {number | null | undefined} value
 * @param {number} [decimals]
 */
export function percent(value, decimals = 1) {
  if (value === null || value === undefined) return "–";
  if (value === 0 || value === 100) return wholePercent(value);
  const format = numberFormat({ style: "percent", minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const step = 10 ** -decimals;
  if (value > 0 && value < step / 2) return `<${format.format(step / 100)}`;
  if (value < 100 && value >= 100 - step / 2) return `>${format.format((100 - step) / 100)}`;
  return format.format(value / 100);
}

/**
 * Returns which part of all a count is, in percent; "–" of none.
 *
 * @param {number} part
 * @param {number} all
 */
export function percentOf(part, all) {
  return percent(all ? (100 * part) / all : null);
}

/**
 * Returns a round number in percent: "75%", for thresholds, scales, positions and progress.
 *
 * @param {number} value
 */
export function wholePercent(value) {
  return numberFormat({ style: "percent", maximumFractionDigits: 0 }).format(value / 100);
}

/**
 * Returns a number with so many decimals: "2.31"
 *
 * @param {number | null | undefined} value
 * @param {number} [decimals]
 */
export function decimal(value, decimals = 2) {
  if (value === null || value === undefined) return "–";
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return numberFormat(digits).format(value);
}

/**
 * Returns seconds as "1 m 52 s".
 *
 * @param {number | null} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const rest = Math.round(seconds);
  const [hours, minutes, left] = [Math.floor(rest / 3600), Math.floor((rest % 3600) / 60), rest % 60];
  if (hours) return t("duration_hours", { hours, minutes });
  return minutes ? t("duration_minutes", { minutes, seconds: left }) : t("duration_seconds", { seconds: left });
}

const formats = new Map();

/**
 * Returns an Intl.DateTimeFormat, cached: creating one is slow.
 *
 * @param {string} zone
 * @param {Intl.DateTimeFormatOptions} options
 */
export function dateFormat(zone, options) {
  const key = `${zone} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locales, { timeZone: zone, ...options }));
  return formats.get(key);
}

/**
 * Returns a time of day in the browser's zone: 17:04:31
 *
 * @param {number | string | Date} moment
 */
export function clockTime(moment) {
  return dateFormat(browserZone(), { ...CLOCK, second: "2-digit" }).format(moment);
}

const { hourCycle } = new Intl.DateTimeFormat(locales, { hour: "numeric" }).resolvedOptions();
const has12Hours = hourCycle === "h12" || hourCycle === "h11";

/**
 * The parts of a time of day: of 12 hours where the viewer's locale has them (5:04 PM), else of 24 (17:04).
 *
 * @type {Intl.DateTimeFormatOptions}
 */
export const CLOCK = has12Hours
  ? { hour: "numeric", minute: "2-digit" }
  : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

/**
 * The parts of a full hour: 5 PM, or 17:00
 *
 * @type {Intl.DateTimeFormatOptions}
 */
export const FULL_HOUR = has12Hours ? { hour: "numeric" } : CLOCK;

/**
 * Returns a date and time in a zone: 21 Nov, 17:04
 *
 * @param {number | string} moment
 * @param {string} zone
 */
export function dateTime(moment, zone) {
  return dateFormat(zone, { day: "numeric", month: "short", ...CLOCK }).format(new Date(moment));
}

/**
 * Returns a date in a zone: 21 Nov 2026
 *
 * @param {number | string} moment
 * @param {string} zone
 */
export function date(moment, zone) {
  return dateFormat(zone, { day: "numeric", month: "short", year: "numeric" }).format(new Date(moment));
}

/**
 * Returns a range of days (2026-11-15, 2026-11-21) as "15 – 21 Nov 2026".
 *
 * @param {string} from
 * @param {string} to
 */
export function dayRange(from, to) {
  const [first, last] = [new Date(`${from}T12:00:00Z`), new Date(`${to}T12:00:00Z`)];
  const format = dateFormat("UTC", { day: "numeric", month: "short", year: "numeric" });
  return from === to
    ? dateFormat("UTC", { weekday: "short", day: "numeric", month: "short", year: "numeric" }).format(first)
    : format.formatRange(first, last);
}

/** @type {[Intl.RelativeTimeFormatUnit, seconds: number][]} */
const RELATIVE_UNITS = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/**
 * Returns how long ago a time is: "3 minutes ago"
 *
 * @param {number | string | Date} moment
 * @param {number} [now]
 */
export function relativeTime(moment, now = Date.now()) {
  const seconds = Math.round((new Date(moment).getTime() - now) / 1000);
  const words = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  for (const [unit, size] of RELATIVE_UNITS) {
    if (Math.abs(seconds) >= size) return words.format(Math.round(seconds / size), unit);
  }
  return words.format(seconds, "second");
}

const names = new Map();

/**
 * @param {Intl.DisplayNamesType} type
 * @param {string} code
 */
function displayName(type, code) {
  if (!names.has(type)) names.set(type, new Intl.DisplayNames(language, { type, fallback: "none" }));
  try {
    return names.get(type).of(code);
  } catch {
    return undefined;
  }
}

/**
 * Returns a country's name: "Germany" for DE; anything but a country code is returned unchanged.
 *
 * @param {string} code
 */
export function countryName(code) {
  return (/^[A-Z]{2}$/.test(code) && displayName("region", code)) || code;
}

/**
 * Returns a language's name: "German (Germany)" for de-DE
 *
 * @param {string} tag
 */
export function languageName(tag) {
  return displayName("language", tag) || tag;
}

/**
 * Returns the zone to show times in: `preferred` (the account's), else the browser's, else UTC.
 *
 * @param {string | null} preferred
 * @returns {string}
 */
export function displayZone(preferred) {
  return preferred && isKnownZone(preferred) ? preferred : browserZone();
}

/** Returns the browser's time zone; UTC where it is unknown. */
export function browserZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return isKnownZone(zone) ? zone : "UTC";
}

/**
 * Returns whether Intl and the server accept a time zone: the server rejects offsets (+05:30) and Etc/Unknown.
 *
 * @param {string | null} name
 */
export function isKnownZone(name) {
  if (!/^[A-Za-z]/.test(name || "") || name === "Etc/Unknown") return false;
  try {
    return Boolean(new Intl.DateTimeFormat("en", { timeZone: name || "" }));
  } catch {
    return false;
  }
}

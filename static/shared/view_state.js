// The view: what a page of a website shows, as a value that is read from the address and written to it, and the queries of
// reports that follow from it. Pure.
//
// A view: { range, from, to, zone, interval, filters } and fields of the page's own
//   range     a name of RANGES, or "custom", which alone has from and to (2026-11-15, both inclusive)
//   interval  "day", "hour", or null: chosen by the length of the range
//   filters   [[field, value], ...]; an empty value means unset
// A page's own part of the address is `state`: { read(query) returns fields of the view, write(view) returns
// [[name, value], ...] }.

import { FILTERS } from "./fields.js";
import { isKnownZone } from "./formats.js";

const DAY_MS = 86_400_000;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
// The read API's limit for a series.
const MAX_BUCKETS = 10_000;
// Automatic requests (refreshes, sparklines) cover at most a month: a filtered year takes the server seconds.
export const AUTOMATIC_MAX_DAYS = 31;

export const RANGES = [
  { name: "today", short: "Today", long: "today", first: (/** @type {string} */ today) => today },
  { name: "7d", short: "7 d", long: "the last 7 days", first: (/** @type {string} */ today) => daysLater(today, -6) },
  {
    name: "30d",
    short: "30 d",
    long: "the last 30 days",
    first: (/** @type {string} */ today) => daysLater(today, -29),
  },
  {
    name: "90d",
    short: "90 d",
    long: "the last 90 days",
    first: (/** @type {string} */ today) => daysLater(today, -89),
  },
  {
    name: "12m",
    short: "12 m",
    long: "the last 12 months",
    first: (/** @type {string} */ today) => daysLater(yearBefore(today), 1),
  },
];

/**
 * Returns the day that is `count` days later.
 *
 * @param {string} day
 * @param {number} count
 */
export function daysLater(day, count) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + count * DAY_MS).toISOString().slice(0, 10);
}

/**
 * Returns the number of days from the first to the last, both inclusive.
 *
 * @param {string} from
 * @param {string} to
 */
export function dayCount(from, to) {
  return Math.round((Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / DAY_MS) + 1;
}

/**
 * Returns a time's date and clock time in a zone: ["2026-11-21", "17:04:31"].
 *
 * @param {number} moment
 * @param {string} zone
 */
export function localTime(moment, zone) {
  /** @type {Intl.DateTimeFormatOptions} */
  const parts = {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  };
  // The Swedish date format is that of ISO 8601.
  return new Intl.DateTimeFormat("sv-SE", { timeZone: zone, hourCycle: "h23", ...parts }).format(moment).split(" ");
}

/**
 * Returns whether a name is a time zone, in the case that the server requires.
 *
 * @param {string | null} name
 */
export function isValidZone(name) {
  if (!isKnownZone(name)) return false;
  const known = new Intl.DateTimeFormat("en", { timeZone: name || "" }).resolvedOptions().timeZone;
  // Browsers accept any case, and return some zones under another name.
  return known === name || known.toLowerCase() !== name?.toLowerCase();
}

/** @type {ViewState} */
const NO_STATE = { read: () => ({}), write: () => [] };

/**
 * Returns the view of an address's query. Invalid values and filters by other fields than `fields` are ignored.
 *
 * @param {URLSearchParams} query
 * @param {string} zone
 * @param {ViewState} [state]
 * @param {string[]} [fields]
 * @returns {View}
 */
export function readView(query, zone, state = NO_STATE, fields = FILTERS) {
  const [from, to] = [query.get("from") || "", query.get("to") || ""];
  const isCustom = isDay(from) && isDay(to) && from <= to;
  const named = RANGES.find((range) => range.name === query.get("range"));
  const requestedZone = query.get("tz");
  const interval = query.get("interval");
  /** @type {View} */
  const view = {
    range: named ? named.name : isCustom ? "custom" : "7d",
    zone: requestedZone && isValidZone(requestedZone) ? requestedZone : zone,
    interval: interval === "day" || interval === "hour" ? interval : null,
    filters: [...query]
      .filter(([name]) => name.startsWith("filter_") && fields.includes(name.slice(7)))
      .map(([name, value]) => /** @type {Filter} */ ([name.slice(7), value])),
    ...state.read(query),
  };
  if (view.range === "custom") Object.assign(view, { from, to });
  return view;
}

/**
 * Returns the query of a view's address; always with range and zone, so that a link shows the same to everyone.
 *
 * @param {View} view
 * @param {ViewState} [state]
 */
export function writeView(view, state = NO_STATE) {
  const query = new URLSearchParams();
  if (view.from && view.to) (query.append("from", view.from), query.append("to", view.to));
  else query.append("range", view.range);
  query.append("tz", view.zone);
  if (view.interval) query.append("interval", view.interval);
  for (const [field, value] of view.filters) query.append(`filter_${field}`, value);
  for (const [name, value] of state.write(view)) query.append(name, value);
  // Slashes and colons are allowed in a query and are easier to read unescaped.
  return query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/**
 * Returns the days of a view as of now: { from, to, days, today, before: {from, to}, isOpen, interval, canHour }.
 *
 * @param {View} view
 * @param {number} [now]
 * @returns {Span}
 */
export function spanOf(view, now = Date.now()) {
  const [today, time] = localTime(now, view.zone);
  const named = RANGES.find((range) => range.name === view.range);
  const [from, to] = named ? [named.first(today), today] : [view.from || today, view.to || today];
  const days = dayCount(from, to);
  const canHour = days * 25 <= MAX_BUCKETS;
  const interval = view.interval === "hour" && !canHour ? "day" : view.interval || (days <= 2 ? "hour" : "day");
  const before = { from: daysLater(from, -days), to: daysLater(from, -1) };
  // A range that is not over is compared with the same part of the one before: up to the same time of the same day.
  const isOpen = from <= today && today <= to;
  const beforeUntil = `${daysLater(today, -days)}T${time}`;
  return { from, to, days, today, before, beforeUntil, isOpen, interval, canHour };
}

/**
 * Returns the view one range earlier (-1) or later (1).
 *
 * @param {View} view
 * @param {number} by
 * @param {number} [now]
 * @returns {View}
 */
export function shiftRange(view, by, now = Date.now()) {
  const { from, to, days, today } = spanOf(view, now);
  const next = { ...view, range: "custom", from: daysLater(from, by * days), to: daysLater(to, by * days) };
  const named = RANGES.find((range) => range.first(today) === next.from && next.to === today);
  return named ? withRange(view, named.name) : next;
}

/**
 * Returns the view with a named range.
 *
 * @param {View} view
 * @param {string} range
 * @returns {View}
 */
export function withRange(view, range) {
  const { from, to, ...rest } = view;
  return { ...rest, range, interval: null };
}

/**
 * Returns the view with a custom range.
 *
 * @param {View} view
 * @param {string} from
 * @param {string} to
 * @returns {View}
 */
export function withDays(view, from, to) {
  return { ...view, range: "custom", from, to, interval: null };
}

/**
 * Returns the view with a filter added, or removed where the view has it.
 *
 * @param {View} view
 * @param {string} field
 * @param {string} value
 * @returns {View}
 */
export function toggleFilter(view, field, value) {
  const has = hasFilter(view, field, value);
  const left = view.filters.filter(([name, text]) => name !== field || text !== value);
  return { ...view, filters: has ? left : [...view.filters, [field, value]] };
}

/**
 * Returns whether two views have the same days, zone and filters.
 *
 * @param {View} one
 * @param {View} other
 */
export function hasSameScope(one, other) {
  const asked = (/** @type {View} */ { range, from, to, zone, filters }) =>
    JSON.stringify([range, from, to, zone, filters]);
  return asked(one) === asked(other);
}

/**
 * Returns whether the view has that filter.
 *
 * @param {View} view
 * @param {string} field
 * @param {string} value
 */
export function hasFilter(view, field, value) {
  return view.filters.some(([name, text]) => name === field && text === value);
}

/**
 * Returns the query of a report for days of a view.
 *
 * @param {View} view
 * @param {{ from: string, to: string }} options
 * @param {any} [more]
 */
export function reportQuery(view, { from, to }, more = {}) {
  const query = new URLSearchParams({ from, to, tz: view.zone });
  for (const [field, value] of view.filters) query.append(`filter_${field}`, value);
  for (const [name, value] of Object.entries(more)) query.append(name, value);
  return query.toString();
}

/**
 * @param {string} text
 */
function isDay(text) {
  return (
    DATE.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`)) && text >= "1970-01-02" && text <= "2099-12-30"
  );
}

/**
 * @param {string} day
 */
function yearBefore(day) {
  const year = Number(day.slice(0, 4)) - 1;
  return day.endsWith("02-29") ? `${year}-02-28` : `${year}${day.slice(4)}`;
}

// The view: what a page of a website shows, as a value that is read from the address and written to it, and the queries of
// reports that follow from it. Pure.
//
// A view: { period, from, to, zone, interval, compare, ..., filters, segment } and fields of the page's own
//   period    a name of PERIODS, or "custom", which alone has from and to (2026-11-15, both inclusive)
//   first     the day of the first event, where the period is "all"; not in the address
//   interval  a name of INTERVALS, or null: chosen by the length of the range
//   compare   "previous", "year", "custom", which alone has compareFrom and compareTo, or "off"
//   matchWeekday  whether the range before begins on the same day of the week
//   filters   [[key, value], ...], see filter_words.js; an empty value means unset
//   segment   the id of a saved segment; ""
// A page's own part of the address is `state`: { read(query, fields) returns fields of the view, which may depend on what
// the page can be filtered by, write(view) returns [[name, value], ...] }.

import { OWN_FILTERS, isTaken } from "./filter_words.js";
import { isKnownZone } from "./formats.js";
import { texts } from "./messages.js";

const t = await texts("shared");

const DAY_MS = 86_400_000;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
// The read API's limit for a series.
const MAX_BUCKETS = 10_000;
// Automatic requests (refreshes, sparklines) cover at most a month: a filtered year takes the server seconds.
export const AUTOMATIC_MAX_DAYS = 31;

/**
 * The read API's periods in the order of the menu: short and long name, and the first and last day by today. `isQuick`:
 * those beside each other in the range picker, with the keys 1 to 5. `all` begins with the view's `first`.
 *
 * @type {{ name: string, short: string, long: string, isQuick?: boolean, days: (today: string, view: View) => string[] }[]}
 */
export const PERIODS = [
  { name: "today", short: t("today_short"), long: t("today_long"), isQuick: true, days: (today) => [today, today] },
  {
    name: "yesterday",
    short: t("yesterday_short"),
    long: t("yesterday_long"),
    days: (today) => [daysLater(today, -1), daysLater(today, -1)],
  },
  {
    name: "7d",
    short: t("days_short", { days: 7 }),
    long: t("days_long", { days: 7 }),
    isQuick: true,
    days: (today) => [daysLater(today, -6), today],
  },
  {
    name: "28d",
    short: t("days_short", { days: 28 }),
    long: t("days_long", { days: 28 }),
    days: (today) => [daysLater(today, -27), today],
  },
  {
    name: "30d",
    short: t("days_short", { days: 30 }),
    long: t("days_long", { days: 30 }),
    isQuick: true,
    days: (today) => [daysLater(today, -29), today],
  },
  {
    name: "90d",
    short: t("days_short", { days: 90 }),
    long: t("days_long", { days: 90 }),
    isQuick: true,
    days: (today) => [daysLater(today, -89), today],
  },
  { name: "month", short: t("month_short"), long: t("month_long"), days: (today) => [monthStart(today), today] },
  {
    name: "year",
    short: t("year_short"),
    long: t("year_long"),
    days: (today) => [`${today.slice(0, 4)}-01-01`, today],
  },
  {
    name: "6mo",
    short: t("months_short", { months: 6 }),
    long: t("months_long", { months: 6 }),
    days: (today) => [monthStart(today, -5), today],
  },
  {
    name: "12mo",
    short: t("months_short", { months: 12 }),
    long: t("months_long", { months: 12 }),
    isQuick: true,
    days: (today) => [monthStart(today, -11), today],
  },
  { name: "all", short: t("all_short"), long: t("all_long"), days: (today, { first }) => [first || today, today] },
];
export const QUICK = PERIODS.filter(({ isQuick }) => isQuick);
const CALENDAR = ["month", "year", "6mo", "12mo"];
const FIRST_PERIOD = "7d";
const COMPARISONS = ["previous", "year", "custom", "off"];

/** The intervals of a series, each with its title, the fewest days that it is for and from how many days on it is the default. */
export const INTERVALS = [
  // The read API takes it for at most 24 hours.
  { name: "minute", title: t("minutes"), least: 1, most: 1, from: Infinity },
  { name: "hour", title: t("hours"), least: 1, most: Math.floor(MAX_BUCKETS / 25), from: 1 },
  { name: "day", title: t("days"), least: 1, most: MAX_BUCKETS, from: 3 },
  { name: "week", title: t("weeks"), least: 8, most: Infinity, from: 101 },
  { name: "month", title: t("months"), least: 29, most: Infinity, from: 1000 },
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
 * Returns the milliseconds from UTC to the local time at a moment, which has whole seconds.
 *
 * @param {number} moment
 * @param {string} zone
 */
export function offsetAt(moment, zone) {
  return Date.parse(`${localTime(moment, zone).join("T")}Z`) - moment;
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
export function readView(query, zone, state = NO_STATE, fields = OWN_FILTERS) {
  const [from, to] = [query.get("from") || "", query.get("to") || ""];
  const isCustom = isDay(from) && isDay(to) && from <= to;
  const named = PERIODS.find(({ name }) => name === query.get("period"));
  const scopeOfZone = query.get("tz");
  const interval = query.get("interval");
  /** @type {View} */
  const view = {
    period: named ? named.name : isCustom ? "custom" : FIRST_PERIOD,
    zone: scopeOfZone && isValidZone(scopeOfZone) ? scopeOfZone : zone,
    interval: INTERVALS.some(({ name }) => name === interval) ? interval : null,
    ...readComparison(query),
    filters: readFilters(query, fields),
    segment: fields.includes("goal") && isSavedId(query.get("segment")) ? query.get("segment") || "" : "",
    ...state.read(query, fields),
  };
  if (view.period === "custom") Object.assign(view, { from, to });
  return view;
}

/**
 * @param {URLSearchParams} query
 * @returns {{ compare: string, matchWeekday: boolean, compareFrom?: string, compareTo?: string }}
 */
function readComparison(query) {
  const [from, to] = [query.get("compare_from") || "", query.get("compare_to") || ""];
  const named = COMPARISONS.find((one) => one === query.get("compare")) || "previous";
  if (named === "custom" && isDay(from) && isDay(to) && from <= to) {
    return { compare: "custom", matchWeekday: false, compareFrom: from, compareTo: to };
  }
  const compare = named === "custom" ? "previous" : named;
  return { compare, matchWeekday: compare !== "off" && query.get("match_weekday") === "true" };
}

/**
 * Returns the parameters of a comparison as in the address and, but for "off", the read API.
 *
 * @param {View} view
 * @returns {[name: string, value: string][]}
 */
function comparisonParameters({ compare, matchWeekday, compareFrom, compareTo }) {
  return [
    ["compare", compare],
    .../** @type {[string, string][]} */ (
      compareFrom && compareTo
        ? [
            ["compare_from", compareFrom],
            ["compare_to", compareTo],
          ]
        : []
    ),
    .../** @type {[string, string][]} */ (matchWeekday ? [["match_weekday", "true"]] : []),
  ];
}

/**
 * Returns the view with another comparison.
 *
 * @param {View} view
 * @param {string} compare
 * @param {{ matchWeekday?: boolean, days?: Days }} [more]
 * @returns {View}
 */
export function withComparison(view, compare, { matchWeekday = false, days } = {}) {
  const { compareFrom, compareTo, ...rest } = view;
  return { ...rest, compare, matchWeekday, ...(days && { compareFrom: days.from, compareTo: days.to }) };
}

/**
 * @param {URLSearchParams} query
 * @param {string[]} fields
 */
function readFilters(query, fields) {
  const found = [...query]
    .filter(([name]) => name.startsWith("filter_") && isTaken(name.slice(7), fields))
    .map(([name, value]) => /** @type {Filter} */ ([name.slice(7), value]));
  // The API takes one goal.
  const goal = found.find(([key, value]) => key === "goal" && isSavedId(value));
  return found.filter((one) => one[0] !== "goal" || one === goal);
}

/**
 * @param {string | null} text
 */
function isSavedId(text) {
  return /^[0-9a-f]{16}$/.test(text || "");
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
  else query.append("period", view.period);
  query.append("tz", view.zone);
  if (view.interval) query.append("interval", view.interval);
  if (view.compare !== "previous" || view.matchWeekday) {
    for (const [name, value] of comparisonParameters(view)) query.append(name, value);
  }
  appendFilters(query, view);
  for (const [name, value] of state.write(view)) query.append(name, value);
  return readable(query);
}

/**
 * Returns a query with the characters unescaped that are allowed there and easier to read.
 *
 * @param {URLSearchParams} query
 */
export function readable(query) {
  return query.toString().replace(/%(?:2F|3A|21|5E|24)/g, decodeURIComponent);
}

/**
 * @param {URLSearchParams} query
 * @param {View} view
 */
function appendFilters(query, { filters, segment }) {
  for (const [key, value] of filters) query.append(`filter_${key}`, value);
  if (segment) query.append("segment", segment);
}

/**
 * Returns the days of a view as of now: { from, to, days, today, before, beforeUntil, isOpen, interval, intervals }.
 *
 * @param {View} view
 * @param {number} [now]
 * @returns {Span}
 */
export function spanOf(view, now = Date.now()) {
  const [today, time] = localTime(now, view.zone);
  const named = PERIODS.find(({ name }) => name === view.period);
  const [from, to] = named ? named.days(today, view) : [view.from || today, view.to || today];
  const days = dayCount(from, to);
  const isOpen = from <= today && today <= to;
  const fits = INTERVALS.filter(({ least, most }) => least <= days && days <= most).map(({ name }) => name);
  const intervals = fits[0] === "minute" && isLongDay(from, view.zone) ? fits.slice(1) : fits;
  const usual = INTERVALS.findLast(({ from: least }) => least <= days) || INTERVALS[0];
  const interval = view.interval && intervals.includes(view.interval) ? view.interval : usual.name;
  const [before, shifted] = rangeBefore(view, { from, to, days, today });
  // A range that is not over is compared with the same part of the one before: up to the same time of the same day.
  const beforeUntil = isOpen && before && shifted ? `${shifted(today)}T${time}` : null;
  return { from, to, days, today, before, beforeUntil, isOpen, interval, intervals };
}

/**
 * Returns whether a day has more than 24 hours: clocks are set back on it.
 *
 * @param {string} day
 * @param {string} zone
 */
function isLongDay(day, zone) {
  const midnight = Date.parse(`${day}T00:00:00Z`);
  const start = midnight - offsetAt(midnight, zone);
  return offsetAt(start, zone) > offsetAt(start + DAY_MS, zone);
}

/**
 * Returns the days to compare with, as the read API counts them, and the function that finds the day before which
 * belongs to a day; null where there is none. Before months and years that are over are as many months and years.
 *
 * @param {View} view
 * @param {{ from: string, to: string, days: number, today: string }} range
 * @returns {[Days | null, ((day: string) => string) | null]}
 */
function rangeBefore(view, range) {
  const { period, compare, matchWeekday, compareFrom, compareTo } = view;
  const { from, to, days, today } = range;
  // Before all events there are none.
  if (compare === "off" || period === "all") return [null, null];
  if (compareFrom && compareTo) return [{ from: compareFrom, to: compareTo }, null];
  if (compare === "previous" && !matchWeekday && period === "custom" && to < today) {
    const last = shiftedDays(view, range, -1);
    if (last.isCalendar) return [{ from: last.from, to: last.to }, null];
  }
  const back = compare === "year" ? 52 * 7 : matchWeekday ? 7 * Math.ceil(days / 7) : days;
  const shifted = (/** @type {string} */ day) =>
    compare === "year" && !matchWeekday ? yearBefore(day) : daysLater(day, -back);
  return [{ from: shifted(from), to: shifted(to) }, shifted];
}

/**
 * Returns the parameters with which the read API compares the range; {} where nothing is compared.
 *
 * @param {View} view
 * @param {Span} span
 * @returns {Record<string, string>}
 */
export function comparisonOf(view, { before, from, days }) {
  if (!before) return {};
  // The API's previous range has as many days; the one before a calendar month or year is named by its days.
  const isOther = view.compare === "previous" && !view.matchWeekday && before.from !== daysLater(from, -days);
  return Object.fromEntries(comparisonParameters(isOther ? withComparison(view, "custom", { days: before }) : view));
}

/**
 * Returns the view one range earlier (-1) or later (1): ranges of months and years by so many months and years.
 *
 * @param {View} view
 * @param {number} by
 * @param {number} [now]
 * @returns {View}
 */
export function shiftRange(view, by, now = Date.now()) {
  const span = spanOf(view, now);
  const { from, to, today, isCalendar } = shiftedDays(view, span, by);
  const named = PERIODS.find((period) => {
    const [first, last] = period.days(today, view);
    // On the 28th this month is also the last 28 days; a range of months remains one.
    const isKind = isCalendar ? CALENDAR.includes(period.name) : period.name !== "all";
    return isKind && first === from && last === to;
  });
  return named ? withPeriod(view, named.name) : { ...view, period: "custom", from, to };
}

/**
 * @param {View} view
 * @param {{ from: string, to: string, days: number, today: string }} span
 * @param {number} by
 */
function shiftedDays({ period }, { from, to, days, today }, by) {
  const ends = (/** @type {string} */ day) => daysLater(day, 1).endsWith("-01");
  const isCustom = period === "custom";
  const isYear = period === "year" || (isCustom && from.endsWith("-01-01") && to.endsWith("-12-31"));
  const isCalendar = CALENDAR.includes(period) || (isCustom && from.endsWith("-01") && ends(to));
  if (!isCalendar) return { from: daysLater(from, by * days), to: daysLater(to, by * days), today, isCalendar };
  const months = isYear ? 12 * (Number(to.slice(0, 4)) - Number(from.slice(0, 4)) + 1) : monthCount(from, to);
  const first = monthStart(from, by * months);
  const last = daysLater(monthStart(first, months), -1);
  // The present month ends today.
  return { from: first, to: last > today ? today : last, today, isCalendar };
}

/**
 * Returns the first day of the month that is `count` months later.
 *
 * @param {string} day
 * @param {number} [count]
 */
function monthStart(day, count = 0) {
  const months = 12 * Number(day.slice(0, 4)) + Number(day.slice(5, 7)) - 1 + count;
  return `${Math.floor(months / 12)}-${String((months % 12) + 1).padStart(2, "0")}-01`;
}

/**
 * @param {string} from
 * @param {string} to
 */
function monthCount(from, to) {
  const count = (/** @type {string} */ day) => 12 * Number(day.slice(0, 4)) + Number(day.slice(5, 7));
  return count(to) - count(from) + 1;
}

/**
 * Returns the view with a named period.
 *
 * @param {View} view
 * @param {string} period
 * @returns {View}
 */
export function withPeriod(view, period) {
  const { from, to, ...rest } = view;
  return { ...rest, period, interval: null };
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
  return { ...view, period: "custom", from, to, interval: null };
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
 * Returns the view with these values of a filter's key, in place of those that it has; none removes the filter. Filters
 * by a goal have one value.
 *
 * @param {View} view
 * @param {string} key
 * @param {string[]} values
 * @returns {View}
 */
export function withKey(view, key, values) {
  const at = view.filters.findIndex(([name]) => name === key);
  const left = view.filters.filter(([name]) => name !== key);
  const place = at < 0 ? left.length : at;
  const own = values.map((value) => /** @type {Filter} */ ([key, value]));
  return { ...view, filters: [...left.slice(0, place), ...own, ...left.slice(place)] };
}

/**
 * Returns the view with the conversions of a goal, "" for none, and the first figure.
 *
 * @param {View} view
 * @param {string} goal
 * @returns {View}
 */
export function withGoal(view, goal) {
  return { ...view, goal, figure: "" };
}

/**
 * Returns the parameter that adds the conversions of a view's goal to a report; {} without one.
 *
 * @param {View} view
 * @returns {{ goal?: string }}
 */
export function goalOf({ goal }) {
  return goal ? { goal } : {};
}

/**
 * Returns the view without filters, segment and chosen goal.
 *
 * @param {View} view
 * @returns {View}
 */
export function withoutFilters(view) {
  return { ...(view.goal ? withGoal(view, "") : view), filters: [], segment: "" };
}

/**
 * Returns the view without its chosen goal; else without the filter that was added last, or the segment where there is no
 * other.
 *
 * @param {View} view
 * @returns {View}
 */
export function withoutLastFilter(view) {
  if (view.goal) return withGoal(view, "");
  const last = view.filters.at(-1);
  return last ? withKey(view, last[0], []) : withoutFilters(view);
}

/**
 * Returns whether a view has filters or a segment.
 *
 * @param {View} view
 */
export function isFiltered({ filters, segment }) {
  return filters.length > 0 || segment !== "";
}

/**
 * Returns whether two views have the same days, zone, comparison, filters and segment.
 *
 * @param {View} one
 * @param {View} other
 */
export function hasSameScope(one, other) {
  const scopeOf = (/** @type {View} */ view) => {
    const { period, from, to, zone, compare, compareFrom, compareTo, matchWeekday, filters, segment } = view;
    return JSON.stringify([period, from, to, zone, compare, compareFrom, compareTo, matchWeekday, filters, segment]);
  };
  return scopeOf(one) === scopeOf(other);
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
  appendFilters(query, view);
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

// What a bucket that is not over is likely to have at its end, from the usual share of the day that has passed. Pure, but
// for `profileRequest`, which remembers the last answer.
//
// The share is that of the last seven whole days: what their hours up to this time of day had, of all that they had. Weeks
// and months: the days that are over as they were, and the remaining ones by the same weekday of those seven.

import { followingStart } from "../shared/buckets.js";
import { get } from "../shared/api.js";
import { daysLater, goalOf, localTime, reportQuery } from "../shared/view_state.js";

const DAYS = 7;
// With fewer, the count so far is off by more than a fifth by chance alone.
const LEAST_SO_FAR = 20;
// Before that the rest of the day is nearly all of it.
const LEAST_SHARE = 0.05;

/**
 * Returns a function that fetches the hours of the seven whole days before today; [] where they are not known. They do not
 * change during the day, so the last answer is kept.
 *
 * @param {string} base
 */
export function profileRequest(base) {
  let key = "";
  /** @type {Bucket[]} */
  let hours = [];
  return async (/** @type {View} */ view, /** @type {Span} */ { today }, /** @type {AbortSignal} */ signal) => {
    const days = { from: daysLater(today, -DAYS), to: daysLater(today, -1) };
    const query = reportQuery(view, days, { interval: "hour", ...goalOf(view) });
    if (query === key) return hours;
    const answer = await get(`${base}/timeseries?${query}`, { signal });
    // Sums of days have no hours.
    const isKnown = answer.ok && !answer.meta.imported;
    if (answer.ok) [key, hours] = [query, isKnown ? answer.data : []];
    return isKnown ? answer.data : [];
  };
}

/**
 * Returns the value that a bucket of days is likely to have at its end; null where too little is known.
 *
 * @param {Bucket} row
 * @param {string} figure
 * @param {{ hours: Bucket[], zone: string, interval: string, from: string, now?: number }} options  `from`: first day of the range
 */
export function projected(row, figure, { hours, zone, interval, from, now = Date.now() }) {
  if (!(row[figure] >= LEAST_SO_FAR)) return null;
  const [today, time] = localTime(now, zone);
  const days = totals(hours, figure, () => 1);
  const all = sum(days.values());
  const passed = sum(totals(hours, figure, (clock) => passedPart(clock, time)).values());
  const share = all ? passed / all : 0;
  if (share < LEAST_SHARE || all < LEAST_SO_FAR) return null;
  const start = row.time.slice(0, 10);
  const end = daysLater(followingStart(start, interval), -1);
  let [before, whole] = [0, 0];
  // Days before the range are not counted.
  for (let day = start < from ? from : start; day <= end; day = daysLater(day, 1)) {
    const usual = interval === "day" ? 1 : days.get(weekday(day)) || 0;
    if (!usual) return null;
    whole += usual;
    before += day < today ? usual : day === today ? usual * share : 0;
  }
  return before ? (row[figure] * whole) / before : null;
}

/**
 * @param {Bucket[]} hours
 * @param {string} figure
 * @param {(clock: string) => number} part  the part of an hour that counts
 * @returns {Map<number, number>} by weekday
 */
function totals(hours, figure, part) {
  const found = new Map();
  for (const row of hours) {
    const day = weekday(row.time.slice(0, 10));
    found.set(day, (found.get(day) || 0) + row[figure] * part(row.time.slice(11, 13)));
  }
  return found;
}

/**
 * @param {string} hour
 * @param {string} time
 */
function passedPart(hour, time) {
  if (hour === time.slice(0, 2)) return Number(time.slice(3, 5)) / 60;
  return hour < time.slice(0, 2) ? 1 : 0;
}

/**
 * @param {string} day
 */
function weekday(day) {
  return new Date(`${day}T00:00:00Z`).getUTCDay();
}

/**
 * @param {Iterable<number>} values
 */
function sum(values) {
  return [...values].reduce((n, one) => n + one, 0);
}

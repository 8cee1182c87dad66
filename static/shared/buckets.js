// Labels of time buckets, on charts and in their tables. Pure.

import { CLOCK, FULL_HOUR, dateFormat, dayRange } from "./formats.js";
import { texts } from "./messages.js";
import { daysLater, localTime } from "./view_state.js";

const t = await texts("shared");

/**
 * Returns the days of a bucket within the range (of an hour or minute its day): { from, to, isWhole }. Weeks and months begin with their first day, the
 * first and the last bucket count only what lies in the range.
 *
 * @param {string[]} times  the buckets' local starts, in ISO 8601
 * @param {number} i
 * @param {Days} range
 * @param {string} interval
 */
export function bucketDays(times, i, range, interval) {
  const start = times[i].slice(0, 10);
  if (isWithinDay(interval)) return { from: start, to: start, isWhole: false };
  const next = i + 1 < times.length ? times[i + 1].slice(0, 10) : followingStart(start, interval);
  const [from, end] = [start < range.from ? range.from : start, daysLater(next, -1)];
  const to = end > range.to ? range.to : end;
  return { from, to, isWhole: from === start && to === end };
}

/**
 * Returns whether buckets are parts of a day.
 *
 * @param {string} interval
 */
export function isWithinDay(interval) {
  return interval === "minute" || interval === "hour";
}

/**
 * Returns the first day of the bucket after the one that begins on a day.
 *
 * @param {string} start
 * @param {string} interval
 */
export function followingStart(start, interval) {
  if (interval === "week") return daysLater(start, 7);
  return interval === "month" ? `${daysLater(start, 31).slice(0, 8)}01` : daysLater(start, 1);
}

/**
 * Returns the labels of a series' buckets: of weeks their days, of months their names, or days where they are not whole.
 *
 * @param {string[]} times  the buckets' local starts, in ISO 8601
 * @param {{ zone: string, interval: string, range: Days, withYear?: boolean }} options
 * @returns {(i: number) => string}
 */
export function bucketLabels(times, { zone, interval, range, withYear = false }) {
  if (interval === "day" || isWithinDay(interval)) {
    return (i) => bucketLabel(Date.parse(times[i]), zone, interval, { withYear });
  }
  return (i) => {
    const { from, to, isWhole } = bucketDays(times, i, range, interval);
    if (interval === "week" || !isWhole) return dayRange(from, to);
    return dateFormat("UTC", { month: "long", year: "numeric" }).format(new Date(`${from}T12:00:00Z`));
  };
}

/**
 * Returns the label of a day, an hour or a minute: "Sat 5 Dec", "Sat 5 Dec, 17:00 to 17:59", "Sat 5 Dec, 17:04",
 * with 12 hours where the viewer's locale has them.
 *
 * @param {number} start
 * @param {string} zone
 * @param {string} interval
 * @param {{ withYear?: boolean }} [options]
 */
export function bucketLabel(start, zone, interval, { withYear = false } = {}) {
  /** @type {Intl.DateTimeFormatOptions} */
  const parts = { weekday: "short", day: "numeric", month: "short", ...(withYear && { year: "numeric" }) };
  const day = dateFormat(zone, parts).format(start);
  if (interval === "day") return day;
  const clock = dateFormat(zone, CLOCK);
  if (interval === "minute") return t("minute_of_day", { day, time: clock.format(start) });
  return t("hour_of_day", { day, from: clock.format(start), to: clock.format(start + 3_599_999) });
}

/**
 * Returns the labels of the x axis as [index, text]: days, first days of months, months, or full hours; at most `most`.
 *
 * @param {number[]} starts
 * @param {string} zone
 * @param {string} interval
 * @param {number} most
 * @returns {[index: number, text: string][]}
 */
export function axisTicks(starts, zone, interval, most) {
  if (interval === "minute" || (interval === "hour" && starts.length <= 50)) {
    const hour = dateFormat(zone, FULL_HOUR);
    const places = starts.flatMap((start, i) => (localTime(start, zone)[1].slice(3, 5) === "00" ? [i] : []));
    const step = [1, 2, 3, 6, 12, 24].find((size) => places.length / size <= most) || 24;
    return places.filter((i) => Number(hourOf(starts[i], zone)) % step === 0).map((i) => [i, hour.format(starts[i])]);
  }
  if (interval === "month") {
    return monthTicks(
      starts.map((start, i) => [i, start]),
      zone,
      most,
    );
  }
  const key = dateFormat(zone, { day: "numeric", month: "numeric" });
  const days = starts
    .map((start, i) => /** @type {[number, number]} */ ([i, start]))
    .filter(([i, start]) => !i || key.format(start) !== key.format(starts[i - 1]));
  const month = dateFormat(zone, { month: "short", year: "numeric" });
  const months = days.filter(([i, start]) => i && month.format(start) !== month.format(starts[i - 1]));
  if (days.length > 120 || (interval === "week" && days.length > 26)) {
    return monthTicks(months, zone, most);
  }
  return everyNth(days, most).map(([i, start]) => [
    i,
    dateFormat(zone, { day: "numeric", month: "short" }).format(start),
  ]);
}

/**
 * Returns every first, second, third, fourth, sixth or twelfth month of the year; January is labelled with its year.
 *
 * @param {[index: number, start: number][]} months
 * @param {string} zone
 * @param {number} most
 * @returns {[index: number, text: string][]}
 */
function monthTicks(months, zone, most) {
  const isLong = months.length > 11;
  const numberOf = (/** @type {number} */ start) => Number(localTime(start, zone)[0].slice(5, 7)) - 1;
  const step = [1, 2, 3, 4, 6, 12].find((size) => months.length / size <= most) || 12;
  return months
    .filter(([, start]) => numberOf(start) % step === 0)
    .map(([i, start]) => {
      const parts =
        isLong && !numberOf(start)
          ? { year: /** @type {const} */ ("numeric") }
          : { month: /** @type {const} */ ("short") };
      return [i, dateFormat(zone, parts).format(start)];
    });
}

/**
 * Returns the hour of a time in a zone, in digits that Number reads: the viewer's language may have others.
 *
 * @param {number} start
 * @param {string} zone
 */
function hourOf(start, zone) {
  return localTime(start, zone)[1].slice(0, 2);
}

/**
 * @param {[number, number][]} places
 * @param {number} most
 */
function everyNth(places, most) {
  const step = [1, 2, 3, 7, 14, 28, 56, 112].find((size) => places.length / size <= most) || 112;
  // Counted from the end, so that the last bucket, usually today, has a label.
  return places.filter((_, n) => (places.length - 1 - n) % step === 0);
}

/**
 * Returns the buckets of a series that are over; the one that is not, where it is the only one.
 *
 * @template {{ time: string }} B
 * @param {B[]} rows
 * @param {boolean} isOpen  whether the range is not over
 * @returns {B[]}
 */
export function closedBuckets(rows, isOpen) {
  const begun = rows.filter((row) => Date.parse(row.time) <= Date.now());
  return isOpen && begun.length > 1 ? begun.slice(0, -1) : begun;
}

// Labels of time buckets, on charts and in their tables. Pure.

import { dateFormat } from "./formats.js";

/**
 * Returns a bucket's label: "Sat 5 Dec" or "Sat 5 Dec, 17:00 to 17:59"; briefly "Sat 5 Dec, 17:00".
 *
 * @param {number} start
 * @param {string} zone
 * @param {string} interval
 * @param {boolean} [brief]
 */
export function bucketLabel(start, zone, interval, brief = false) {
  const day = dateFormat(zone, { weekday: "short", day: "numeric", month: "short" }).format(start);
  if (interval === "day") return day;
  const clock = dateFormat(zone, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return brief
    ? `${day}, ${clock.format(start)}`
    : `${day}, ${clock.format(start)} to ${clock.format(start + 3_599_999)}`;
}

/**
 * Returns the labels of the x axis as [index, text]: days, first days of months, or full hours; at most `most`.
 *
 * @param {number[]} starts
 * @param {string} zone
 * @param {string} interval
 * @param {number} most
 * @returns {[index: number, text: string][]}
 */
export function axisTicks(starts, zone, interval, most) {
  if (interval === "hour" && starts.length <= 50) {
    const hour = dateFormat(zone, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const step = [1, 2, 3, 6, 12, 24].find((size) => starts.length / size <= most) || 24;
    return starts
      .map((start, i) => /** @type {[number, string]} */ ([i, hour.format(start)]))
      .filter(([, text]) => Number(text.slice(0, 2)) % step === 0);
  }
  const key = dateFormat(zone, { day: "numeric", month: "numeric" });
  const days = starts
    .map((start, i) => /** @type {[number, number]} */ ([i, start]))
    .filter(([i, start]) => !i || key.format(start) !== key.format(starts[i - 1]));
  const month = dateFormat(zone, { month: "short", year: "numeric" });
  const months = days.filter(([i, start]) => i && month.format(start) !== month.format(starts[i - 1]));
  if (days.length > 120) {
    return everyNth(months, most).map(([i, start]) => [i, dateFormat(zone, { month: "short" }).format(start)]);
  }
  return everyNth(days, most).map(([i, start]) => [
    i,
    dateFormat(zone, { day: "numeric", month: "short" }).format(start),
  ]);
}

/**
 * @param {[number, number][]} places
 * @param {number} most
 */
function everyNth(places, most) {
  const step = [1, 2, 3, 7, 14, 28, 56].find((size) => places.length / size <= most) || 56;
  // Counted from the end, so that the last bucket, usually today, has a label.
  return places.filter((_, n) => (places.length - 1 - n) % step === 0);
}

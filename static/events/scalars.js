// How values of event_data are said: JSON scalars, text and numbers side by side. Pure.

import { plural, number, numberFormat } from "../shared/formats.js";

const measured = numberFormat({ maximumFractionDigits: 2 });
// A mean of 0.0042 is not 0.
const tiny = numberFormat({ maximumSignificantDigits: 3 });

/** A value as it is read: text as it is, but in quotes where it would be taken for a number, true, false or null. */
export function scalarText(value) {
  if (typeof value !== "string") return String(value);
  if (value.trim() === "") return JSON.stringify(value);
  try {
    return typeof JSON.parse(value) === "object" && value !== "null" ? value : `"${value}"`;
  } catch {
    return value;
  }
}

/** 12,480.5; 0.0042; – for what no number can say */
export function measure(value) {
  if (value === null) return "–";
  return Math.abs(value) < 1 && value !== 0 ? tiny.format(value) : measured.format(value);
}

/** What the numbers of a property come to: [[name, figure, what it means], ...]. */
export function numberWords({ samples, sum, mean, min, p50, p95, max }) {
  return [
    ["Mean", measure(mean), `The sum of ${plural(samples, "number")}, shared out evenly`],
    ["Median", measure(p50), "Half of the numbers are at most this"],
    ["95 % at most", measure(p95), "One number of twenty is more than this"],
    ["Least", measure(min), "The smallest of them"],
    ["Most", measure(max), "The largest of them"],
    ["Sum", measure(sum), `Of ${plural(samples, "number")}`],
  ];
}

/** "on 12 of 40 events, 3 values"; "more than" where values were too many to count all of them */
export function coverWords({ events, distinct, exact }, all) {
  const on =
    events === all
      ? `on ${all === 1 ? "the event" : `all ${number(all)} events`}`
      : `on ${number(events)} of ${plural(all, "event")}`;
  return `${on}, ${exact ? "" : "more than "}${plural(distinct, "value")}`;
}

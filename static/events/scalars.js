// Formats of event_data values: JSON scalars, texts and numbers side by side. Pure.

import { plural, number, numberFormat } from "../shared/formats.js";

const measured = numberFormat({ maximumFractionDigits: 2 });
// So that a mean of 0.0042 is not shown as 0.
const tiny = numberFormat({ maximumSignificantDigits: 3 });

/**
 * Returns a value as text; a string is quoted where it would read as a number, true, false or null.
 *
 * @param {Scalar} value
 */
export function scalarText(value) {
  if (typeof value !== "string") return String(value);
  if (value.trim() === "") return JSON.stringify(value);
  try {
    return typeof JSON.parse(value) === "object" && value !== "null" ? value : `"${value}"`;
  } catch {
    return value;
  }
}

/**
 * Returns a number as "12,480.5" or "0.0042"; "–" for null.
 *
 * @param {number | null} value
 */
export function measure(value) {
  if (value === null) return "–";
  return Math.abs(value) < 1 && value !== 0 ? tiny.format(value) : measured.format(value);
}

/**
 * Returns the summary of a property's numbers: [[name, figure, definition], ...].
 *
 * @param {{ samples: number, sum: number | null, mean: number | null, min: number | null, p50: number | null, p95: number | null, max: number | null }} options
 */
export function numberWords({ samples, sum, mean, min, p50, p95, max }) {
  return [
    ["Mean", measure(mean), `Average of ${plural(samples, "number")}`],
    ["Median", measure(p50), "50% of the numbers are less than or equal to this"],
    ["p95", measure(p95), "95% of the numbers are less than or equal to this"],
    ["Min", measure(min), "The smallest number"],
    ["Max", measure(max), "The largest number"],
    ["Sum", measure(sum), `Sum of ${plural(samples, "number")}`],
  ];
}

/**
 * Returns how many events have a property: "on 12 of 40 events, 3 values"; "more than" where `distinct` is a lower bound.
 *
 * @param {{ events: number, distinct: number, exact: boolean }} options
 * @param {number} all
 */
export function coverWords({ events, distinct, exact }, all) {
  const on =
    events === all
      ? `on ${all === 1 ? "the event" : `all ${number(all)} events`}`
      : `on ${number(events)} of ${plural(all, "event")}`;
  return `${on}, ${exact ? "" : "more than "}${plural(distinct, "value")}`;
}

// Formats of event_data values: JSON scalars, texts and numbers side by side. Pure.

import { number, numberFormat } from "../shared/formats.js";
import { texts } from "../shared/messages.js";

const t = await texts("events");
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
    [t("mean"), measure(mean), t("mean_means", { count: samples })],
    [t("median"), measure(p50), t("median_means")],
    ["p95", measure(p95), t("p95_means")],
    [t("min"), measure(min), t("min_means")],
    [t("max"), measure(max), t("max_means")],
    [t("sum"), measure(sum), t("sum_means", { count: samples })],
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
    events === all ? t("on_all_events", { count: all }) : t("on_some_events", { some: number(events), count: all });
  return [on, exact ? t("count_values", { count: distinct }) : t("more_values", { count: distinct })].join(", ");
}

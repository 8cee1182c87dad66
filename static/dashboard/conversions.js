// Conversions. With a goal that is chosen, reports have them beside all traffic, and the dashboard shows them first. With
// a filter on events or a goal, what a report counts are these events, and a website has no pageviews then: the dashboard
// shows one count of conversions in place of pageviews and events. Pure.

import { readFilter, splitKey } from "../shared/filter_words.js";

const COUNTS = ["events", "pageviews"];

/**
 * Returns the count that holds the conversions of a view: "conversions" with a chosen goal, "events", or "pageviews" for
 * a goal of pages; null where the view is not of conversions, or has both.
 *
 * @param {View} view
 * @param {Segment[]} segments
 * @param {{ events?: number, pageviews?: number }[]} rows  figures of the view
 */
export function conversionCount(view, segments, rows) {
  if (view.goal) return "conversions";
  const own = segments.find(({ id }) => id === view.segment);
  const filters = [...view.filters, ...(own ? own.filters.map(readFilter) : [])];
  if (!filters.some(isOfEvents)) return null;
  const has = (/** @type {"events" | "pageviews"} */ name) => rows.some((row) => (row[name] || 0) > 0);
  if (has("pageviews")) return has("events") ? null : "pageviews";
  return "events";
}

/**
 * Returns whether a filter selects events or conversions, not visits.
 *
 * @param {Filter} filter
 */
function isOfEvents([key, value]) {
  const { field, sign } = splitKey(key);
  if (field === "type") return !sign && ["event", "app_event"].includes(value);
  return field === "goal" || (sign !== "!" && (field === "event_name" ? value !== "" : field.startsWith("prop.")));
}

/**
 * Returns a row with its conversions in place of pageviews and events; with a chosen goal it has all of them.
 *
 * @template {Record<string, any>} T
 * @param {T} row
 * @param {string | null} count
 * @returns {T}
 */
export function withConversions(row, count) {
  if (!count || count === "conversions") return row;
  return { ...row, conversions: row.conversions ?? row[count], pageviews: undefined, events: undefined };
}

/**
 * Returns the name of the figure to show where another one is chosen that the view does not have.
 *
 * @param {string} chosen
 * @param {string | null} count
 */
export function shownFigure(chosen, count) {
  return count && count !== "conversions" && COUNTS.includes(chosen) ? count : chosen;
}

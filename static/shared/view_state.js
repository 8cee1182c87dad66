// What the dashboard shows, as a value that is read from the address and written to it, and the questions that follow
// from it. Pure: nothing here touches the page or the network.
//
// A view: { range, from, to, zone, interval, filters } and what a page has of its own
//   range     one of RANGES' names, or "custom", which alone has from and to (2026-11-15, both included)
//   interval  "day", "hour", or null: as fits the range
//   filters   [[field, value], ...], an empty value means unset
// What a page has of its own in the address is `own`: { read(query) gives a part of the view, write(view) gives
// [[name, value], ...] }.

import { FILTERS } from "./fields.js";
import { isKnownZone } from "./formats.js";

const DAY_MS = 86_400_000;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
// CONTRACT: a series has at most 10,000 buckets.
const MAX_BUCKETS = 10_000;
// our choice: what a page asks of its own accord is of at most a month; a filtered year takes the server some seconds.
export const AUTOMATIC_MAX_DAYS = 31;

export const RANGES = [
  { name: "today", short: "Today", long: "today", first: (today) => today },
  { name: "7d", short: "7 d", long: "the last 7 days", first: (today) => daysLater(today, -6) },
  { name: "30d", short: "30 d", long: "the last 30 days", first: (today) => daysLater(today, -29) },
  { name: "90d", short: "90 d", long: "the last 90 days", first: (today) => daysLater(today, -89) },
  { name: "12m", short: "12 m", long: "the last 12 months", first: (today) => daysLater(yearBefore(today), 1) },
];

/** The day so many days later. */
export function daysLater(day, count) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + count * DAY_MS).toISOString().slice(0, 10);
}

/** How many days from the first to the last, both included. */
export function dayCount(from, to) {
  return Math.round((Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / DAY_MS) + 1;
}

/** A moment's date and time in a zone: ["2026-11-21", "17:04:31"]. */
export function localTime(moment, zone) {
  const parts = {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  };
  // Swedish writes dates as ISO 8601 does.
  return new Intl.DateTimeFormat("sv-SE", { timeZone: zone, hourCycle: "h23", ...parts }).format(moment).split(" ");
}

/** Whether a name is a time zone's, written as the server wants it. */
export function isValidZone(name) {
  if (!isKnownZone(name)) return false;
  const known = new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone;
  // Browsers take any case, and call some zones by another name than they were given.
  return known === name || known.toLowerCase() !== name.toLowerCase();
}

const NOTHING = { read: () => ({}), write: () => [] };

/** The view that an address's query describes. What it says wrongly, or of filters but `fields`, is passed over. */
export function readView(query, zone, own = NOTHING, fields = FILTERS) {
  const [from, to] = [query.get("from") || "", query.get("to") || ""];
  const isCustom = isDay(from) && isDay(to) && from <= to;
  const named = RANGES.find((range) => range.name === query.get("range"));
  const view = {
    range: named ? named.name : isCustom ? "custom" : "7d",
    zone: isValidZone(query.get("tz")) ? query.get("tz") : zone,
    interval: ["day", "hour"].includes(query.get("interval")) ? query.get("interval") : null,
    filters: [...query]
      .filter(([name]) => name.startsWith("filter_") && fields.includes(name.slice(7)))
      .map(([name, value]) => [name.slice(7), value]),
    ...own.read(query),
  };
  if (view.range === "custom") Object.assign(view, { from, to });
  return view;
}

/** The query of the address that shows a view; range and zone always, so that the link shows everybody the same. */
export function writeView(view, own = NOTHING) {
  const query = new URLSearchParams();
  if (view.range === "custom") (query.append("from", view.from), query.append("to", view.to));
  else query.append("range", view.range);
  query.append("tz", view.zone);
  if (view.interval) query.append("interval", view.interval);
  for (const [field, value] of view.filters) query.append(`filter_${field}`, value);
  for (const [name, value] of own.write(view)) query.append(name, value);
  // Slashes and colons are allowed in a query, and read better as they are.
  return query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/** What the view means now: { from, to, days, today, before: {from, to}, isOpen, interval, canHour }. */
export function spanOf(view, now = Date.now()) {
  const [today, time] = localTime(now, view.zone);
  const named = RANGES.find((range) => range.name === view.range);
  const [from, to] = named ? [named.first(today), today] : [view.from, view.to];
  const days = dayCount(from, to);
  const canHour = days * 25 <= MAX_BUCKETS;
  const interval = view.interval === "hour" && canHour ? "hour" : view.interval || (days <= 2 ? "hour" : "day");
  const before = { from: daysLater(from, -days), to: daysLater(from, -1) };
  // A range that is not over is compared with as much of the one before: up to the same time of the same day.
  const isOpen = from <= today && today <= to;
  const beforeUntil = `${daysLater(today, -days)}T${time}`;
  return { from, to, days, today, before, beforeUntil, isOpen, interval, canHour };
}

/** The view so many ranges earlier (-1) or later (1). */
export function shiftRange(view, by, now = Date.now()) {
  const { from, to, days, today } = spanOf(view, now);
  const next = { ...view, range: "custom", from: daysLater(from, by * days), to: daysLater(to, by * days) };
  const named = RANGES.find((range) => range.first(today) === next.from && next.to === today);
  return named ? withRange(view, named.name) : next;
}

/** The view with a named range. */
export function withRange(view, range) {
  const { from, to, ...rest } = view;
  return { ...rest, range, interval: null };
}

/** The view with days of one's own. */
export function withDays(view, from, to) {
  return { ...view, range: "custom", from, to, interval: null };
}

/** The view with a filter more, or without it where it is there. */
export function toggleFilter(view, field, value) {
  const has = hasFilter(view, field, value);
  const left = view.filters.filter(([name, text]) => name !== field || text !== value);
  return { ...view, filters: has ? left : [...view.filters, [field, value]] };
}

/** Whether two views ask for the same days, in the same zone, with the same filters. */
export function hasSameScope(one, other) {
  const asked = ({ range, from, to, zone, filters }) => JSON.stringify([range, from, to, zone, filters]);
  return asked(one) === asked(other);
}

/** Whether the view has that filter. */
export function hasFilter(view, field, value) {
  return view.filters.some(([name, text]) => name === field && text === value);
}

/** The query of a question to the read API about a span of a view. */
export function reportQuery(view, { from, to }, more = {}) {
  const query = new URLSearchParams({ from, to, tz: view.zone });
  for (const [field, value] of view.filters) query.append(`filter_${field}`, value);
  for (const [name, value] of Object.entries(more)) query.append(name, value);
  return query.toString();
}

function isDay(text) {
  return (
    DATE.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`)) && text >= "1970-01-02" && text <= "2099-12-30"
  );
}

function yearBefore(day) {
  const year = Number(day.slice(0, 4)) - 1;
  return day.endsWith("02-29") ? `${year}-02-28` : `${year}${day.slice(4)}`;
}

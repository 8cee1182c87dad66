// What a bucket that is not over is likely to have at its end.

import { projected } from "../../../static/dashboard/projection.js";
import { closedBuckets } from "../../../static/shared/buckets.js";
import { cases } from "./cases.js";

// A Wednesday, at noon in Berlin.
const NOW = Date.parse("2026-11-25T11:00:00Z");
const ZONE = "Europe/Berlin";
const pad = (number) => String(number).padStart(2, "0");

/** The hours of 18 to 24 November: 10 visitors an hour before noon, 30 after, at weekends half of it. */
const HOURS = Array.from({ length: 7 }, (_, day) =>
  Array.from({ length: 24 }, (__, hour) => ({
    time: `2026-11-${18 + day}T${pad(hour)}:00:00.000+01:00`,
    visitors: (hour < 12 ? 10 : 30) / (day === 3 || day === 4 ? 2 : 1),
  })),
).flat();
const SERIES = {
  all: HOURS,
  none: [],
  "one hour": HOURS.slice(0, 1),
  "two days": HOURS.filter(({ time }) => ["23", "24"].includes(time.slice(8, 10))),
};
const likely = (start, visitors, interval = "day", known = "all", more = {}) => {
  const hours = SERIES[known];
  const row = { time: `${start}T00:00:00.000+01:00`, visitors };
  const value = projected(row, "visitors", { hours, zone: ZONE, interval, from: "2026-11-01", now: NOW, ...more });
  return value && Math.round(value);
};

cases("projected", likely, [
  // A quarter of the day's visitors come before noon.
  [["2026-11-25", 100], 400],
  // At half past twelve, with half of the hour's.
  [["2026-11-25", 135, "day", "all", { now: NOW + 1_800_000 }], 480],
  // Monday and Tuesday had 480 each, and Wednesday 120 so far; the week has 5 days of 480 and 2 of 240.
  [["2026-11-23", 1080, "week"], 2880],
  // Without Monday, which is before the range.
  [["2026-11-23", 600, "week", "all", { from: "2026-11-24" }], 2400],
  // Nothing so far.
  [["2026-11-01", 0, "month"], null],
  // Too few so far, and too few before.
  [["2026-11-25", 19], null],
  [["2026-11-25", 100, "day", "none"], null],
  [["2026-11-25", 100, "day", "one hour"], null],
  // At one in the morning nearly all of the day is to come.
  [["2026-11-25", 100, "day", "all", { now: Date.parse("2026-11-25T00:00:00Z") }], null],
  // On some days of the week nothing has been counted yet: a day can be projected, a week can not.
  [["2026-11-25", 100, "day", "two days"], 400],
  [["2026-11-23", 1080, "week", "two days"], null],
]);

const YESTERDAY = { time: new Date(Date.now() - 90_000_000).toISOString() };
const OPEN = { time: new Date(Date.now() - 3_600_000).toISOString() };
const AHEAD = { time: new Date(Date.now() + 3_600_000).toISOString() };

cases("closedBuckets", (rows, isOpen) => closedBuckets(rows, isOpen).length, [
  [[[YESTERDAY, OPEN, AHEAD], true], 1],
  [[[OPEN, AHEAD], true], 1],
  [[[YESTERDAY, OPEN], false], 2],
  [[[], true], 0],
]);

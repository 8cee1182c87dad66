import assert from "node:assert/strict";
import { test } from "node:test";
import {
  dayCount,
  daysLater,
  hasFilter,
  hasSameScope,
  isValidZone,
  localTime,
  readView,
  reportQuery,
  shiftRange,
  spanOf,
  toggleFilter,
  withDays,
  withRange,
  writeView,
} from "../../../static/shared/view_state.js";
import { cases } from "./cases.js";

const NOW = Date.parse("2026-11-21T23:30:00Z");
const VIEW = { range: "7d", zone: "UTC", interval: null, filters: [] };
const read = (query, fields) => readView(new URLSearchParams(query), "Europe/Berlin", undefined, fields);

cases("daysLater", daysLater, [
  [["2026-02-28", 1], "2026-03-01"],
  [["2024-02-28", 1], "2024-02-29"],
  [["2026-01-01", -1], "2025-12-31"],
]);
cases("dayCount", dayCount, [
  [["2026-11-21", "2026-11-21"], 1],
  // A day of 25 hours in Europe is one day.
  [["2026-10-24", "2026-10-26"], 3],
]);
cases("localTime", localTime, [
  [
    [NOW, "UTC"],
    ["2026-11-21", "23:30:00"],
  ],
  [
    [NOW, "Asia/Kolkata"],
    ["2026-11-22", "05:00:00"],
  ],
]);
cases("isValidZone", isValidZone, [
  [["Europe/Berlin"], true],
  [["europe/berlin"], false],
  [["+01:00"], false],
  [[null], false],
]);
cases("readView", read, [
  [[""], { range: "7d", zone: "Europe/Berlin", interval: null, filters: [] }],
  [["range=30d&tz=UTC&interval=hour"], { range: "30d", zone: "UTC", interval: "hour", filters: [] }],
  [["range=no&tz=no&interval=week"], { range: "7d", zone: "Europe/Berlin", interval: null, filters: [] }],
  [
    ["from=2026-11-01&to=2026-11-03"],
    {
      range: "custom",
      zone: "Europe/Berlin",
      interval: null,
      filters: [],
      from: "2026-11-01",
      to: "2026-11-03",
    },
  ],
  // The last day is before the first; no such day.
  [["from=2026-11-03&to=2026-11-01"], { range: "7d", zone: "Europe/Berlin", interval: null, filters: [] }],
  [["from=2026-11-31&to=2026-12-40"], { range: "7d", zone: "Europe/Berlin", interval: null, filters: [] }],
  [
    ["filter_os=Linux&filter_os=&filter_nothing=1"],
    {
      range: "7d",
      zone: "Europe/Berlin",
      interval: null,
      filters: [
        ["os", "Linux"],
        ["os", ""],
      ],
    },
  ],
  [["filter_os=Linux", ["device"]], { range: "7d", zone: "Europe/Berlin", interval: null, filters: [] }],
]);

for (const query of [
  "range=7d&tz=UTC",
  "range=12m&tz=Asia/Kolkata&interval=day",
  "from=2026-11-01&to=2026-11-03&tz=UTC&filter_pathname=/a/b&filter_referrer=",
]) {
  test(`an address is read and written unchanged: ${query}`, () => assert.equal(writeView(read(query)), query));
}

test("a page's own state is read and written", () => {
  const state = { read: (query) => ({ event: query.get("event") }), write: ({ event }) => [["event", event]] };
  const view = readView(new URLSearchParams("event=signup"), "UTC", state);
  assert.equal(view.event, "signup");
  assert.equal(writeView(view, state), "range=7d&tz=UTC&event=signup");
});

cases("spanOf", (view) => spanOf({ ...VIEW, ...view }, NOW), [
  [
    [{ range: "today" }],
    {
      from: "2026-11-21",
      to: "2026-11-21",
      days: 1,
      today: "2026-11-21",
      before: { from: "2026-11-20", to: "2026-11-20" },
      beforeUntil: "2026-11-20T23:30:00",
      isOpen: true,
      interval: "hour",
      canHour: true,
    },
  ],
  [
    [{ range: "custom", from: "2026-02-01", to: "2026-02-28", interval: "hour" }],
    {
      from: "2026-02-01",
      to: "2026-02-28",
      days: 28,
      today: "2026-11-21",
      before: { from: "2026-01-04", to: "2026-01-31" },
      beforeUntil: "2026-10-24T23:30:00",
      isOpen: false,
      interval: "hour",
      canHour: true,
    },
  ],
]);
cases("spanOf, first day", (range, now) => spanOf({ ...VIEW, range }, Date.parse(now)).from, [
  [["7d", "2026-11-21T00:00:00Z"], "2026-11-15"],
  [["30d", "2026-11-21T00:00:00Z"], "2026-10-23"],
  [["90d", "2026-11-21T00:00:00Z"], "2026-08-24"],
  [["12m", "2026-11-21T00:00:00Z"], "2025-11-22"],
  [["12m", "2024-02-29T00:00:00Z"], "2023-03-01"],
]);
cases(
  "spanOf, interval",
  (from, to, interval) => spanOf({ ...VIEW, range: "custom", from, to, interval }, NOW).interval,
  [
    [["2026-01-01", "2026-01-02", null], "hour"],
    [["2026-01-01", "2026-01-03", null], "day"],
    [["2026-01-01", "2026-01-03", "hour"], "hour"],
    // 10,000 buckets are the API's maximum: 400 days of 25 hours.
    [["2025-01-01", "2026-02-04", "hour"], "hour"],
    [["2025-01-01", "2026-02-05", "hour"], "day"],
  ],
);
cases("shiftRange", (view, by) => shiftRange({ ...VIEW, ...view }, by, NOW), [
  [[{}, -1], { ...VIEW, range: "custom", from: "2026-11-08", to: "2026-11-14" }],
  // Back to a range that has a name.
  [[{ range: "custom", from: "2026-11-08", to: "2026-11-14" }, 1], { ...VIEW, range: "7d" }],
]);

test("ranges replace each other and the interval", () => {
  const custom = withDays({ ...VIEW, interval: "hour" }, "2026-11-01", "2026-11-02");
  assert.deepEqual(custom, { ...VIEW, range: "custom", from: "2026-11-01", to: "2026-11-02" });
  assert.deepEqual(withRange(custom, "30d"), { ...VIEW, range: "30d" });
});

test("a filter is added and removed", () => {
  const one = toggleFilter(VIEW, "os", "Linux");
  const two = toggleFilter(one, "os", "");
  assert.ok(hasFilter(two, "os", "") && hasFilter(two, "os", "Linux") && !hasFilter(two, "os", "Windows"));
  assert.deepEqual(toggleFilter(two, "os", ""), one);
});

test("the scope is days, zone and filters, not what a page adds", () => {
  assert.ok(hasSameScope({ ...VIEW, figure: "visits", interval: "hour" }, VIEW));
  for (const other of [{ range: "30d" }, { zone: "Asia/Tokyo" }, { filters: [["os", "Linux"]] }]) {
    assert.ok(!hasSameScope({ ...VIEW, ...other }, VIEW));
  }
});

test("a report's query has the range, filters and parameters", () => {
  const view = toggleFilter(VIEW, "pathname", "/a b");
  assert.equal(
    reportQuery(view, { from: "2026-11-01", to: "2026-11-02" }, { limit: 10 }),
    "from=2026-11-01&to=2026-11-02&tz=UTC&filter_pathname=%2Fa+b&limit=10",
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  comparisonOf,
  dayCount,
  daysLater,
  hasFilter,
  hasSameScope,
  isFiltered,
  isValidZone,
  localTime,
  readView,
  reportQuery,
  shiftRange,
  spanOf,
  toggleFilter,
  withComparison,
  withDays,
  withKey,
  withoutLastFilter,
  withPeriod,
  writeView,
} from "../../../static/shared/view_state.js";
import { cases } from "./cases.js";

const SAVED = "0c9d4b1e77a2f630";
const NOW = Date.parse("2026-11-21T23:30:00Z");
const COMPARED = { compare: "previous", matchWeekday: false };
const VIEW = { period: "7d", zone: "UTC", interval: null, ...COMPARED, filters: [], segment: "" };
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
  [[""], { ...VIEW, zone: "Europe/Berlin" }],
  [["period=30d&tz=UTC&interval=hour"], { ...VIEW, period: "30d", interval: "hour" }],
  [["period=no&tz=no&interval=no&compare=no"], { ...VIEW, zone: "Europe/Berlin" }],
  [["from=2026-11-01&to=2026-11-03&tz=UTC"], { ...VIEW, period: "custom", from: "2026-11-01", to: "2026-11-03" }],
  // The last day is before the first; no such day.
  [["from=2026-11-03&to=2026-11-01&tz=UTC"], VIEW],
  [["from=2026-11-31&to=2026-12-40&tz=UTC"], VIEW],
  [
    ["filter_os=Linux&filter_os=&filter_nothing=1&tz=UTC"],
    {
      ...VIEW,
      filters: [
        ["os", "Linux"],
        ["os", ""],
      ],
    },
  ],
  [["filter_os=Linux&tz=UTC", ["device"]], VIEW],
  [["compare=off&match_weekday=true&tz=UTC"], { ...VIEW, compare: "off" }],
  [["compare=year&match_weekday=true&tz=UTC"], { ...VIEW, compare: "year", matchWeekday: true }],
  // A custom comparison needs its days.
  [["compare=custom&compare_from=2026-10-01&tz=UTC"], VIEW],
  [
    ["compare=custom&compare_from=2026-10-01&compare_to=2026-10-02&tz=UTC"],
    { ...VIEW, compare: "custom", compareFrom: "2026-10-01", compareTo: "2026-10-02" },
  ],
]);

for (const query of [
  "period=7d&tz=UTC",
  "period=12mo&tz=Asia/Kolkata&interval=week",
  "period=month&tz=UTC&compare=off",
  "period=7d&tz=UTC&compare=previous&match_weekday=true",
  "period=7d&tz=UTC&compare=custom&compare_from=2026-10-01&compare_to=2026-10-02",
  "from=2026-11-01&to=2026-11-03&tz=UTC&filter_pathname=/a/b&filter_referrer=",
  "period=7d&tz=UTC&filter_country!=DE&filter_pathname*=blog&filter_pathname^=/docs&filter_pathname$=.pdf",
  "period=7d&tz=UTC&filter_prop.plan!=pro&filter_goal=0c9d4b1e77a2f630&segment=0c9d4b1e77a2f630",
]) {
  test(`an address is read and written unchanged: ${query}`, () => assert.equal(writeView(read(query)), query));
}

test("a page's own state is read and written", () => {
  const state = { read: (query) => ({ event: query.get("event") }), write: ({ event }) => [["event", event]] };
  const view = readView(new URLSearchParams("event=signup"), "UTC", state);
  assert.equal(view.event, "signup");
  assert.equal(writeView(view, state), "period=7d&tz=UTC&event=signup");
});

cases("readView, what a page does not take", (query, fields) => read(query, fields).filters, [
  [["filter_os!=a&filter_os~=b&filter_prop.=c&filter_prop.n=1", ["os"]], [["os!", "a"]]],
  // A goal is one saved id, without an operator; share links know none.
  [[`filter_goal=x&filter_goal=${SAVED}&filter_goal=${SAVED}&filter_goal!=${SAVED}`], [["goal", SAVED]]],
  [[`filter_goal=${SAVED}`, ["os"]], []],
]);
cases("readView, segment", (query, fields) => read(query, fields).segment, [
  [[`segment=${SAVED}`], SAVED],
  [["segment=mine"], ""],
  [[`segment=${SAVED}`, ["os"]], ""],
]);

cases("spanOf", (view) => spanOf({ ...VIEW, ...view }, NOW), [
  [
    [{ period: "today" }],
    {
      from: "2026-11-21",
      to: "2026-11-21",
      days: 1,
      today: "2026-11-21",
      before: { from: "2026-11-20", to: "2026-11-20" },
      beforeUntil: "2026-11-20T23:30:00",
      isOpen: true,
      interval: "hour",
      intervals: ["minute", "hour", "day"],
    },
  ],
  [
    [{ period: "custom", from: "2026-02-01", to: "2026-02-28", interval: "hour" }],
    {
      from: "2026-02-01",
      to: "2026-02-28",
      days: 28,
      today: "2026-11-21",
      before: { from: "2026-01-01", to: "2026-01-31" },
      beforeUntil: null,
      isOpen: false,
      interval: "hour",
      intervals: ["hour", "day", "week"],
    },
  ],
]);
const TODAY = "2026-11-21T00:00:00Z";
const daysOf = (view, now = TODAY) => {
  const { from, to } = spanOf({ ...VIEW, ...view }, Date.parse(now));
  return `${from} ${to}`;
};
cases("spanOf, days", (period, now) => daysOf({ period }, now), [
  [["today"], "2026-11-21 2026-11-21"],
  [["yesterday"], "2026-11-20 2026-11-20"],
  [["7d"], "2026-11-15 2026-11-21"],
  [["28d"], "2026-10-25 2026-11-21"],
  [["30d"], "2026-10-23 2026-11-21"],
  [["90d"], "2026-08-24 2026-11-21"],
  [["month"], "2026-11-01 2026-11-21"],
  [["year"], "2026-01-01 2026-11-21"],
  [["6mo"], "2026-06-01 2026-11-21"],
  [["12mo"], "2025-12-01 2026-11-21"],
  [["6mo", "2026-02-28T00:00:00Z"], "2025-09-01 2026-02-28"],
  [["12mo", "2024-02-29T00:00:00Z"], "2023-03-01 2024-02-29"],
]);
cases("spanOf, all time", (first) => daysOf({ period: "all", first }), [
  [["2024-03-05"], "2024-03-05 2026-11-21"],
  [[""], "2026-11-21 2026-11-21"],
]);
const NOVEMBER = { period: "custom", from: "2026-11-01", to: "2026-11-10" };
const before = (view) => {
  const span = spanOf({ ...VIEW, ...view }, NOW);
  return [span.before && `${span.before.from} ${span.before.to}`, span.beforeUntil];
};
cases("spanOf, what is compared with", before, [
  [[NOVEMBER], ["2026-10-22 2026-10-31", null]],
  [[{ ...NOVEMBER, matchWeekday: true }], ["2026-10-18 2026-10-27", null]],
  [[{ ...NOVEMBER, compare: "year" }], ["2025-11-01 2025-11-10", null]],
  [[{ ...NOVEMBER, compare: "year", matchWeekday: true }], ["2025-11-02 2025-11-11", null]],
  [
    [{ ...NOVEMBER, compare: "custom", compareFrom: "2026-01-01", compareTo: "2026-01-02" }],
    ["2026-01-01 2026-01-02", null],
  ],
  [[{ ...NOVEMBER, compare: "off" }], [null, null]],
  // Calendar months and years that are over.
  [[{ ...NOVEMBER, from: "2026-10-01", to: "2026-10-31" }], ["2026-09-01 2026-09-30", null]],
  [[{ ...NOVEMBER, from: "2026-03-01", to: "2026-03-31" }], ["2026-02-01 2026-02-28", null]],
  [[{ ...NOVEMBER, from: "2026-07-01", to: "2026-09-30" }], ["2026-04-01 2026-06-30", null]],
  [[{ ...NOVEMBER, from: "2025-01-01", to: "2025-12-31" }], ["2024-01-01 2024-12-31", null]],
  [[{ ...NOVEMBER, from: "2026-10-01", to: "2026-10-31", matchWeekday: true }], ["2026-08-27 2026-09-26", null]],
  [[{ ...NOVEMBER, from: "2026-10-01", to: "2026-10-31", compare: "year" }], ["2025-10-01 2025-10-31", null]],
  [[{ ...NOVEMBER, from: "2026-10-01", to: "2026-10-30" }], ["2026-09-01 2026-09-30", null]],
  [[{ period: "all", first: "2026-01-01" }], [null, null]],
  // 29 February has no day a year before.
  [[{ period: "custom", from: "2024-02-29", to: "2024-02-29", compare: "year" }], ["2023-02-28 2023-02-28", null]],
  // A range that is not over ends at the time of day.
  [[{ period: "today" }], ["2026-11-20 2026-11-20", "2026-11-20T23:30:00"]],
  [[{ period: "7d", compare: "year" }], ["2025-11-15 2025-11-21", "2025-11-21T23:30:00"]],
  [
    [{ period: "7d", compare: "custom", compareFrom: "2026-01-01", compareTo: "2026-01-02" }],
    ["2026-01-01 2026-01-02", null],
  ],
]);
cases("comparisonOf", (view) => comparisonOf({ ...VIEW, ...view }, spanOf({ ...VIEW, ...view }, NOW)), [
  [[{}], { compare: "previous" }],
  [
    [{ period: "custom", from: "2026-10-01", to: "2026-10-31" }],
    { compare: "custom", compare_from: "2026-09-01", compare_to: "2026-09-30" },
  ],
  [[{ period: "custom", from: "2026-08-01", to: "2026-08-31" }], { compare: "previous" }],
  [[{ compare: "year", matchWeekday: true }], { compare: "year", match_weekday: "true" }],
  [
    [{ compare: "custom", compareFrom: "2026-01-01", compareTo: "2026-01-02" }],
    { compare: "custom", compare_from: "2026-01-01", compare_to: "2026-01-02" },
  ],
  [[{ compare: "off" }], {}],
  [[{ period: "all" }], {}],
]);
test("another comparison replaces the days of a custom one", () => {
  const custom = withComparison(VIEW, "custom", { days: { from: "2026-01-01", to: "2026-01-02" } });
  assert.deepEqual(custom, { ...VIEW, compare: "custom", compareFrom: "2026-01-01", compareTo: "2026-01-02" });
  assert.deepEqual(withComparison(custom, "year", { matchWeekday: true }), {
    ...VIEW,
    compare: "year",
    matchWeekday: true,
  });
});
cases(
  "spanOf, intervals of a day",
  (from, zone) => spanOf({ ...VIEW, zone, period: "custom", from, to: from }, NOW).intervals[0],
  [
    [["2026-10-24", "Europe/Berlin"], "minute"],
    // 25 hours; the API takes minutes for 24.
    [["2026-10-25", "Europe/Berlin"], "hour"],
    [["2026-03-29", "Europe/Berlin"], "minute"],
    [["2026-04-05", "Pacific/Auckland"], "hour"],
    [["2026-11-01", "America/Los_Angeles"], "hour"],
  ],
);
cases(
  "spanOf, interval",
  (from, to, interval) => spanOf({ ...VIEW, period: "custom", from, to, interval }, NOW).interval,
  [
    [["2026-01-01", "2026-01-01", "minute"], "minute"],
    [["2026-01-01", "2026-01-02", "minute"], "hour"],
    [["2026-01-01", "2026-01-02", null], "hour"],
    [["2026-01-01", "2026-01-03", null], "day"],
    [["2026-01-01", "2026-04-10", null], "day"],
    [["2026-01-01", "2026-04-11", null], "week"],
    [["2023-01-01", "2026-01-01", null], "month"],
    [["2026-01-01", "2026-01-03", "hour"], "hour"],
    // Shorter than two of them.
    [["2026-01-01", "2026-01-07", "week"], "day"],
    [["2026-01-01", "2026-01-28", "month"], "day"],
    [["2026-01-01", "2026-01-29", "month"], "month"],
    // 10,000 buckets are the API's maximum: 400 days of 25 hours.
    [["2025-01-01", "2026-02-04", "hour"], "hour"],
    [["2025-01-01", "2026-02-05", "hour"], "week"],
  ],
);
const shifted = (view, by) => {
  const { period, from, to } = shiftRange({ ...VIEW, ...view }, by, NOW);
  return from ? `${from} ${to}` : period;
};
cases("shiftRange", shifted, [
  [[{}, -1], "2026-11-08 2026-11-14"],
  // Back to a range that has a name.
  [[{ period: "custom", from: "2026-11-08", to: "2026-11-14" }, 1], "7d"],
  [[{ period: "today" }, -1], "yesterday"],
  [[{ period: "month" }, -1], "2026-10-01 2026-10-31"],
  [[{ period: "custom", from: "2026-10-01", to: "2026-10-31" }, -1], "2026-09-01 2026-09-30"],
  [[{ period: "custom", from: "2026-10-01", to: "2026-10-31" }, 1], "month"],
  [[{ period: "year" }, -1], "2025-01-01 2025-12-31"],
  [[{ period: "custom", from: "2025-01-01", to: "2025-12-31" }, 1], "year"],
  [[{ period: "12mo" }, -1], "2024-12-01 2025-11-30"],
  [[{ period: "custom", from: "2024-12-01", to: "2025-11-30" }, 1], "12mo"],
]);
test("a range of months remains one where days have the same", () => {
  const october = { ...VIEW, period: "custom", from: "2026-10-01", to: "2026-10-31" };
  for (const day of ["01", "07", "28", "30"]) {
    assert.equal(shiftRange(october, 1, Date.parse(`2026-11-${day}T12:00Z`)).period, "month");
  }
});

test("ranges replace each other and the interval", () => {
  const custom = withDays({ ...VIEW, interval: "hour" }, "2026-11-01", "2026-11-02");
  assert.deepEqual(custom, { ...VIEW, period: "custom", from: "2026-11-01", to: "2026-11-02" });
  assert.deepEqual(withPeriod(custom, "30d"), { ...VIEW, period: "30d" });
});

test("a filter is added and removed", () => {
  const one = toggleFilter(VIEW, "os", "Linux");
  const two = toggleFilter(one, "os", "");
  assert.ok(hasFilter(two, "os", "") && hasFilter(two, "os", "Linux") && !hasFilter(two, "os", "Windows"));
  assert.deepEqual(toggleFilter(two, "os", ""), one);
});

cases("withKey", (filters, key, values) => withKey({ ...VIEW, filters }, key, values).filters, [
  [
    [[], "os!", ["a", "b"]],
    [
      ["os!", "a"],
      ["os!", "b"],
    ],
  ],
  [
    [
      [
        ["os", "a"],
        ["os!", "b"],
        ["device", "c"],
      ],
      "os!",
      ["d"],
    ],
    [
      ["os", "a"],
      ["os!", "d"],
      ["device", "c"],
    ],
  ],
  [
    [
      [
        ["os", "a"],
        ["os", "b"],
      ],
      "os",
      [],
    ],
    [],
  ],
]);
cases("withoutLastFilter", (view) => withoutLastFilter({ ...VIEW, ...view }), [
  [
    [
      {
        filters: [
          ["os", "a"],
          ["os!", "b"],
          ["os!", "c"],
        ],
        segment: SAVED,
      },
    ],
    { ...VIEW, filters: [["os", "a"]], segment: SAVED },
  ],
  [[{ segment: SAVED }], VIEW],
]);
cases("isFiltered", (view) => isFiltered({ ...VIEW, ...view }), [
  [[{}], false],
  [[{ segment: SAVED }], true],
  [[{ filters: [["os", ""]] }], true],
]);

test("the scope is days, zone and filters, not what a page adds", () => {
  assert.ok(hasSameScope({ ...VIEW, figure: "visits", interval: "hour" }, VIEW));
  for (const other of [
    { period: "30d" },
    { compare: "off" },
    { zone: "Asia/Tokyo" },
    { filters: [["os", "Linux"]] },
    { segment: SAVED },
  ]) {
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

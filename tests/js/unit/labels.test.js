import assert from "node:assert/strict";
import { test } from "node:test";
import { DASHBOARD_STATE, NO_TABLE } from "../../../static/dashboard/dashboard_view.js";
import { CARDS, listNamed } from "../../../static/dashboard/list_cards.js";
import { changeOf, figureNamed, isNotable } from "../../../static/dashboard/key_figures.js";
import { sorted } from "../../../static/shared/list_dialog.js";
import { axisTicks, bucketDays, bucketLabel, bucketLabels } from "../../../static/shared/buckets.js";
import { FILTERS, fieldName, fieldTitle, valueText } from "../../../static/shared/fields.js";
import { allZones, currentName, offsetLabel, zoneLabel, zoneOffsets } from "../../../static/shared/time_zones.js";
import { withGoal } from "../../../static/shared/view_state.js";
import { overviewPath, readOverview, totalsOf } from "../../../static/websites/overview.js";
import { cases } from "./cases.js";

const HOUR_MS = 3_600_000;
const START = Date.parse("2026-11-21T17:00:00Z");
const hours = (count) => Array.from({ length: count }, (_, i) => Date.parse("2026-11-21T00:00:00Z") + i * HOUR_MS);
const days = (count) => Array.from({ length: count }, (_, i) => Date.parse("2026-01-01T00:00:00Z") + i * 24 * HOUR_MS);

cases("bucketLabel", bucketLabel, [
  [[START, "UTC", "day"], "Sat, Nov 21"],
  [[START, "UTC", "hour"], "Sat, Nov 21, 5:00 PM to 5:59 PM"],
  [[START, "UTC", "minute"], "Sat, Nov 21, 5:00 PM"],
  [[START, "Asia/Kolkata", "hour"], "Sat, Nov 21, 10:30 PM to 11:29 PM"],
  [[START, "UTC", "day", { withYear: true }], "Sat, Nov 21, 2026"],
]);
const WEEKS = ["2026-11-02T00:00:00.000+01:00", "2026-11-09T00:00:00.000+01:00", "2026-11-16T00:00:00.000+01:00"];
const MONTHS = ["2026-09-01T00:00:00.000+02:00", "2026-10-01T00:00:00.000+02:00", "2026-11-01T00:00:00.000+01:00"];
cases("bucketDays", (times, i, from, to, interval) => bucketDays(times, i, { from, to }, interval), [
  // The range begins on a Thursday and ends on a Saturday.
  [[WEEKS, 0, "2026-11-05", "2026-11-21", "week"], { from: "2026-11-05", to: "2026-11-08", isWhole: false }],
  [[WEEKS, 1, "2026-11-05", "2026-11-21", "week"], { from: "2026-11-09", to: "2026-11-15", isWhole: true }],
  [[WEEKS, 2, "2026-11-05", "2026-11-21", "week"], { from: "2026-11-16", to: "2026-11-21", isWhole: false }],
  [[WEEKS, 2, "2026-11-02", "2026-11-22", "week"], { from: "2026-11-16", to: "2026-11-22", isWhole: true }],
  [[MONTHS, 0, "2026-09-01", "2026-11-21", "month"], { from: "2026-09-01", to: "2026-09-30", isWhole: true }],
  [[MONTHS, 2, "2026-09-01", "2026-11-30", "month"], { from: "2026-11-01", to: "2026-11-30", isWhole: true }],
  [[MONTHS, 2, "2026-09-01", "2026-11-21", "month"], { from: "2026-11-01", to: "2026-11-21", isWhole: false }],
  [
    [["2026-11-21T17:00:00.000+01:00"], 0, "2026-11-20", "2026-11-22", "hour"],
    { from: "2026-11-21", to: "2026-11-21", isWhole: false },
  ],
]);
const RANGE = { from: "2026-09-01", to: "2026-11-21" };
cases(
  "bucketLabels",
  (times, interval, i) => bucketLabels(times, { zone: "Europe/Berlin", interval, range: RANGE })(i),
  [
    [[WEEKS, "week", 1], "Nov 9 – 15, 2026"],
    [[MONTHS, "month", 1], "October 2026"],
    [[MONTHS, "month", 2], "Nov 1 – 21, 2026"],
    [[["2026-11-20T00:00:00.000+01:00"], "day", 0], "Fri, Nov 20"],
  ],
);
cases("axisTicks", (starts, interval, most) => axisTicks(starts, "UTC", interval, most).map(([, text]) => text), [
  [
    [hours(24), "hour", 8],
    ["12 AM", "3 AM", "6 AM", "9 AM", "12 PM", "3 PM", "6 PM", "9 PM"],
  ],
  [
    [Array.from({ length: 1_440 }, (_, i) => hours(24)[0] + i * 60_000), "minute", 8],
    ["12 AM", "3 AM", "6 AM", "9 AM", "12 PM", "3 PM", "6 PM", "9 PM"],
  ],
  [
    [days(7), "day", 10],
    ["Jan 1", "Jan 2", "Jan 3", "Jan 4", "Jan 5", "Jan 6", "Jan 7"],
  ],
  // The last day has a label.
  [
    [days(7), "day", 4],
    ["Jan 1", "Jan 3", "Jan 5", "Jan 7"],
  ],
  [
    [days(130), "day", 5],
    ["Feb", "Mar", "Apr", "May"],
  ],
  // Years are named, and months are those of quarters, halves or whole years.
  [
    [days(1095), "day", 14],
    ["Apr", "Jul", "Oct", "2027", "Apr", "Jul", "Oct", "2028", "Apr", "Jul", "Oct"],
  ],
  [
    [days(1095), "day", 4],
    ["2027", "2028"],
  ],
]);
cases("fieldName", fieldName, [
  [["country"], "country"],
  [["os_version"], "system version"],
]);
cases("fieldTitle", fieldTitle, [[["country"], "Countries"]]);
cases("valueText", valueText, [
  [["country", "DE"], "Germany"],
  [["country", ""], "Unknown country"],
  [["referrer", ""], "Direct / None"],
  [["browser", ""], "Not set"],
  [["device", "mobile"], "Mobile"],
  [["type", "ab_assign"], "A/B assignment"],
  [["type", "unknown"], "unknown"],
  [["pathname", "/a"], "/a"],
]);
cases("zoneLabel", zoneLabel, [
  [["America/New_York"], "America/New York"],
  [["Asia/Calcutta"], "Asia/Kolkata"],
]);
cases("changeOf", changeOf, [
  [[150, 100], 50],
  [[50, 100], -50],
  [[0, 100], -100],
  [[5, 0], null],
  [[null, 5], null],
]);

test("all zones are sorted, unique and under their current names", () => {
  const zones = allZones("Etc/GMT+5", null);
  assert.deepEqual(zones, [...new Set(zones)].sort());
  assert.ok(zones.includes("Asia/Kolkata") && zones.includes("UTC") && zones.includes("Etc/GMT+5"));
  assert.ok(!zones.includes("Asia/Calcutta"));
});

test("every list of the dashboard has a report, a title and an empty text", () => {
  for (const name of CARDS.flatMap(({ fields }) => fields)) {
    const list = listNamed(name);
    assert.ok(FILTERS.includes(list.field) && list.path && list.title && list.all && list.none, name);
  }
  assert.equal(listNamed("country").path, "top/country");
  assert.equal(listNamed("utm_source").all, "All UTM sources");
  assert.equal(listNamed("entry").counts, "visits");
});

test("the dashboard's state keeps only what it knows", () => {
  const read = (query, fields = ["goal"]) => DASHBOARD_STATE.read(new URLSearchParams(query), fields);
  const view = read("figure=visits&tab_places=language&tab_pages=pathname&tab_sources=os");
  assert.deepEqual(view, {
    ...NO_TABLE,
    figure: "visits",
    goal: "",
    tabs: { pages: "pathname", places: "language" },
  });
  assert.deepEqual(DASHBOARD_STATE.write(view), [
    ["figure", "visits"],
    ["tab_pages", "pathname"],
    ["tab_places", "language"],
  ]);
  assert.deepEqual(read("figure=bounce_rate"), {
    ...{ ...NO_TABLE, figure: "visitors", goal: "", tabs: {} },
  });
  // With a goal its conversions are the first figure; pages without goals ignore it.
  const goal = "91be02d7c3f8a655";
  assert.equal(read(`goal=${goal}`).figure, "conversions");
  assert.deepEqual(DASHBOARD_STATE.write(read(`goal=${goal}`)), [["goal", goal]]);
  assert.deepEqual(DASHBOARD_STATE.write(read(`goal=${goal}&figure=visitors`)), [
    ["goal", goal],
    ["figure", "visitors"],
  ]);
  assert.equal(read(`goal=${goal}&figure=events`).figure, "conversions");
  assert.deepEqual(DASHBOARD_STATE.write(withGoal(read("figure=visits"), goal)), [["goal", goal]]);
  assert.equal(read(`goal=${goal}`, ["country"]).goal, "");
  assert.equal(read("figure=conversions").figure, "visitors");
  assert.equal(read("all=toString&sort=-visits").all, "");
  const table = read("all=entry&sort=-visits");
  assert.deepEqual(DASHBOARD_STATE.write(table), [
    ["all", "entry"],
    ["sort", "-visits"],
  ]);
});

const COUNT = { name: "visitors", inSeries: true };
const AVERAGE = { name: "visit_duration" };
const RATE = figureNamed("bounce_rate");
const OF_VISITORS = { ...figureNamed("conversion_rate"), name: "bounce_rate" };
const rateOf = (rate, visits, visitors = visits) => ({ bounce_rate: rate, visits, visitors });
const statsOf = (visitors, visits = visitors) => ({ visitors, visits });
cases("isNotable", isNotable, [
  // A tenth of many is more than chance, of few it is not.
  [[COUNT, 10, statsOf(1100), statsOf(1000)], true],
  [[COUNT, 10, statsOf(110), statsOf(100)], false],
  [[COUNT, 9.9, statsOf(10_990), statsOf(10_000)], false],
  [[COUNT, -50, statsOf(50), statsOf(100)], true],
  [[COUNT, 100, statsOf(2), statsOf(1)], false],
  [[COUNT, 10, statsOf(1100), null], false],
  [[COUNT, null, statsOf(1100), statsOf(0)], false],
  [[AVERAGE, -20, statsOf(100), statsOf(100)], true],
  [[AVERAGE, -20, statsOf(100), statsOf(99)], false],
  // Of 100 visits a fifth less is chance, of 1,000 it is not; 55 percent of 1,000 after 50 is.
  [[RATE, -20, rateOf(40, 100), rateOf(50, 100)], false],
  [[RATE, -20, rateOf(40, 1000), rateOf(50, 1000)], true],
  [[RATE, 10, rateOf(55, 100_000), rateOf(50, 100_000)], true],
  [[RATE, 9, rateOf(54.5, 100_000), rateOf(50, 100_000)], false],
  // Fewer than ten of a kind say nothing.
  [[RATE, 900, rateOf(10, 90), rateOf(1, 90)], false],
  [[RATE, -50, rateOf(null, 0), rateOf(50, 1000)], false],
  // A rate of visitors.
  [[OF_VISITORS, -20, rateOf(40, 1000, 100), rateOf(50, 1000, 100)], false],
]);

test("menus and optional lists are lists of their card", () => {
  for (const { fields, menu, optional = [] } of CARDS) {
    for (const name of [...(menu?.fields || []), ...optional]) assert.ok(fields.includes(name), name);
    assert.ok(![...(menu?.fields || []), ...optional].includes(fields[0]));
  }
});

const ROWS = [{ n: 2 }, { n: null }, { n: 10 }, { n: 1 }];
const TEXTS = [{ n: "b" }, { n: "a" }];
cases("sorted", (rows, isDown) => sorted(rows, (row) => row.n, isDown).map(({ n }) => n), [
  [
    [ROWS, true],
    [10, 2, 1, null],
  ],
  [
    [ROWS, false],
    [1, 2, 10, null],
  ],
  [
    [TEXTS, false],
    ["a", "b"],
  ],
]);

const listed = (name, visitors, before, active = 0) => ({
  ...{ name, domain: `${name}.example` },
  stats: {
    ...{ visitors, visits: visitors, pageviews: 2 * visitors, active_visitors: active },
    previous: { visitors: before, visits: before, pageviews: before },
  },
});

test("the figures of websites add up, without those that have none", () => {
  const all = [listed("a", 3, 1, 2), { name: "b", domain: "b.example", stats: null }, listed("c", 4, 5)];
  assert.deepEqual(totalsOf(all), {
    ...{ visitors: 7, visits: 7, pageviews: 14, active_visitors: 2 },
    previous: { visitors: 6, visits: 6, pageviews: 6 },
  });
  assert.equal(totalsOf([{ stats: null }]), null);
});

const overviewAgain = (query, kept = null) => overviewPath(readOverview(new URLSearchParams(query), kept), kept);

cases("overviewPath", overviewAgain, [
  [[""], "/"],
  [["", "30d"], "/?stats=30d"],
  [["sort=name", "12mo"], "/?stats=12mo&sort=name"],
  [["stats=7d", "30d"], "/?stats=7d"],
  [["", "7d"], "/"],
  [["", "constructor"], "/"],
  [["stats=7d&sort=visitors"], "/"],
  [["stats=30d&sort=name"], "/?stats=30d&sort=name"],
  [["stats=all&sort=constructor"], "/"],
]);

cases("offsetLabel", offsetLabel, [
  [[0], "UTC"],
  [[330], "UTC+5:30"],
  [[-480], "UTC\u22128"],
  [[-210], "UTC\u22123:30"],
]);
const IN_2026 = Date.parse("2026-11-21T12:00:00Z");
cases("zoneOffsets", zoneOffsets, [
  [
    ["Europe/Berlin", IN_2026],
    [60, 120],
  ],
  // Summer is in January.
  [
    ["Pacific/Auckland", IN_2026],
    [720, 780],
  ],
  [
    ["Asia/Kathmandu", IN_2026],
    [345, 345],
  ],
  [
    ["America/St_Johns", IN_2026],
    [-210, -150],
  ],
]);
cases("currentName", currentName, [
  [["Asia/Calcutta"], "Asia/Kolkata"],
  [["Europe/Berlin"], "Europe/Berlin"],
]);

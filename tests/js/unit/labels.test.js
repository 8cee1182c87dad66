import assert from "node:assert/strict";
import { test } from "node:test";
import { DASHBOARD_STATE } from "../../../static/dashboard/dashboard_view.js";
import { CARDS, listNamed } from "../../../static/dashboard/list_cards.js";
import { changeOf } from "../../../static/dashboard/key_figures.js";
import { axisTicks, bucketLabel } from "../../../static/shared/buckets.js";
import { FILTERS, fieldName, fieldTitle, valueText } from "../../../static/shared/fields.js";
import { allZones, zoneLabel } from "../../../static/shared/time_zones.js";
import { cases } from "./cases.js";

const HOUR_MS = 3_600_000;
const START = Date.parse("2026-11-21T17:00:00Z");
const hours = (count) => Array.from({ length: count }, (_, i) => Date.parse("2026-11-21T00:00:00Z") + i * HOUR_MS);
const days = (count) => Array.from({ length: count }, (_, i) => Date.parse("2026-01-01T00:00:00Z") + i * 24 * HOUR_MS);

cases("bucketLabel", bucketLabel, [
  [[START, "UTC", "day"], "Sat, Nov 21"],
  [[START, "UTC", "hour"], "Sat, Nov 21, 17:00 to 17:59"],
  [[START, "Asia/Kolkata", "hour", true], "Sat, Nov 21, 22:30"],
]);
cases("axisTicks", (starts, interval, most) => axisTicks(starts, "UTC", interval, most).map(([, text]) => text), [
  [
    [hours(24), "hour", 8],
    ["00:00", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00"],
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
  assert.equal(listNamed("utm_source").all, "UTM source");
  assert.equal(listNamed("entry").counts, "visits");
});

test("the dashboard's state keeps only what it knows", () => {
  const read = (query) => DASHBOARD_STATE.read(new URLSearchParams(query));
  const view = read("figure=visits&tab_places=language&tab_pages=pathname&tab_sources=os");
  assert.deepEqual(view, { figure: "visits", tabs: { places: "language" } });
  assert.deepEqual(DASHBOARD_STATE.write(view), [
    ["figure", "visits"],
    ["tab_places", "language"],
  ]);
  assert.deepEqual(read("figure=bounce_rate"), { figure: "visitors", tabs: {} });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { coverWords, measure, numberWords, scalarText } from "../../../static/events/scalars.js";
import {
  areaOf,
  areaWords,
  cellsByClicks,
  depthReachedBy,
  extentOf,
  hotSpots,
  placeWords,
  reached,
  textOf,
  widthClass,
} from "../../../static/heatmaps/heatmap_grid.js";
import { addressesOf, pageAt } from "../../../static/heatmaps/page_frame.js";
import { recentDetails } from "../../../static/rejected/reasons.js";
import { strength } from "../../../static/shared/password_strength.js";
import {
  METRICS,
  formatMetric,
  hasFewSamples,
  metricNamed,
  rating,
  verdict,
} from "../../../static/vitals/web_vitals.js";
import { cases } from "./cases.js";

const MAP = {
  bins_x: 50,
  bin_height: 20,
  clicks: 6,
  samples: 4,
  grid: [
    [16, 2, 1],
    [3, 2, 4],
    [16, 32, 1],
  ],
  scroll: [100, 100, 75, 50],
};
const LIMITS = { good: 2500, poor: 4000 };
const THRESHOLDS = { lcp: LIMITS, inp: { good: 200, poor: 500 }, cls: { good: 0.1, poor: 0.25 } };

cases("scalarText", scalarText, [
  [["pro"], "pro"],
  [["1"], '"1"'],
  [["true"], '"true"'],
  [["null"], '"null"'],
  [["[1]"], "[1]"],
  [[" "], '" "'],
  [[1.5], "1.5"],
  [[true], "true"],
  [[null], "null"],
]);
cases("measure", measure, [
  [[12480.5], "12,480.5"],
  [[0.00421], "0.00421"],
  [[0], "0"],
  [[null], "–"],
]);
cases("coverWords", coverWords, [
  [[{ events: 12, distinct: 3, exact: true }, 40], "on 12 of 40 events, 3 values"],
  [[{ events: 40, distinct: 1, exact: true }, 40], "on all 40 events, 1 value"],
  [[{ events: 1, distinct: 1, exact: true }, 1], "on the event, 1 value"],
  [[{ events: 40, distinct: 900, exact: false }, 40], "on all 40 events, more than 900 values"],
]);

test("a summary of numbers", () => {
  const words = numberWords({ samples: 4, sum: 10, mean: 2.5, min: 1, p50: 2, p95: 4, max: 4 });
  assert.deepEqual(
    words.map(([name, figure]) => `${name} ${figure}`),
    ["Mean 2.5", "Median 2", "p95 4", "Min 1", "Max 4", "Sum 10"],
  );
});

cases("areaWords", (cell) => areaWords(areaOf(cell), MAP), [
  [[[16, 32]], "32 to 34% from the left, 640 to 660 px from the top"],
]);
cases("placeWords", (cell) => placeWords(areaOf(cell), MAP, widthClass("desktop")), [
  [[[0, 0]], "Top left (0%), 0 px from the top"],
  [[[25, 6]], "Top center (50%), 120 px from the top"],
  [[[34, 18]], "Right (68%), 360 px from the top"],
  [[[40, 18]], "Right (80%), 360 px from the top"],
  [[[49, 35]], "Bottom right (98%), 700 px from the top"],
  [[[25, 36]], "Top center of screen 2 (50%), 720 px from the top"],
]);

test("hot spots take the cells around the one with the most clicks, once each", () => {
  // On desktops, a spot reaches two cells to the sides and one up and down; on phones eight to the sides.
  const grid = [
    [0, 0, 3],
    [2, 1, 2],
    [3, 0, 4],
    [5, 0, 1],
    [6, 9, 1],
  ];
  const map = { ...MAP, clicks: 11, grid };
  assert.deepEqual(hotSpots(map, widthClass("desktop")), [
    { left: 2, right: 6, top: 0, bottom: 2, count: 7 },
    { left: 0, right: 1, top: 0, bottom: 1, count: 3 },
    { left: 6, right: 7, top: 9, bottom: 10, count: 1 },
  ]);
  assert.deepEqual(
    hotSpots(map, widthClass("mobile")).map(({ count }) => count),
    [10, 1],
  );
});
test("an area has the text of its cell with the most clicks of those with a text", () => {
  const grid = [
    [0, 0, 3],
    [1, 0, 9],
    [2, 0, 5],
  ];
  const texts = [
    [0, 0, "Log in"],
    [2, 0, "Sign up"],
    [7, 7, "Never clicked in the range"],
  ];
  const map = { ...MAP, grid, texts };
  assert.equal(textOf({ left: 0, right: 3, top: 0, bottom: 1 }, map), "Sign up");
  assert.equal(textOf({ left: 0, right: 2, top: 0, bottom: 1 }, map), "Log in");
  assert.equal(textOf({ left: 1, right: 2, top: 0, bottom: 1 }, map), "");
  assert.equal(textOf({ left: 6, right: 8, top: 6, bottom: 8 }, map), "");
});
cases("reached", (y) => reached(MAP, y), [
  [[2], 75],
  [[9], 0],
]);
cases("depthReachedBy", (share) => depthReachedBy(MAP, share), [
  [[75], 40],
  [[50], 60],
  [[100], 20],
]);

test("cells by clicks, equal ones from the upper left", () => {
  assert.deepEqual(cellsByClicks(MAP), [
    [3, 2, 4],
    [16, 2, 1],
    [16, 32, 1],
  ]);
});

test("a page is drawn as deep as its data, at least one screen, at most 20,000 px", () => {
  const kind = widthClass("desktop");
  assert.deepEqual(extentOf({ ...MAP, grid: [], scroll: [] }, kind), { height: 720, rows: 36, isCut: false });
  assert.deepEqual(extentOf({ ...MAP, grid: [[0, 99, 1]] }, kind), { height: 2000, rows: 100, isCut: false });
  assert.deepEqual(extentOf({ ...MAP, grid: [[0, 5000, 1]] }, kind), { height: 20_000, rows: 1000, isCut: true });
});

test("only addresses of the website are framed; http only from http pages", () => {
  const site = { domain: "a.example", origins: ["app://x", "https://b.example", "http://localhost:3000"] };
  assert.deepEqual(addressesOf(site, ["evil.example", "www.a.example"]), [
    "https://www.a.example",
    "https://a.example",
    "https://b.example",
    "http://localhost:3000",
  ]);
});

cases("pageAt", (path) => pageAt("https://a.example", path), [
  [["/ok?x"], "https://a.example/ok?x"],
  [["//evil.example/x"], "https://a.example//evil.example/x"],
  [["@evil.example"], null],
  [[""], null],
]);

test("the details of a code's examples, each once", () => {
  const samples = ["a.example", "a.example", "ip-address", "b.example"].map((host) => ({
    code: "origin_not_allowed",
    host,
  }));
  assert.deepEqual(recentDetails(samples, "origin_not_allowed"), ["a.example", "b.example"]);
  assert.deepEqual(recentDetails(samples, "crawler"), []);
});

cases("formatMetric", formatMetric, [
  [["lcp", 2500], "2.5 s"],
  [["lcp", 2507], "2.51 s"],
  [["inp", 248.4], "248 ms"],
  [["inp", 999.6], "1,000 ms"],
  [["cls", 0.0834], "0.083"],
  [["cls", 0], "0"],
  [["lcp", null], "–"],
]);
cases("rating", (value) => rating(value, LIMITS), [
  [[2500], "good"],
  [[2500.1], "needs_improvement"],
  [[4000], "needs_improvement"],
  [[4000.1], "poor"],
  [[null], null],
]);
cases("hasFewSamples", hasFewSamples, [
  [[0], false],
  [[99], true],
  [[100], false],
]);

const rows = (lcp, inp, cls, samples = 100) =>
  Object.entries({ lcp, inp, cls }).map(([metric, p75]) => ({ metric, p75, samples }));
cases("verdict, isMet", (...given) => verdict(rows(...given), THRESHOLDS).isMet, [
  [[2000, 100, 0.1], true],
  // A page without interactions has no INP.
  [[2000, null, 0.1], true],
  [[2000, 100, null], null],
  [[3000, 100, 0.1], false],
  [[null, null, null], null],
]);

test("an unknown metric is the first one", () => {
  assert.equal(metricNamed("inp").short, "INP");
  assert.equal(metricNamed("none"), METRICS[0]);
});

cases("strength, level", (password, email) => strength(password, email).level, [
  [["short"], 0],
  [["x".repeat(201)], 0],
  [["password2024"], 1],
  [["qwertyuiop12"], 1],
  [["aaaaaaaaaaaaaaaa"], 1],
  [["ann.smith-tally", "ann.smith@example.com"], 1],
  [["violet cargo bridge 7"], 3],
]);

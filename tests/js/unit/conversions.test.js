// Conversions in place of pageviews and events.

import assert from "node:assert/strict";
import { test } from "node:test";

import { conversionCount, shownFigure, withConversions } from "../../../static/dashboard/conversions.js";
import { FIGURES, figuresOf } from "../../../static/dashboard/key_figures.js";
import { cases } from "./cases.js";

const GOAL = "91be02d7c3f8a655";
const SEGMENTS = [
  { id: "a", name: "Buyers", filters: ["filter_event_name=order"] },
  { id: "b", name: "Germany", filters: ["filter_country=DE"] },
];
const EVENTS = [
  { events: 0, pageviews: 0 },
  { events: 3, pageviews: 0 },
];
const count = (filters, rows = EVENTS, segment = "") => conversionCount({ filters, segment }, SEGMENTS, rows);

cases("conversionCount", count, [
  [[[]], null],
  [[[["country", "DE"]]], null],
  [[[["event_name", "order"]]], "events"],
  [[[["event_name^", "or"]]], "events"],
  // Pageviews are among what is not that event, and what has no name.
  [[[["event_name!", "order"]]], null],
  [[[["event_name", ""]]], null],
  [[[["prop.plan", "pro"]]], "events"],
  [[[["prop.plan!", "pro"]]], null],
  [[[["type", "app_event"]]], "events"],
  [[[["type", "pageview"]]], null],
  [[[["goal", GOAL]]], "events"],
  // A goal of pages; one of which nothing is counted; both.
  [[[["goal", GOAL]], [{ events: 0, pageviews: 2 }]], "pageviews"],
  [[[["goal", GOAL]], []], "events"],
  [[[["event_name", "order"]], [{ events: 1, pageviews: 2 }]], null],
  [[[], EVENTS, "a"], "events"],
  [[[], EVENTS, "b"], null],
]);
cases("withConversions", withConversions, [
  [[{ visitors: 2, pageviews: 0, events: 3 }, null], { visitors: 2, pageviews: 0, events: 3 }],
  [
    [{ visitors: 2, pageviews: 0, events: 3 }, "events"],
    { visitors: 2, conversions: 3, pageviews: undefined, events: undefined },
  ],
  // Those of the chosen goal stay.
  [
    [{ pageviews: 0, events: 3, conversions: 1 }, "events"],
    { conversions: 1, pageviews: undefined, events: undefined },
  ],
]);
cases("shownFigure", shownFigure, [
  [["pageviews", "events"], "events"],
  [["visitors", "events"], "visitors"],
  [["pageviews", null], "pageviews"],
]);

test("one figure of conversions takes the place of pageviews and events", () => {
  const names = figuresOf("events").map(({ name, title }) => [name, title]);
  assert.ok(names.some(([name, title]) => name === "events" && title === "Conversions"));
  assert.ok(!names.some(([name]) => name === "pageviews"));
  assert.equal(names.length, FIGURES.length - 1);
  assert.equal(figuresOf(null), FIGURES);
});

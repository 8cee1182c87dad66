import assert from "node:assert/strict";
import { test } from "node:test";
import { betweenWords, summaryWords } from "../../../static/funnels/funnel_chart.js";
import {
  STEPS_STATE,
  largestLoss,
  moveStep,
  readStep,
  shownValue,
  stepKeys,
  typedStep,
} from "../../../static/funnels/steps.js";
import { cases } from "./cases.js";

const read = (query) => STEPS_STATE.read(new URLSearchParams(query)).steps;
const rows = (...shares) => shares.map((of_previous, i) => ({ visits: i ? 10 : 100, of_previous }));
const row = (visits, share, mean_seconds) => ({ visits, of_first: share, of_previous: share, mean_seconds });

cases("steps of an address", read, [
  [
    ["step=pathname:/a:b&step=event_name:signup"],
    [
      { field: "pathname", value: "/a:b" },
      { field: "event_name", value: "signup" },
    ],
  ],
  [["step=os:Linux&step=pathname:&step=:/a&step=pathname"], []],
]);

test("a goal is a step of a funnel, not of journeys", () => {
  assert.deepEqual(read("step=goal:91be02d7c3f8a655"), [{ field: "goal", value: "91be02d7c3f8a655" }]);
  assert.equal(readStep("goal:91be02d7c3f8a655"), null);
});

const saved = { segments: [], goals: { 1: "Order" }, isLoaded: true };
cases("shownValue", shownValue, [
  [[{ field: "goal", value: "1" }, saved], "Order"],
  [[{ field: "goal", value: "2" }, saved], "(deleted goal)"],
  [
    [
      { field: "goal", value: "2" },
      { ...saved, goals: {}, isLoaded: false },
    ],
    "2",
  ],
  [[{ field: "pathname", value: "1" }, saved], "1"],
]);

test("steps beyond the maximum are ignored", () => {
  assert.equal(read(Array.from({ length: 12 }, (_, i) => `step=pathname:/${i}`).join("&")).length, 8);
});

cases("typedStep", typedStep, [
  [["pathname", " /pricing "], { field: "pathname", value: "/pricing" }],
  [["pathname", "pricing"], { field: "pathname", value: "/pricing" }],
  [["pathname", "https://example.com/a?b=1#c"], { field: "pathname", value: "/a" }],
  [["pathname", "https://"], { field: "pathname", value: "/https://" }],
  [["event_name", "sign up"], { field: "event_name", value: "sign up" }],
  [["event_name", "  "], null],
]);
cases("moveStep", moveStep, [
  [
    [["a", "b", "c"], 0, 2],
    ["b", "c", "a"],
  ],
  [
    [["a", "b", "c"], 2, 0],
    ["c", "a", "b"],
  ],
  [
    [["a", "b", "c"], 1, 1],
    ["a", "b", "c"],
  ],
]);

test("equal steps have different keys", () => {
  const step = { field: "pathname", value: "/" };
  assert.deepEqual(stepKeys([step, step]), ["pathname:/#0", "pathname:/#1"]);
});

cases("largestLoss", largestLoss, [
  [[rows(null, 50, 20, 80)], 2],
  [[rows(null, 50)], -1],
  [[rows(null, 100, 100)], -1],
  [[rows(null, 40, 40)], -1],
  [[rows(null, 0, null)], -1],
]);
cases("betweenWords", betweenWords, [
  [
    [row(3310, 100, null), row(1204, 36.37, 130)],
    "1,204 of 3,310 visits (36.4%) continued, after 2 m 10 s on average; 2,106 dropped off.",
  ],
  [[row(10, 100, null), row(10, 100, 5)], "10 of 10 visits (100%) continued, after 5 s on average; none dropped off."],
  [[row(10, 100, null), row(0, 0, null)], "None of 10 visits continued."],
  [[row(0, null, null), row(0, null, null)], "No visits reached the step before."],
]);
cases("summaryWords", summaryWords, [
  [[[row(40, 100, null), row(10, 25, 1)]], ["25.0% completed:", "10 of 40 visits that reached the first step."]],
  // Rounding never makes none or all of some.
  [
    [[row(200_000, 100, null), row(1, 0.0005, 1)]],
    ["<0.1% completed:", "1 of 200,000 visits that reached the first step."],
  ],
  [
    [[row(200_000, 100, null), row(199_999, 99.9995, 1)]],
    [">99.9% completed:", "199,999 of 200,000 visits that reached the first step."],
  ],
  [
    [[row(0, null, null), row(0, null, null)], true],
    ["No visits reached the first step", "in this range, with these filters."],
  ],
]);

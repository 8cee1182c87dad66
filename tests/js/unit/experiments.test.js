import assert from "node:assert/strict";
import { test } from "node:test";
import {
  conclusionsOf,
  detectableDifference,
  differenceInterval,
  isSmall,
  notesOf,
  pValueNumber,
  pValueText,
  splitCheck,
} from "../../../static/experiments/conclusions.js";
import { cases } from "./cases.js";

const META = { confidence: 0.95, least_of_a_kind: 10 };
const EVEN = { p_value: 0.41, is_off: false };
const OFF = { p_value: 1e-9, is_off: true };

/** A variant with Wilson's interval of its rate. */
function arm(variant, visitors, conversions, p_value = null, p_value_any_time = null) {
  const [z, p] = [1.959964, conversions / Math.max(1, visitors)];
  const middle = (p + z ** 2 / 2 / visitors) / (1 + z ** 2 / visitors);
  const half = (z / (1 + z ** 2 / visitors)) * Math.sqrt((p * (1 - p)) / visitors + z ** 2 / 4 / visitors ** 2);
  return {
    ...{ variant, visitors, conversions, p_value, p_value_any_time, lift: 10 },
    rate: visitors ? 100 * p : null,
    rate_low: 100 * (middle - half),
    rate_high: 100 * (middle + half),
    enough_data: conversions >= 10 && visitors - conversions >= 10,
  };
}

const CONTROL = arm("control", 1000, 41);
for (const [state, base, one, split] of [
  ["significant", CONTROL, arm("blue", 1000, 90, 0.0001, 0.0009), EVEN],
  ["planned", CONTROL, arm("blue", 1000, 60, 0.03, 0.31), EVEN],
  ["earlier", CONTROL, arm("blue", 1000, 44, 0.74, 0.01), EVEN],
  ["open", CONTROL, arm("blue", 1000, 44, 0.74, 1), EVEN],
  // Exactly the limit is not below it.
  ["open", CONTROL, arm("blue", 1000, 60, 0.05, 0.4), EVEN],
  ["few", arm("control", 30, 4), arm("blue", 28, 1, 0.2, 0.9), EVEN],
  ["same", CONTROL, arm("blue", 1000, 41, null, null), EVEN],
  ["empty", CONTROL, arm("blue", 0, 0), EVEN],
  ["off", CONTROL, arm("blue", 1000, 90, 0.0001, 0.0009), OFF],
]) {
  test(`the conclusion "${state}" of ${one.conversions} of ${one.visitors}, p ${one.p_value}`, () => {
    const [found] = conclusionsOf({ split }, { variants: [base, one] }, META);
    assert.deepEqual([found.variant, found.state], ["blue", state]);
    assert.ok(found.title && found.words);
    // Only a conclusion that is valid at any time is unconditional.
    assert.equal(found.words.includes("however often"), state === "significant");
  });
}

test("a decrease is called less", () => {
  const [found] = conclusionsOf({ split: EVEN }, { variants: [CONTROL, arm("blue", 1000, 12, 0.0001, 0.001)] }, META);
  assert.match(found.title, /less often/);
});

cases("splitCheck, state", (variants, split) => splitCheck({ variants, split }).state, [
  [
    [
      [
        { variant: "a", visitors: 10 },
        { variant: "b", visitors: 14 },
      ],
      EVEN,
    ],
    "even",
  ],
  [
    [
      [
        { variant: "a", visitors: 10 },
        { variant: "b", visitors: 99 },
      ],
      OFF,
    ],
    "off",
  ],
  [[[{ variant: "a", visitors: 10 }], EVEN], "alone"],
  [[[{ variant: "a", visitors: 0 }], EVEN], "none"],
]);

const TWO = [{ variant: "control" }, { variant: "blue" }];
cases("notesOf, how many", (...given) => notesOf(...given).length, [
  [[{ variants: TWO, goals: [1], split: EVEN }, false], 0],
  [[{ variants: TWO, goals: [1], split: EVEN }, true], 1],
  [[{ variants: [...TWO, { variant: "red" }], goals: [1, 2], split: EVEN }, false], 2],
  [[{ variants: [...TWO, { variant: "red" }], goals: [1, 2], split: OFF }, true], 0],
]);

test("Newcombe's interval as published (1998, table II, a)", () => {
  const interval = differenceInterval(arm("b", 80, 48), arm("a", 70, 56));
  assert.deepEqual(
    interval.map((end) => Math.round(10 * end) / 10),
    [5.2, 33.4],
  );
});

test("the detectable difference at 80% power", () => {
  assert.equal(Math.round(10 * detectableDifference(arm("b", 80, 48), arm("a", 70, 56))) / 10, 21.1);
});

cases("isSmall", (value) => isSmall(value, META), [
  [[0.0499], true],
  [[0.05], false],
  [[null], false],
]);
cases("pValueNumber", pValueNumber, [
  [[null], "–"],
  [[0.5], "0.50"],
  [[0.0499], "0.04990"],
  [[0.0123], "0.012"],
  [[0.00012], "0.0001"],
  [[0.00009], "<0.0001"],
]);
cases("pValueText", pValueText, [
  [[null], "no p-value"],
  [[1e-5], "p below 0.0001"],
  [[0.2], "p = 0.20"],
]);

// In a language with digits of its own, which Number does not read.
import assert from "node:assert/strict";
import { test } from "node:test";

Object.defineProperty(globalThis, "navigator", { value: { language: "ar-EG", languages: ["ar-EG"] } });
const { axisTicks } = await import("../../../static/shared/buckets.js");

const HOUR_MS = 3_600_000;
const START = Date.parse("2026-11-21T00:00:00Z");
const hours = Array.from({ length: 24 }, (_, i) => START + i * HOUR_MS);
const months = Array.from({ length: 36 }, (_, i) => Date.UTC(2024, i, 1));

test("hours have labels", () => {
  const ticks = axisTicks(hours, "UTC", "hour", 8);
  assert.deepEqual(
    ticks.map(([i]) => i),
    [0, 3, 6, 9, 12, 15, 18, 21],
  );
  assert.match(ticks[1][1], /^٣/);
});

test("months have labels", () => {
  assert.deepEqual(
    axisTicks(months, "UTC", "month", 12).map(([i]) => i),
    [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33],
  );
});

// In a locale with a clock of 24 hours; labels.test.js has those with one of 12.
import assert from "node:assert/strict";
import { test } from "node:test";

Object.defineProperty(globalThis, "navigator", { value: { language: "en-GB", languages: ["en-GB"] } });
const { axisTicks, bucketLabel } = await import("../../../static/shared/buckets.js");
const { beforeWords } = await import("../../../static/dashboard/key_figures.js");
const { dateTime } = await import("../../../static/shared/formats.js");

const START = Date.parse("2026-11-21T00:00:00Z");
const hours = Array.from({ length: 24 }, (_, i) => START + i * 3_600_000);

test("times of day have 24 hours", () => {
  assert.equal(bucketLabel(hours[0], "UTC", "hour"), "Sat 21 Nov, 00:00 to 00:59");
  assert.equal(dateTime(hours[17] + 240_000, "UTC"), "21 Nov, 17:04");
  assert.equal(
    beforeWords({ before: { from: "2026-11-08", to: "2026-11-14" }, beforeUntil: "2026-11-14T17:04:31" }),
    "8\u2009–\u200914 Nov 2026, up to 17:04",
  );
  assert.deepEqual(
    axisTicks(hours, "UTC", "hour", 4).map(([, text]) => text),
    ["00:00", "06:00", "12:00", "18:00"],
  );
});

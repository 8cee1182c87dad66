// Where annotations are drawn on a chart.

import { marksOf } from "../../../static/dashboard/annotations.js";
import { cases } from "./cases.js";

const DAYS = ["2026-11-16T00:00:00.000+01:00", "2026-11-17T00:00:00.000+01:00", "2026-11-18T00:00:00.000+01:00"];
const HOURS = ["2026-11-16T22:00:00.000+01:00", "2026-11-16T23:00:00.000+01:00", "2026-11-17T00:00:00.000+01:00"];

const placed = (from, to, times) =>
  marksOf([{ id: "1", from, to, text: "x" }], times).map(({ at, label }) => [at, label]);

cases("marksOf", placed, [
  [["2026-11-16", null, DAYS], [[0, "x"]]],
  [["2026-11-18", null, DAYS], [[2, "x"]]],
  [["2026-11-15", null, DAYS], []],
  [["2026-11-19", null, DAYS], []],
  [["2026-11-10", "2026-11-17", DAYS], [[0, "x"]]],
  [["2026-11-10", "2026-11-12", DAYS], []],
  [["2026-11-16T23:00:00.000+00:00", null, DAYS], [[1, "x"]]],
  [["2026-11-18T22:59:59.999+00:00", null, DAYS], [[2, "x"]]],
  [["2026-11-18T23:00:00.000+00:00", null, DAYS], []],
  [["2026-11-16", null, HOURS], [[0, "x"]]],
  [["2026-11-17", null, HOURS], [[2, "x"]]],
  [["2026-11-18", null, HOURS], []],
  [["2026-11-16T22:30:00.000+00:00", null, HOURS], [[1, "x"]]],
]);

const both = (...texts) =>
  marksOf(
    texts.map((text) => ({ id: text, from: "2026-11-17", to: null, text })),
    DAYS,
  ).map(({ label }) => label);

cases("annotations of one bucket share a marker", both, [[["a", "b"], ["a; b"]]]);

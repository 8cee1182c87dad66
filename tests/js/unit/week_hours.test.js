// The hours of the week: the series by hour, added up by weekday and hour of the local day.

import { weekHours } from "../../../static/dashboard/week_hours.js";
import { cases } from "./cases.js";

const LATER = Date.parse("2027-01-01T00:00:00Z");

/** Returns the cells that a day of the rows has: "weekday hour: sum/days" */
const cellsOf = (rows, now = LATER, count = "visitors") =>
  weekHours(
    rows.map(([time, visitors, conversions]) => ({ time, visitors, conversions })),
    count,
    now,
  ).flatMap((hours, weekday) =>
    hours.flatMap(({ sum, days, mean }, hour) => (days ? [`${weekday} ${hour}: ${sum}/${days}=${mean}`] : [])),
  );

// 2026-11-16 is a Monday.
const TWO_MONDAYS = [
  ["2026-11-16T09:00:00.000+01:00", 3, 1],
  ["2026-11-16T23:00:00.000+01:00", 0, 0],
  ["2026-11-17T00:00:00.000+01:00", 5, 2],
  ["2026-11-23T09:00:00.000+01:00", 4, 0],
];

cases("weekHours", cellsOf, [
  [[[]], []],
  [[TWO_MONDAYS], ["1 9: 7/2=3.5", "1 23: 0/1=0", "2 0: 5/1=5"]],
  [
    [TWO_MONDAYS, LATER, "conversions"],
    ["1 9: 1/2=0.5", "1 23: 0/1=0", "2 0: 2/1=2"],
  ],
  // An hour that is not over counts neither its visitors nor its day.
  [
    [TWO_MONDAYS, Date.parse("2026-11-23T08:59:59.999Z")],
    ["1 9: 3/1=3", "1 23: 0/1=0", "2 0: 5/1=5"],
  ],
  [
    [TWO_MONDAYS, Date.parse("2026-11-23T09:00:00Z")],
    ["1 9: 7/2=3.5", "1 23: 0/1=0", "2 0: 5/1=5"],
  ],
  // The weekday is that of the local day: in UTC it is Sunday here, and Tuesday there.
  [[[["2026-11-16T00:00:00.000+14:00", 1]]], ["1 0: 1/1=1"]],
  [[[["2026-11-16T23:00:00.000-08:00", 1]]], ["1 23: 1/1=1"]],
  // Clocks are set back: the day has the hour twice, and counts once.
  [
    [
      [
        ["2026-10-25T02:00:00.000+02:00", 2],
        ["2026-10-25T02:00:00.000+01:00", 3],
        ["2026-11-01T02:00:00.000+01:00", 1],
      ],
    ],
    ["0 2: 6/2=3"],
  ],
  // Set back by half an hour: the part after it belongs to the same hour.
  [
    [
      [
        ["2026-04-05T01:00:00.000+11:00", 2],
        ["2026-04-05T01:30:00.000+10:30", 3],
        ["2026-04-05T02:00:00.000+10:30", 4],
      ],
    ],
    ["0 1: 5/1=5", "0 2: 4/1=4"],
  ],
]);

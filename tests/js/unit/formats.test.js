import {
  clockTime,
  countryName,
  dayRange,
  decimal,
  displayZone,
  duration,
  isKnownZone,
  languageName,
  number,
  percent,
  percentOf,
  relativeTime,
  shortNumber,
  wholePercent,
} from "../../../static/shared/formats.js";
import { cases } from "./cases.js";

const NOW = Date.parse("2026-11-21T12:00:00Z");

cases("number", number, [
  [[12480], "12,480"],
  [[0], "0"],
  [[null], "–"],
  [[undefined], "–"],
]);
cases("shortNumber", shortNumber, [
  [[9_999], "9,999"],
  [[10_000], "10K"],
  [[12_480], "12.5K"],
  [[-12_480], "-12.5K"],
  [[3_400_000], "3.4M"],
  [[null], "–"],
]);
// Of the local zone, whichever it is.
cases("clockTime", clockTime, [[[new Date(2026, 10, 21, 2, 18, 1)], "2:18:01 AM"]]);
cases("percent", percent, [
  [[43.06], "43.1%"],
  [[50], "50.0%"],
  [[0], "0%"],
  [[0.04], "<0.1%"],
  [[0.05], "0.1%"],
  [[99.94], "99.9%"],
  [[99.95], ">99.9%"],
  [[100], "100%"],
  [[119.5], "119.5%"],
  [[0.123, 2], "0.12%"],
  [[0.004, 2], "<0.01%"],
  [[null], "–"],
]);
cases("percentOf", percentOf, [
  [[1, 2], "50.0%"],
  [[3, 3], "100%"],
  [[1, 200_000], "<0.1%"],
  [[199_999, 200_000], ">99.9%"],
  [[0, 0], "–"],
]);
cases("wholePercent", wholePercent, [
  [[95], "95%"],
  [[33.4], "33%"],
]);
cases("decimal", decimal, [
  [[2.305], "2.31"],
  [[2], "2.00"],
  [[2.5, 0], "3"],
  [[null], "–"],
]);
cases("duration", duration, [
  [[0], "0 s"],
  [[59.4], "59 s"],
  [[59.5], "1 m 0 s"],
  [[112], "1 m 52 s"],
  [[3_600], "1 h 0 m"],
  [[7_259], "2 h 0 m"],
  [[null], "–"],
]);
cases("dayRange", dayRange, [
  [["2026-11-15", "2026-11-21"], "Nov 15 – 21, 2026"],
  [["2026-12-31", "2027-01-01"], "Dec 31, 2026 – Jan 1, 2027"],
  [["2026-11-15", "2026-11-15"], "Sun, Nov 15, 2026"],
]);
cases("relativeTime", (moment) => relativeTime(moment, NOW), [
  [["2026-11-21T11:59:58Z"], "2 seconds ago"],
  [["2026-11-21T12:00:00Z"], "now"],
  [["2026-11-21T11:57:00Z"], "3 minutes ago"],
  [["2026-11-21T10:00:00Z"], "2 hours ago"],
  [["2026-11-20T12:00:00Z"], "yesterday"],
  [["2026-11-11T12:00:00Z"], "10 days ago"],
]);
cases("countryName", countryName, [
  [["DE"], "Germany"],
  [["XX"], "XX"],
  [["de"], "de"],
  [[""], ""],
]);
cases("languageName", languageName, [
  [["de"], "German"],
  [["not a tag"], "not a tag"],
]);
cases("isKnownZone", isKnownZone, [
  [["Europe/Berlin"], true],
  [["UTC"], true],
  // The server takes neither.
  [["+05:30"], false],
  [["Etc/Unknown"], false],
  [["Europe/Nowhere"], false],
  [[null], false],
]);
cases("displayZone", displayZone, [
  [["Asia/Tokyo"], "Asia/Tokyo"],
  [[null], Intl.DateTimeFormat().resolvedOptions().timeZone],
]);

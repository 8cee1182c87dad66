import assert from "node:assert/strict";
import { test } from "node:test";

import { matching, nearest, understood } from "../../../static/shared/suggestions.js";

test("the name with the fewest changes", () => {
  const names = ["Germany", "Georgia", "France", "Netherlands"];
  for (const [typed, name] of [
    ["germony", "Germany"],
    ["gorgia", "Georgia"],
    ["holland", "Germany"],
    ["FRANC", "France"],
  ]) {
    assert.equal(nearest(typed, names), name);
  }
  assert.equal(nearest("a", []), "");
});

test("a value that is named comes first, however many contain its name", () => {
  const rows = ["/a/1", "/a/2", "/a/3", "/A", "/b", "/a"].map((value) => ({ value, text: value }));
  const found = (typed) => matching(rows, typed).map((row) => row.value);
  assert.deepEqual(found("/a"), ["/A", "/a", "/a/1", "/a/2", "/a/3"]);
  assert.deepEqual(found("/B"), ["/b"]);
  assert.deepEqual(found("/c"), []);
  const unset = [...rows, { value: "", text: "Direct" }];
  assert.deepEqual(matching(unset, ""), unset);
});

const VALUES = [
  { field: "country", value: "DE", text: "Germany", count: 9 },
  { field: "country", value: "US", text: "United States", count: 20 },
  { field: "country", value: "AE", text: "United Arab Emirates", count: 0 },
  { field: "language", value: "de-DE", text: "German (Germany)", count: 8 },
  { field: "device", value: "mobile", text: "Mobile", count: 7 },
  { field: "referrer", value: "google.com", text: "google.com", count: 5 },
  { field: "referrer", value: "news.google.com", text: "news.google.com", count: 50 },
  { field: "utm_source", value: "google", text: "google", count: 1 },
  { field: "pathname", value: "/mobile", text: "/mobile", count: 90 },
];
const meant = (typed) => understood(typed, VALUES).map((part) => [part.words, part.values.map(({ value }) => value)]);

test("words mean values of several fields, the most likely first", () => {
  assert.deepEqual(meant("Germany mobile google"), [
    ["germany", ["DE", "de-DE"]],
    ["mobile", ["mobile", "/mobile"]],
    ["google", ["google", "google.com"]],
  ]);
  // A value of several words, its code, a part of its name; of a field the one with the most visitors.
  assert.deepEqual(meant("united states de"), [
    ["united states", ["US"]],
    ["de", ["DE", "de-DE"]],
  ]);
  assert.deepEqual(meant("united"), [["united", ["US"]]]);
  assert.deepEqual(meant("united arab"), [["united arab", ["AE"]]]);
  assert.deepEqual(meant("google.com nowhere"), [
    ["google.com", ["google.com"]],
    ["nowhere", []],
  ]);
  // What is typed is no pattern.
  assert.deepEqual(meant("(.* [a-"), [
    ["(.*", []],
    ["[a-", []],
  ]);
  assert.deepEqual(meant("  "), []);
});

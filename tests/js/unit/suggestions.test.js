import assert from "node:assert/strict";
import { test } from "node:test";

import { matching, nearest } from "../../../static/shared/suggestions.js";

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

import assert from "node:assert/strict";
import { test } from "node:test";

import { nearest } from "../../../static/shared/nearest.js";

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

import assert from "node:assert/strict";
import { test } from "node:test";

import { hueOf } from "../../../static/shared/initials.js";
import { matchingWebsites } from "../../../static/shared/website_switcher.js";

const WEBSITES = [
  { name: "Coffee shop", domain: "coffee.example" },
  { name: null, domain: "travel.example" },
];

for (const [text, found] of [
  ["", [0, 1]],
  ["  COFFEE ", [0]],
  ["travel", [1]],
  [".example", [0, 1]],
  ["tea", []],
]) {
  test(`websites found by "${text}"`, () => {
    assert.deepEqual(
      matchingWebsites(WEBSITES, text),
      found.map((i) => WEBSITES[i]),
    );
  });
}

test("a name always has the same hue", () => {
  assert.equal(hueOf("coffee.example"), hueOf("coffee.example"));
  const hues = new Set(Array.from({ length: 200 }, (_, i) => hueOf(`site${i}.example`)));
  assert.deepEqual([...hues].sort(), [0, 1, 2, 3, 4, 5]);
});

// Tables of cases: each row is a test with its own name.

import assert from "node:assert/strict";
import { test } from "node:test";

/** Text as it is compared: no-break and narrow spaces of Intl become plain spaces. */
function plain(value) {
  return typeof value === "string" ? value.replace(/[\u00a0\u2009\u202f]/g, " ") : value;
}

/** Runs `actual(...input)` for each [input (an array), expected]. */
export function cases(name, actual, table) {
  for (const [input, expected] of table) {
    test(`${name}(${input.map((one) => JSON.stringify(one) ?? String(one)).join(", ")})`, () => {
      assert.deepEqual(plain(actual(...input)), expected);
    });
  }
}

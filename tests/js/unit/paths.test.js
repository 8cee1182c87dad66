import assert from "node:assert/strict";
import { test } from "node:test";

const SOURCE = "../../../static/shared/paths.js";

/** The module as loaded below a base path. */
async function below(base) {
  globalThis.document = { querySelector: () => ({ content: base }) };
  return import(`${SOURCE}?${encodeURIComponent(base)}`);
}

for (const [base, path, expected] of [
  ["", "/login", "/login"],
  ["/stats", "/login", "/stats/login"],
  ["/stats", "/", "/stats/"],
  ["/stats", "//other.example/x", "//other.example/x"],
  ["/stats", "https://other.example/", "https://other.example/"],
  ["/stats", "#settings", "#settings"],
]) {
  test(`at(${path}) below "${base}"`, async () => assert.equal((await below(base)).at(path), expected));
}

for (const [base, pathname, expected] of [
  ["", "/login", "/login"],
  ["/stats", "/stats", "/"],
  ["/stats", "/stats/login", "/login"],
  ["/stats", "/statsx", null],
  ["/stats", "/login", null],
]) {
  test(`local(${pathname}) below "${base}"`, async () => assert.equal((await below(base)).local(pathname), expected));
}

test("the public address is --base-url, else that of the page", async () => {
  const { publicUrl } = await below("/stats");
  assert.equal(publicUrl("https://example.com/tally"), "https://example.com/tally");
  assert.equal(publicUrl(""), "https://stats.example.com/stats");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { filtersOf } from "../../../static/account/exclusion_filters.js";

/** Returns the queries of an entry as they are read, and whether they are exact. */
function read(kind, text) {
  const found = filtersOf(kind, text);
  return found && [found.queries.map(decodeURIComponent), found.isExact];
}

test("filters match what an entry matches", () => {
  assert.deepEqual(read("countries", "DE"), [["&filter_country=DE"], true]);
  assert.deepEqual(read("pages", "/a&b"), [["&filter_pathname=/a&b"], true]);
  assert.deepEqual(read("pages", "/admin/*"), [["&filter_pathname^=/admin/"], true]);
  assert.deepEqual(read("pages", "*.pdf"), [["&filter_pathname$=.pdf"], true]);
  assert.deepEqual(read("pages", "*draft**"), [["&filter_pathname*=draft"], true]);
  assert.deepEqual(read("pages", "*"), [[""], true]);
  assert.deepEqual(read("hostnames", "*.example.com"), [["&filter_hostname$=.example.com"], true]);
  assert.deepEqual(read("hostnames", "example.com"), [["&filter_hostname=example.com"], true]);
});

test("an entry with several parts matches at most what its filters match", () => {
  assert.deepEqual(read("pages", "/a*b"), [["&filter_pathname^=/a&filter_pathname$=b"], false]);
  assert.deepEqual(read("pages", "/a*b*c*d"), [["&filter_pathname^=/a&filter_pathname*=b&filter_pathname$=d"], false]);
});

test("referrers match with their subdomains", () => {
  const queries = ["&filter_referrer=spam.example", "&filter_referrer$=.spam.example"];
  for (const kind of ["referrers", "not_spam"]) assert.deepEqual(read(kind, "www.spam.example"), [queries, true]);
});

test("addresses are in no report", () => {
  assert.equal(read("addresses", "203.0.113.7"), null);
});

test("a typed sign does not begin another parameter", () => {
  assert.deepEqual(filtersOf("pages", "/a&period=all").queries, ["&filter_pathname=%2Fa%26period%3Dall"]);
});

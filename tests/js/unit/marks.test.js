import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { BOOTSTRAP_COLOURS, ICONS, iconOfBrowser, iconOfHost, iconOfSystem } from "../../../static/shared/brands.js";
import { cases } from "./cases.js";

const VENDOR = new URL("../../../static/vendor/", import.meta.url);
const directory = (name) => readdirSync(VENDOR).find((one) => one.startsWith(name));

cases("iconOfHost", iconOfHost, [
  [["google.com"], "google"],
  [["google.co.uk"], "google"],
  [["google.com.au"], "google"],
  [["news.google.com"], "googlenews"],
  [["l.facebook.com"], "facebook"],
  [["GitHub.com"], "github"],
  [["www.linkedin.com"], "linkedin"],
  [["copilot.microsoft.com"], "microsoft"],
  [["news.ycombinator.com"], "ycombinator"],
  [["google.example.com"], null],
  [["notgoogle.com"], null],
  [["facebook.com.example.org"], null],
  [["constructor.com"], null],
  [["localhost"], null],
  [[""], null],
]);
cases("iconOfBrowser", iconOfBrowser, [
  [["Chrome"], "googlechrome"],
  [["Firefox 145"], "firefoxbrowser"],
  [["Unknown"], null],
  [["constructor"], null],
]);
cases("iconOfSystem", iconOfSystem, [
  [["iOS 18.2"], "apple"],
  [["Linux"], "linux"],
  [["Windows"], null],
]);

test("the vendored icons are those that are named", () => {
  const vendored = (set) =>
    readdirSync(new URL(`${directory(set)}/`, VENDOR))
      .filter((name) => name.endsWith(".svg"))
      .map((name) => name.slice(0, -4))
      .sort();
  assert.deepEqual(vendored("simple-icons-"), ICONS);
  assert.deepEqual(vendored("bootstrap-icons-"), Object.keys(BOOTSTRAP_COLOURS).sort());
});

test("every country has a flag", () => {
  const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
  const names = new Intl.DisplayNames(["en"], { type: "region", fallback: "none" });
  const codes = letters.flatMap((one) => letters.map((other) => one + other)).filter((code) => names.of(code));
  const without = codes.filter(
    (code) => !existsSync(new URL(`${directory("circle-flags-")}/${code.toLowerCase()}.svg`, VENDOR)),
  );
  // Withdrawn codes, groups and test codes.
  const none = "BU CS DD DY EZ HV NH QO RH TP VD XA XB YD ZR ZZ".split(" ");
  assert.deepEqual(
    without.filter((code) => !none.includes(code)),
    [],
  );
});

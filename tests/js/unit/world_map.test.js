import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { chosenCountry, toggleCountry, viewBoxOf } from "../../../static/dashboard/world_map.js";
import { cases } from "./cases.js";

const WORLD = new URL("../../../static/vendor/world-atlas-2.0.2/countries.json", import.meta.url);
const { countries } = JSON.parse(readFileSync(WORLD, "utf8"));

cases("viewBoxOf", viewBoxOf, [
  // Centred, with a margin of 12% and in the proportions of the map.
  [["M100 50l20 0 0 10-20 0z"], "97 49 26 12"],
  // The largest area, wherever the others are.
  [["M0 0l1 0 0 1zM100 50l20 0 0 10-20 0z"], "97 49 26 12"],
  [[""], null],
]);

test("outlines are areas of one first point and steps, as viewBoxOf reads them", () => {
  for (const outline of Object.values(countries)) assert.match(outline, /^(M-?\d+ -?\d+l[-\d ]+z)+$/);
});

const view = (filters, tabs = {}) => ({ filters, tabs });
cases("chosenCountry", (...filters) => chosenCountry(view(filters)), [
  [[], ""],
  [[["country", "DE"]], "DE"],
  [
    [
      ["country", "DE"],
      ["country", "FR"],
    ],
    "",
  ],
  [[["city", "Rome"]], ""],
]);
test("choosing a country opens its regions where they are known; removing it leaves them", () => {
  const chosen = toggleCountry(view([]), "DE", true);
  assert.deepEqual(chosen, view([["country", "DE"]], { places: "region" }));
  assert.deepEqual(toggleCountry(chosen, "DE", true), view([]));
  assert.deepEqual(toggleCountry(view([]), "DE", false), view([["country", "DE"]]));
});

// The names of regions: "Berlin" for DE-BE, in English as those of cities are. They are 46 KB, loaded when a region is shown
// for the first time; until then, and if that fails, a region is its code.

import { at } from "./paths.js";

// deploy/refresh_regions.py reads the name.
const NAMES = "cldr-subdivisions-full-48.2.0";

/** @type {Record<string, Record<string, string>>} */
let names = {};
/** @type {Promise<void> | null} */
let loading = null;

/** Loads the names, once. */
export function loadRegions() {
  loading ||= fetch(at(`/assets/vendor/${NAMES}/en.json`))
    .then((answer) => answer.json())
    .then((all) => void (names = all))
    .catch(() => {});
  return loading;
}

/**
 * Returns a region's name; its code where the name is unknown.
 *
 * @param {string} code  of ISO 3166-2
 */
export function regionName(code) {
  const [country, region] = [code.slice(0, 2), code.slice(3)];
  const own = Object.hasOwn(names, country) ? names[country] : {};
  return Object.hasOwn(own, region) ? own[region] : code;
}

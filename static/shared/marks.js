// Marks: the small icon before a value. Flags of countries, icons of known hosts, browsers and systems from
// static/vendor, initials for the rest; requested when they are shown, and from this server alone.

import { BOOTSTRAP_COLOURS, iconOfBrowser, iconOfHost, iconOfSystem } from "./brands.js";
import { h, icon } from "./dom.js";
import { initials } from "./initials.js";

// deploy/refresh_icons.py reads the three names.
const FLAGS = "circle-flags-2.8.3";
const ICONS = "simple-icons-16.37.0";
const MORE_ICONS = "bootstrap-icons-1.13.2";

const DEVICES = ["desktop", "mobile", "tablet"];

/**
 * Returns a country's flag; null for anything but a country code.
 *
 * @param {string} code
 */
export function flagMark(code) {
  return /^[A-Z]{2}$/.test(code) ? image("flag", `/assets/vendor/${FLAGS}/${code.toLowerCase()}.svg`) : null;
}

/**
 * @param {string} name
 * @param {string | null} found
 */
function brandMark(name, found) {
  if (!found) return initials(name);
  const set = Object.hasOwn(BOOTSTRAP_COLOURS, found) ? MORE_ICONS : ICONS;
  return image("brand-mark", `/assets/vendor/${set}/${found}.svg`);
}

/**
 * @param {string} kind
 * @param {string} src
 */
function image(kind, src) {
  return h("img", { class: `mark ${kind}`, src, alt: "", width: 16, height: 16, loading: "lazy", decoding: "async" });
}

/**
 * @param {string} name
 */
function systemMark(name) {
  return name.startsWith("Windows")
    ? h("span", { class: "mark" }, icon("window"))
    : brandMark(name, iconOfSystem(name));
}

/**
 * @param {string} name
 */
function deviceMark(name) {
  return h("span", { class: "mark" }, icon(DEVICES.includes(name) ? name : "device"));
}

/** @type {Record<string, (value: string) => Node | null>} */
const MARKS = {
  country: flagMark,
  region: (value) => flagMark(value.slice(0, 2)),
  referrer: (value) => brandMark(value, iconOfHost(value)),
  hostname: (value) => brandMark(value, iconOfHost(value)),
  browser: (value) => brandMark(value, iconOfBrowser(value)),
  browser_version: (value) => brandMark(value, iconOfBrowser(value)),
  os: systemMark,
  os_version: systemMark,
  device: deviceMark,
};

/**
 * Returns the mark of a field's value; a blank one for the unset value, null for fields without marks. Decoration only:
 * the name stands beside it.
 *
 * @param {string} field
 * @param {string} value
 */
export function markOf(field, value) {
  if (!MARKS[field]) return null;
  return value === "" ? h("span", { class: "mark" }) : MARKS[field](value);
}

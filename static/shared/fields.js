// The fields of the read API: their names and the names of their values. Pure, except valueNode, which creates elements.

import { h } from "./dom.js";
import { countryName, flag, languageName } from "./formats.js";

// field: [name of one value, title of its list]
/** @type {Record<string, [one: string, title: string]>} */
const FIELDS = {
  pathname: ["page", "Pages"],
  referrer: ["referrer", "Referrers"],
  utm_source: ["UTM source", "UTM source"],
  utm_medium: ["UTM medium", "Medium"],
  utm_campaign: ["UTM campaign", "Campaign"],
  country: ["country", "Countries"],
  language: ["language", "Languages"],
  browser: ["browser", "Browsers"],
  os: ["operating system", "OS"],
  os_version: ["system version", "Versions"],
  device: ["device", "Devices"],
  hostname: ["hostname", "Hostnames"],
  platform: ["platform", "Platforms"],
  app_version: ["app version", "App versions"],
  event_name: ["event name", "Event names"],
  type: ["type", "Types"],
};

/** The fields to filter by: the 14 fields of traffic, event_name and type. */
export const FILTERS = Object.keys(FIELDS);

/** @type {Record<string, string>} */
export const TYPES = {
  pageview: "pageview",
  screen_view: "screen view",
  event: "event",
  app_event: "app event",
  vitals: "web vitals",
  heatmap: "heatmap",
  ab_assign: "A/B assignment",
  ab_convert: "A/B conversion",
};

/** @type {Record<string, string>} */
const UNSET = { referrer: "Direct / None", country: "Unknown country" };

/**
 * Returns the name of one value of a field: "country"
 *
 * @param {string} field
 */
export function fieldName(field) {
  return FIELDS[field][0];
}

/**
 * Returns the title of a field's list: "Countries"
 *
 * @param {string} field
 */
export function fieldTitle(field) {
  return FIELDS[field][1];
}

/**
 * Returns the name of a value: "Germany" for DE.
 *
 * @param {string} field
 * @param {string} value
 */
export function valueText(field, value) {
  if (value === "") return UNSET[field] || "Not set";
  if (field === "country") return countryName(value);
  if (field === "language") return languageName(value);
  if (field === "device") return value.charAt(0).toUpperCase() + value.slice(1);
  return field === "type" ? TYPES[value] || value : value;
}

/**
 * Returns a value's name as nodes: a flag before a country, the tag after a language.
 *
 * @param {string} field
 * @param {string} value
 */
export function valueNode(field, value) {
  const text = valueText(field, value);
  if (field === "country" && flag(value)) {
    return [h("span", { class: "flag", "aria-hidden": "true" }, flag(value)), text];
  }
  if (field === "language" && value && text !== value) return [text, " ", h("span", { class: "soft" }, value)];
  return text;
}

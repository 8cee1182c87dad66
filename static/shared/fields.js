// The 14 fields of the read API: what they are called, how their values are said, which cards show them. Pure but for
// `valueNode`, which makes elements.

import { h } from "./dom.js";
import { countryName, flag, languageName } from "./formats.js";

// field: [one of it, the tab's name, what the list says where nothing is set]
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

/** What can be filtered by: the 14 fields, event_name and type. */
export const FILTERS = Object.keys(FIELDS);

export const TYPES = {
  pageview: "page view",
  screen_view: "screen view",
  event: "event",
  app_event: "app event",
  vitals: "web vitals",
  heatmap: "heatmap",
  ab_assign: "A/B assignment",
  ab_convert: "A/B conversion",
};

const UNSET = { referrer: "Direct, or not told", country: "Unknown country" };

/** "country" */
export function fieldName(field) {
  return FIELDS[field][0];
}

/** "Countries" */
export function fieldTitle(field) {
  return FIELDS[field][1];
}

/** A value in words: Germany of DE. */
export function valueText(field, value) {
  if (value === "") return UNSET[field] || "Not set";
  if (field === "country") return countryName(value);
  if (field === "language") return languageName(value);
  if (field === "device") return value.charAt(0).toUpperCase() + value.slice(1);
  return field === "type" ? TYPES[value] || value : value;
}

/** A value to show: a flag beside a country's name, the tag beside a language's. */
export function valueNode(field, value) {
  const text = valueText(field, value);
  if (field === "country" && flag(value))
    return [h("span", { class: "flag", "aria-hidden": "true" }, flag(value)), text];
  if (field === "language" && value && text !== value) return [text, " ", h("span", { class: "soft" }, value)];
  return text;
}

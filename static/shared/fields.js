// The fields of the read API: their names and the names of their values. Pure, except valueNode and textNode, which create
// elements.

import { h } from "./dom.js";
import { countryName, languageName } from "./formats.js";
import { markOf } from "./marks.js";
import { texts } from "./messages.js";
import { apart, readableHost, readablePath } from "./readable.js";
import { regionName } from "./regions.js";

const t = await texts("shared");

// field: [name of one value, title of its list]
/** @type {Record<string, [one: string, title: string]>} */
const FIELDS = {
  pathname: [t("field_pathname"), t("list_pathname")],
  referrer: [t("field_referrer"), t("list_referrer")],
  utm_source: [t("field_utm_source"), t("list_utm_source")],
  utm_medium: [t("field_utm_medium"), t("list_utm_medium")],
  utm_campaign: [t("field_utm_campaign"), t("list_utm_campaign")],
  utm_content: [t("field_utm_content"), t("list_utm_content")],
  utm_term: [t("field_utm_term"), t("list_utm_term")],
  channel: [t("field_channel"), t("list_channel")],
  entry_page: [t("field_entry_page"), t("list_entry_page")],
  exit_page: [t("field_exit_page"), t("list_exit_page")],
  country: [t("field_country"), t("list_country")],
  region: [t("field_region"), t("list_region")],
  city: [t("field_city"), t("list_city")],
  language: [t("field_language"), t("list_language")],
  browser: [t("field_browser"), t("list_browser")],
  browser_version: [t("field_browser_version"), t("list_browser_version")],
  os: [t("field_os"), t("list_os")],
  os_version: [t("field_os_version"), t("list_os_version")],
  device: [t("field_device"), t("list_device")],
  hostname: [t("field_hostname"), t("list_hostname")],
  platform: [t("field_platform"), t("list_platform")],
  app_version: [t("field_app_version"), t("list_app_version")],
  event_name: [t("field_event_name"), t("list_event_name")],
  type: [t("field_type"), t("list_type")],
};

/** The fields to filter by: the dimensions, entry_page, exit_page, event_name and type. */
export const FILTERS = Object.keys(FIELDS);

/** @type {Record<string, string>} */
export const TYPES = {
  pageview: t("type_pageview"),
  screen_view: t("type_screen_view"),
  event: t("type_event"),
  app_event: t("type_app_event"),
  vitals: t("type_vitals"),
  heatmap: t("type_heatmap"),
  ab_assign: t("type_ab_assign"),
  ab_convert: t("type_ab_convert"),
  leave: t("type_leave"),
};

/** @type {Record<string, string>} */
const DEVICES = {
  desktop: t("device_desktop"),
  mobile: t("device_mobile"),
  tablet: t("device_tablet"),
  tv: t("device_tv"),
  console: t("device_console"),
  other: t("device_other"),
};

// The channels of tally/events/channels.py.
/** @type {Record<string, string>} */
const CHANNELS = {
  Direct: t("channel_direct"),
  "Paid search": t("channel_paid_search"),
  "Paid social": t("channel_paid_social"),
  Display: t("channel_display"),
  Shopping: t("channel_shopping"),
  "Organic social": t("channel_organic_social"),
  Video: t("channel_video"),
  "AI assistants": t("channel_ai_assistants"),
  "Organic search": t("channel_organic_search"),
  Email: t("channel_email"),
  Affiliates: t("channel_affiliates"),
  Referral: t("channel_referral"),
  Audio: t("channel_audio"),
  SMS: t("channel_sms"),
  Push: t("channel_push"),
  Other: t("channel_other"),
};

/** The names of values, by field. */
/** @type {Record<string, Record<string, string>>} */
export const VALUES = { channel: CHANNELS, device: DEVICES, type: TYPES };

/** Fields whose values are stored in ASCII. */
/** @type {Record<string, (value: string) => string>} */
const READABLE = {
  pathname: readablePath,
  entry_page: readablePath,
  exit_page: readablePath,
  hostname: readableHost,
  referrer: readableHost,
};

/** @type {Record<string, string>} */
const UNSET = { referrer: t("unset_referrer"), country: t("unset_country") };

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
 * Returns the name of a value: "Germany" for DE, "/über-uns" for /%C3%BCber-uns.
 *
 * @param {string} field
 * @param {string} value
 */
export function valueText(field, value) {
  if (value === "") return UNSET[field] || t("unset");
  if (field === "country") return countryName(value);
  if (field === "language") return languageName(value);
  if (field === "region") return regionName(value);
  if (Object.hasOwn(READABLE, field)) return READABLE[field](value);
  const named = VALUES[field];
  return named && Object.hasOwn(named, value) ? named[value] : value;
}

/**
 * Returns a value's name as nodes that keep the order of its parts in every script.
 *
 * @param {string} field
 * @param {string} value
 */
export function textNode(field, value) {
  const text = valueText(field, value);
  return Object.hasOwn(READABLE, field) ? apart(text) : text;
}

/**
 * Returns a value's name as nodes with all that belongs to it: its mark before it, the tag after a language, the code after a region.
 *
 * @param {string} field
 * @param {string} value
 */
export function valueNode(field, value) {
  const text = valueText(field, value);
  const isCoded = (field === "language" || field === "region") && value && text !== value;
  return [markOf(field, value), textNode(field, value), isCoded ? [" ", h("span", { class: "soft" }, value)] : null];
}

/**
 * Returns whether a value contains a text in lower case, as it is shown or as it is stored.
 *
 * @param {string} text
 * @param {string} field
 * @param {string} value
 */
export function isIn(text, field, value) {
  return [valueText(field, value), value].some((one) => one.toLowerCase().includes(text));
}

// Why events are rejected: what each code means and what to do. Pure, except for the nodes it creates.

import { h } from "../shared/dom.js";

/** Groups of codes, in the order in which they are shown. */
export const REASONS = [
  { name: "crawler", title: "Crawlers" },
  { name: "origin", title: "Origins" },
  { name: "invalid", title: "Invalid" },
  { name: "rate", title: "Rate limit" },
  { name: "quota", title: "Monthly limit" },
  { name: "too_late", title: "Too late" },
  { name: "unavailable", title: "Unavailable" },
];

const FIELD_HELP = "The examples below name the field. The API reference lists the valid values of each field.";

/** @type {Record<string, { title: string, means: string | ((website: any) => string), todo: (website: any) => Child }>} */
const CODES = {
  crawler: {
    title: "Crawlers",
    means:
      "Search engines, link previews, uptime monitors and other bots. They are not counted in any report or limit.",
    todo: () => "Nothing.",
  },
  origin_not_allowed: {
    title: "Origin not allowed",
    means: (/** @type {{ id: string, domain: string }} */ website) =>
      `Pages outside ${website.domain} that use this website's id: a preview, a copy, a page on localhost, or someone else's page.`,
    todo: (/** @type {{ id: string, domain: string }} */ website) => [
      "If the page is yours, add its origin under ",
      h("a", { href: `/websites/${website.id}#settings` }, "Allowed origins"),
      ". Otherwise nothing.",
    ],
  },
  rate_limited: {
    title: "Rate limit reached",
    means:
      "A client sent more requests per minute than the limit. The tracker waits and retries, so some of these events were counted later.",
    todo: () => [
      "If visitors connect through a proxy, set ",
      h("code", null, "--trusted-proxy"),
      "; otherwise they count as one client. If a server of yours sends for many visitors, send batches, or raise ",
      h("code", null, "--website-per-minute"),
      " and ",
      h("code", null, "--client-per-minute"),
      ".",
    ],
  },
  monthly_limit_reached: {
    title: "Monthly limit reached",
    means: "The monthly event limit of the account's plan was reached. It resets at the end of the month (UTC).",
    todo: () => ["See ", h("a", { href: "/account/plan" }, "Plan and usage"), "."],
  },
  timestamp_too_old: {
    title: "Timestamp too old",
    means: "The event's timestamp was more than 72 hours old: the device was offline for days, or its clock is wrong.",
    todo: () => ["Send events sooner, or import old events with ", h("code", null, "analytics-server import"), "."],
  },
  timestamp_in_future: {
    title: "Timestamp in the future",
    means: "The event's timestamp was more than 5 minutes ahead of the server's clock.",
    todo: () => "Set the client's clock, or omit the timestamp: the server then uses the time of arrival.",
  },
  invalid_type: {
    title: "Unknown type",
    means: "The event's type does not exist.",
    todo: () => "Fix the client. The API reference lists the types.",
  },
  missing_field: {
    title: "Missing field",
    means: "A field that the event's type requires was missing or empty.",
    todo: () => FIELD_HELP,
  },
  invalid_field: {
    title: "Invalid field",
    means: "A field was too long, had the wrong type, or was not one of the valid values.",
    todo: () => FIELD_HELP,
  },
  invalid_url: {
    title: "Invalid URL",
    means: "The URL of the page or the referrer was not an absolute http or https URL.",
    todo: () => "Send the full URL, including https://.",
  },
  invalid_event_data: {
    title: "Nested event data",
    means: "The event's data contained lists or objects.",
    todo: () => "Send a flat object: strings, numbers, true, false or null.",
  },
  event_data_too_large: {
    title: "Event data too large",
    means: "The event's data was larger than 4,096 bytes as compact JSON.",
    todo: () => "Send less data with each event.",
  },
  no_assignment: {
    title: "Conversion without a variant",
    means: "An A/B conversion named no variant, and its visitor had no assignment that day.",
    todo: () => "Send the assignment first, or name the variant in the conversion.",
  },
  overloaded: {
    title: "Server overloaded",
    means: "More events arrived than the server could store. Clients were asked to retry; the tracker does.",
    todo: () => "If this happens often, the server or its disk is too slow for the traffic.",
  },
  storage_unavailable: {
    title: "Storage unavailable",
    means: "The database could not be written. Clients were asked to retry; the tracker does.",
    todo: () => "Check the free disk space and the server's log.",
  },
};

const UNKNOWN_CODE = {
  means: "This code is unknown to this page.",
  todo: () => "Reload the page: the server is newer than the page.",
};

/**
 * Returns the explanation of a code: { title, means, todo (nodes) }.
 *
 * @param {string} code
 * @param {{ id: string, domain: string }} website
 */
export function explanation(code, website) {
  const { title = code, means, todo } = CODES[code] || UNKNOWN_CODE;
  return { title, means: typeof means === "function" ? means(website) : means, todo: todo(website) };
}

/**
 * Returns the detail of an example: its page, crawler or field.
 *
 * @param {RejectedSample} sample
 */
export function exampleDetail(sample) {
  if (sample.code === "origin_not_allowed") return pageWords(sample.host);
  if (sample.code === "crawler") return sample.crawler || "unnamed crawler";
  return sample.field ? h("code", null, sample.field) : "";
}

/**
 * @param {string | null} host
 */
function pageWords(host) {
  if (host === "ip-address") return "a page at an IP address";
  return host || "a page without a host, such as a file";
}

/**
 * Returns the different hosts, crawlers or fields of a code's examples, at most `most`.
 *
 * @param {RejectedSample[]} samples
 * @param {string} code
 * @param {number} [most]
 */
export function recentDetails(samples, code, most = 4) {
  const own = samples.filter((sample) => sample.code === code);
  const details = own.map((sample) => sample.host || sample.crawler || sample.field).filter(Boolean);
  return [...new Set(details)].filter((text) => text !== "ip-address").slice(0, most);
}

// Why events are rejected: what each code means and what to do. Pure, except for the nodes it creates.

import { h } from "../shared/dom.js";
import { readableHost } from "../shared/readable.js";
import { texts } from "../shared/messages.js";

const t = await texts("rejected");
const shared = await texts("shared");

/** Groups of codes, in the order in which they are shown. */
export const REASONS = [
  { name: "crawler", title: t("crawlers"), show: t("show_crawlers") },
  { name: "excluded", title: t("exclusions"), show: t("show_exclusions") },
  { name: "origin", title: t("origins"), show: t("show_origins") },
  { name: "invalid", title: t("invalid"), show: t("show_invalid") },
  { name: "rate", title: t("rate_limit"), show: t("show_rate_limit") },
  { name: "quota", title: t("monthly_limit"), show: t("show_monthly_limit") },
  { name: "too_late", title: t("too_late"), show: t("show_too_late") },
  { name: "unavailable", title: t("unavailable"), show: t("show_unavailable") },
];

const code = (/** @type {string} */ text) => h("code", null, text);

const excludedTodo = (/** @type {{ id: string }} */ { id }) =>
  t.rich("excluded_todo", { link: h("a", { href: `/websites/${id}/settings/exclusions` }, t("exclusions")) });

/** @type {Record<string, { title: string, means: string | ((website: any) => string), todo: (website: any) => Child }>} */
const CODES = {
  crawler: { title: t("crawlers"), means: t("crawler_means"), todo: () => t("todo_nothing") },
  origin_not_allowed: {
    title: t("origin_not_allowed"),
    means: ({ domain }) => t("origin_not_allowed_means", { domain: readableHost(domain) }),
    todo: ({ id }) =>
      t.rich("origin_not_allowed_todo", {
        link: h("a", { href: `/websites/${id}/settings/tracking` }, t("allowed_origins")),
      }),
  },
  excluded_address: { title: t("excluded_address"), means: t("excluded_address_means"), todo: excludedTodo },
  excluded_country: { title: t("excluded_country"), means: t("excluded_country_means"), todo: excludedTodo },
  excluded_page: { title: t("excluded_page"), means: t("excluded_page_means"), todo: excludedTodo },
  excluded_hostname: { title: t("excluded_hostname"), means: t("excluded_hostname_means"), todo: excludedTodo },
  referrer_spam: { title: t("referrer_spam"), means: t("referrer_spam_means"), todo: excludedTodo },
  datacenter: { title: t("datacenter"), means: t("datacenter_means"), todo: excludedTodo },
  rate_limited: {
    title: t("rate_limited"),
    means: t("rate_limited_means"),
    todo: () =>
      t.rich("rate_limited_todo", {
        proxy: code("--trusted-proxy"),
        website: code("--website-per-minute"),
        client: code("--client-per-minute"),
      }),
  },
  monthly_limit_reached: {
    title: t("monthly_limit_reached"),
    means: t("monthly_limit_reached_means"),
    todo: () => t.rich("monthly_limit_reached_todo", { link: h("a", { href: "/account/plan" }, shared("nav_plan")) }),
  },
  timestamp_too_old: {
    title: t("timestamp_too_old"),
    means: t("timestamp_too_old_means"),
    todo: () => t.rich("timestamp_too_old_todo", { command: code("analytics-server import") }),
  },
  timestamp_in_future: {
    title: t("timestamp_in_future"),
    means: t("timestamp_in_future_means"),
    todo: () => t("timestamp_in_future_todo"),
  },
  invalid_type: {
    title: t("invalid_type"),
    means: t("invalid_type_means"),
    todo: () => t("invalid_type_todo"),
  },
  missing_field: {
    title: t("missing_field"),
    means: t("missing_field_means"),
    todo: () => t("field_todo"),
  },
  invalid_field: {
    title: t("invalid_field"),
    means: t("invalid_field_means"),
    todo: () => t("field_todo"),
  },
  invalid_url: {
    title: t("invalid_url"),
    means: t("invalid_url_means"),
    todo: () => t("invalid_url_todo"),
  },
  invalid_event_data: {
    title: t("invalid_event_data"),
    means: t("invalid_event_data_means"),
    todo: () => t("invalid_event_data_todo"),
  },
  event_data_too_large: {
    title: t("event_data_too_large"),
    means: t("event_data_too_large_means"),
    todo: () => t("event_data_too_large_todo"),
  },
  no_assignment: {
    title: t("no_assignment"),
    means: t("no_assignment_means"),
    todo: () => t("no_assignment_todo"),
  },
  overloaded: {
    title: t("overloaded"),
    means: t("overloaded_means"),
    todo: () => t("overloaded_todo"),
  },
  storage_unavailable: {
    title: t("storage_unavailable"),
    means: t("storage_unavailable_means"),
    todo: () => t("storage_unavailable_todo"),
  },
};

const UNKNOWN_CODE = { means: t("unknown_means"), todo: () => t("unknown_todo") };

/**
 * Returns the explanation of a code: { title, means, todo (nodes) }.
 *
 * @param {string} name
 * @param {{ id: string, domain: string }} website
 */
export function explanation(name, website) {
  const { title = name, means, todo } = CODES[name] || UNKNOWN_CODE;
  return { title, means: typeof means === "function" ? means(website) : means, todo: todo(website) };
}

/**
 * Returns the detail of an example: its page, crawler or field.
 *
 * @param {RejectedSample} sample
 */
export function exampleDetail(sample) {
  if (sample.code === "origin_not_allowed") return pageWords(sample.host);
  if (sample.code === "referrer_spam") return readableHost(sample.host || "");
  if (sample.code === "crawler") return sample.crawler || t("unnamed_crawler");
  return sample.field ? code(sample.field) : "";
}

/**
 * @param {string | null} host
 */
function pageWords(host) {
  if (host === "ip-address") return t("page_at_ip");
  return host ? readableHost(host) : t("page_without_host");
}

/**
 * Returns the different hosts, crawlers or fields of a code's examples, at most `most`.
 *
 * @param {RejectedSample[]} samples
 * @param {string} name
 * @param {number} [most]
 */
export function recentDetails(samples, name, most = 4) {
  const own = samples.filter((sample) => sample.code === name);
  const details = own
    .map((sample) => readableHost(sample.host || "") || sample.crawler || sample.field)
    .filter(Boolean);
  return [...new Set(details)].filter((text) => text !== "ip-address").slice(0, most);
}

// Why events are left out, in words: what each code means and what to do. Pure but for the nodes it makes.

import { h } from "../shared/dom.js";

/** The reasons that codes come to, in the order in which they are shown. */
export const REASONS = [
  { name: "crawler", title: "Crawlers" },
  { name: "origin", title: "Other pages" },
  { name: "invalid", title: "Broken rules" },
  { name: "rate", title: "Too fast" },
  { name: "quota", title: "Month full" },
  { name: "too_late", title: "Too late" },
  { name: "unavailable", title: "Not stored" },
];

const FIELD_HELP = "The examples below say which field it was. The API's description lists what each field takes.";

const CODES = {
  crawler: {
    title: "Crawlers",
    means:
      "Search engines, link previews, monitors and other machines that open your pages. They are in no figure and use up nothing of a plan.",
    todo: () => "Nothing: this is as it should be.",
  },
  origin_not_allowed: {
    title: "Pages that may not send",
    means: (website) =>
      `Pages outside ${website.domain} that have this website's id: a preview, a copy of your pages, one on localhost, or somebody else's.`,
    todo: (website) => [
      "If such a page is yours, add its address under ",
      h("a", { href: `/websites/${website.id}#settings` }, "Who else may send"),
      ". What is not yours needs nothing.",
    ],
  },
  rate_limited: {
    title: "More than a client may send",
    means:
      "One client sent more requests in a minute than the server takes of it. The tracker waits and sends again, so part of this was counted after all.",
    todo: () => [
      "If all visitors come through a proxy, name it with ",
      h("code", null, "--trusted-proxy"),
      ": else they are one client. If a server of yours sends for many, let it send batches, or raise ",
      h("code", null, "--website-per-minute"),
      " and ",
      h("code", null, "--client-per-minute"),
      ".",
    ],
  },
  monthly_limit_reached: {
    title: "The month was full",
    means: "The events of the account's plan were used up. They are taken again when the month ends (UTC).",
    todo: () => ["See ", h("a", { href: "/account/plan" }, "Plan and usage"), "."],
  },
  timestamp_too_old: {
    title: "Came too late",
    means:
      "The event's own time lay more than 72 hours back: a device that was offline for days, or whose clock is wrong.",
    todo: () => ["Send sooner, or move old events in with ", h("code", null, "analytics-server import"), "."],
  },
  timestamp_in_future: {
    title: "Ahead of its time",
    means: "The event's own time lay more than 5 minutes ahead of the server's.",
    todo: () => "Set the sender's clock, or let it leave out the timestamp: then the time of arrival counts.",
  },
  invalid_type: {
    title: "No known type",
    means: "It named no type of event that there is.",
    todo: () => "Mend what sends it: the type is one of those that the API's description lists.",
  },
  missing_field: {
    title: "A field was missing",
    means: "A field that its type needs was not sent, or was empty.",
    todo: () => FIELD_HELP,
  },
  invalid_field: {
    title: "A field could not be used",
    means: "A field was too long, of another kind, or not one of its values.",
    todo: () => FIELD_HELP,
  },
  invalid_url: {
    title: "No full URL",
    means: "The page's or the referrer's address was no full http or https URL.",
    todo: () => "Send the whole address, with https:// in front.",
  },
  invalid_event_data: {
    title: "Data that is not flat",
    means: "An event's data held lists or objects inside.",
    todo: () => "Send text, numbers, true, false or null under plain names.",
  },
  event_data_too_large: {
    title: "Too much data",
    means: "An event's data was more than 4,096 bytes as compact JSON.",
    todo: () => "Send less with each event.",
  },
  no_assignment: {
    title: "A conversion without its variant",
    means: "An A/B conversion named no variant, and its visitor had none that day.",
    todo: () => "Send the assignment first, or the variant with the conversion.",
  },
  overloaded: {
    title: "The server had too much to do",
    means: "More came than could be stored. The sender was told to send it again; the tracker does.",
    todo: () => "If it happens often, the machine or its disk is too slow for what comes.",
  },
  storage_unavailable: {
    title: "The disk took nothing",
    means: "The database could not be written. The sender was told to send it again; the tracker does.",
    todo: () => "Look at the disk's free space and at the server's log.",
  },
};

const UNKNOWN_CODE = {
  means: "This page does not know that code yet.",
  todo: () => "Load the page anew: the server is newer than it.",
};

/** A code in words: { title, means, todo (nodes) }. */
export function explanation(code, website) {
  const { title = code, means, todo } = CODES[code] || UNKNOWN_CODE;
  return { title, means: typeof means === "function" ? means(website) : means, todo: todo(website) };
}

/** What an example shows besides its time and its reason. */
export function exampleDetail(sample) {
  if (sample.code === "origin_not_allowed") return pageWords(sample.host);
  if (sample.code === "crawler") return sample.crawler || "a crawler without a known name";
  return sample.field ? h("code", null, sample.field) : "";
}

function pageWords(host) {
  if (host === "ip-address") return "a page at a bare address";
  return host || "a page that names no host, such as a file";
}

/** Of the examples of a code, what tells them apart, each once: hosts, names, fields. At most so many. */
export function recentDetails(samples, code, most = 4) {
  const own = samples.filter((sample) => sample.code === code);
  const said = own.map((sample) => sample.host || sample.crawler || sample.field).filter(Boolean);
  return [...new Set(said)].filter((text) => text !== "ip-address").slice(0, most);
}

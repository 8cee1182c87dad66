// The cards with top lists on the dashboard, and the report of each list.

import { fieldName, fieldTitle } from "../shared/fields.js";

/** The cards in their order; the first list of each is shown first. */
export const CARDS = [
  { name: "pages", title: "Pages", fields: ["pathname", "entry", "exit"] },
  { name: "sources", title: "Sources", fields: ["referrer", "utm_source", "utm_medium", "utm_campaign"] },
  { name: "places", title: "Places", fields: ["country", "language"] },
  { name: "browsers", title: "Browsers and devices", fields: ["browser", "os", "os_version", "device"] },
  { name: "apps", title: "Hostnames and apps", fields: ["hostname", "platform", "app_version"] },
  { name: "names", title: "Events", fields: ["event_name"] },
];

// Lists with a report of their own: [report, field to filter by, what is counted, tab, name of all rows, empty text].
/** @type {Record<string, string[]>} */
const OTHERS = {
  entry: ["entry-pages", "pathname", "visits", "Entry", "entry pages", "No visits with pageviews in this range."],
  exit: ["exit-pages", "pathname", "visits", "Exit", "exit pages", "No visits with pageviews in this range."],
  event_name: ["event-names", "event_name", "visitors", "Events", "events", "No events in this range."],
};

/**
 * Returns a list: { name, path (its report), field (a click filters by it), counts ("visitors" or "visits"), title, all
 * ("entry pages"), none (the empty text) }.
 *
 * @param {string} name
 * @returns {TopList}
 */
export function listNamed(name) {
  const title = OTHERS[name] ? "" : fieldTitle(name);
  const [path, field, counts, tab, all, none] = OTHERS[name] || [
    ...[
      `top/${name}`,
      name,
      "visitors",
      title,
      title.replace(/^[A-Z](?=[a-z])/, (/** @type {any} */ first) => first.toLowerCase()),
    ],
    `No ${fieldName(name)} in this range.`,
  ];
  return { name, path, field, counts, title: tab, all, none };
}

// Which lists the dashboard has, and where each comes from.

import { fieldName, fieldTitle } from "../shared/fields.js";

/** The cards of lists, in their order; the first field of each is open at first. */
export const CARDS = [
  { name: "pages", title: "Pages", fields: ["pathname", "entry", "exit"] },
  { name: "sources", title: "Sources", fields: ["referrer", "utm_source", "utm_medium", "utm_campaign"] },
  { name: "places", title: "Places", fields: ["country", "language"] },
  { name: "browsers", title: "Browsers and devices", fields: ["browser", "os", "os_version", "device"] },
  { name: "apps", title: "Hostnames and apps", fields: ["hostname", "platform", "app_version"] },
  { name: "names", title: "Events", fields: ["event_name"] },
];

// Lists that are no field's values by visitors: [question, filters by, counts, tab, all of them, where there are none].
const OTHERS = {
  entry: ["entry-pages", "pathname", "visits", "Entry", "entry pages", "No visit with a view began in this range."],
  exit: ["exit-pages", "pathname", "visits", "Exit", "exit pages", "No visit with a view began in this range."],
  event_name: ["event-names", "event_name", "visitors", "Events", "events", "No event was counted in this range."],
};

/**
 * What a list shows: { name, path (its question), field (what a row filters by), counts ("visitors" or "visits"), title,
 * all ("entry pages"), none }.
 */
export function listNamed(name) {
  const title = OTHERS[name] ? null : fieldTitle(name);
  const [path, field, counts, tab, all, none] = OTHERS[name] || [
    ...[`top/${name}`, name, "visitors", title, title.replace(/^[A-Z](?=[a-z])/, (first) => first.toLowerCase())],
    `No ${fieldName(name)} was seen in this range.`,
  ];
  return { name, path, field, counts, title: tab, all, none };
}

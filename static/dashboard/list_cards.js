// The cards with top lists on the dashboard, and the report of each list.

import { fieldName, fieldTitle } from "../shared/fields.js";
import { texts } from "../shared/messages.js";

const t = await texts("dashboard");
const shared = await texts("shared");

/**
 * The cards in their order; the first list of each is shown first. `menu`: lists that share one tab. `optional`: lists
 * whose tabs are shown only where they have values. A card that `mayHide` is hidden where it has nothing to compare: less
 * than `least` rows, and no optional list.
 *
 * @type {ListCard[]}
 */
export const CARDS = [
  { name: "pages", title: fieldTitle("pathname"), fields: ["pathname", "entry", "exit"] },
  {
    name: "sources",
    title: t("sources"),
    fields: ["channel", "referrer", "utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"],
    menu: { title: t("campaigns"), fields: ["utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"] },
  },
  {
    name: "places",
    title: t("places"),
    fields: ["country", "region", "city", "language"],
    optional: ["region", "city"],
  },
  {
    name: "browsers",
    title: t("browsers_and_devices"),
    fields: ["browser", "os", "device", "browser_version", "os_version"],
    menu: { title: t("versions"), fields: ["browser_version", "os_version"] },
  },
  { name: "names", title: shared("figure_events"), fields: ["event_name"], mayHide: { least: 1 } },
  {
    name: "apps",
    title: t("hostnames_and_apps"),
    fields: ["hostname", "platform", "app_version"],
    optional: ["platform", "app_version"],
    mayHide: { least: 2 },
  },
];

// Lists with a report of their own: [report, field to filter by, what is counted, tab, empty text].
/** @type {Record<string, string[]>} */
const OTHERS = {
  entry: ["entry-pages", "entry_page", "visits", t("entry"), t("no_visits_with_pageviews")],
  exit: ["exit-pages", "exit_page", "visits", t("exit"), t("no_visits_with_pageviews")],
  event_name: ["event-names", "event_name", "visitors", shared("figure_events"), shared("no_events_in_range")],
};

// The buttons that open all values of a list.
/** @type {Record<string, string>} */
const ALL = {
  pathname: t("all_pathname"),
  entry: t("all_entry"),
  exit: t("all_exit"),
  channel: t("all_channel"),
  referrer: t("all_referrer"),
  utm_source: t("all_utm_source"),
  utm_medium: t("all_utm_medium"),
  utm_campaign: t("all_utm_campaign"),
  utm_content: t("all_utm_content"),
  utm_term: t("all_utm_term"),
  country: t("all_country"),
  region: t("all_region"),
  city: t("all_city"),
  language: t("all_language"),
  browser: t("all_browser"),
  os: t("all_os"),
  device: t("all_device"),
  browser_version: t("all_browser_version"),
  os_version: t("all_os_version"),
  event_name: t("all_event_name"),
  hostname: t("all_hostname"),
  platform: t("all_platform"),
  app_version: t("all_app_version"),
};

/**
 * Returns whether there is a list of that name.
 *
 * @param {string} name
 */
export function isList(name) {
  return Object.hasOwn(ALL, name);
}

/**
 * Returns a list: { name, path (its report), field (a click filters by it), counts ("visitors" or "visits"), title, all
 * (the button of all values), none (the empty text) }.
 *
 * @param {string} name
 * @returns {TopList}
 */
export function listNamed(name) {
  const all = ALL[name];
  if (OTHERS[name]) {
    const [path, field, counts, title, none] = OTHERS[name];
    return { name, path, field, counts, title, all, none };
  }
  const none = t("no_value_in_range", { field: fieldName(name) });
  return { name, path: `top/${name}`, field: name, counts: "visitors", title: fieldTitle(name), all, none };
}

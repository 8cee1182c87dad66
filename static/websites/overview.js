// The figures of all websites together, and their order on the overview. Pure.

import { texts } from "../shared/messages.js";

const t = await texts("websites");
const shared = await texts("shared");

/** @type {[name: string, label: string][]} */
export const PERIODS = [
  ["today", shared("today_short")],
  ["7d", shared("days_short", { days: 7 })],
  ["30d", shared("days_short", { days: 30 })],
  ["12mo", t("twelve_months")],
];

/** @type {Record<string, [label: string, valueOf: (website: ListedWebsite) => number | string | null]>} */
export const ORDERS = {
  visitors: [shared("figure_visitors"), ({ stats }) => stats?.visitors ?? null],
  change: [t("order_change"), ({ stats }) => stats?.change.visitors ?? null],
  now: [t("order_now"), ({ stats }) => stats?.active_visitors ?? null],
  name: [shared("name"), ({ name, domain }) => (name || domain).toLowerCase()],
};

const isPeriod = (/** @type {string | null} */ period) => PERIODS.some(([name]) => name === period);

/**
 * Returns the state in the address: { period, order }. Where it names no period, `kept` or that of a week.
 *
 * @param {URLSearchParams} query
 * @param {string | null} kept
 */
export function readOverview(query, kept) {
  const [period, order] = [query.get("stats"), query.get("sort") || ""];
  return {
    period: /** @type {string} */ ([period, kept, "7d"].find(isPeriod)),
    order: Object.hasOwn(ORDERS, order) ? order : "visitors",
  };
}

/**
 * Returns the path with that period and order; the period of a week is left out unless another one is `kept`.
 *
 * @param {{ period: string, order: string }} view
 * @param {string | null} kept
 */
export function overviewPath({ period, order }, kept) {
  const query = new URLSearchParams();
  if (period !== "7d" || (isPeriod(kept) && kept !== "7d")) query.append("stats", period);
  if (order !== "visitors") query.append("sort", order);
  return query.size ? `/?${query}` : "/";
}

/**
 * Returns the sums of the websites' figures, and of their ranges before as `previous`; null where none has figures.
 *
 * @param {ListedWebsite[]} websites
 */
export function totalsOf(websites) {
  const all = websites.flatMap(({ stats }) => (stats ? [stats] : []));
  if (!all.length) return null;
  const sum = (/** @type {(of: WebsiteFigures) => number} */ valueOf) => all.reduce((n, of) => n + valueOf(of), 0);
  return {
    visitors: sum((of) => of.visitors),
    visits: sum((of) => of.visits),
    pageviews: sum((of) => of.pageviews),
    active_visitors: sum((of) => of.active_visitors),
    previous: {
      visitors: sum((of) => of.previous.visitors),
      visits: sum((of) => of.previous.visits),
      pageviews: sum((of) => of.previous.pageviews),
    },
  };
}

// A website on the overview: visitors with their change, pageviews, visitors now, and a sparkline.

import { closedBuckets } from "../shared/buckets.js";
import { changeNode, changeOf } from "../dashboard/key_figures.js";
import { h, icon, svg, visuallyHidden } from "../shared/dom.js";
import { shortNumber } from "../shared/formats.js";
import { initials } from "../shared/initials.js";
import { texts } from "../shared/messages.js";
import { readableHost } from "../shared/readable.js";

const t = await texts("websites");
const shared = await texts("shared");

/** @typedef {"visitors" | "visits" | "pageviews"} FigureName */

/**
 * The figures: their title, and the text of a count and of that of the period before.
 *
 * @type {Record<FigureName, [title: string, soFar: (values: { count: number, before: number }) => string]>}
 */
const FIGURES = {
  visitors: [shared("figure_visitors"), (values) => t("visitors_so_far", values)],
  visits: [shared("figure_visits"), (values) => t("visits_so_far", values)],
  pageviews: [shared("figure_pageviews"), (values) => t("pageviews_so_far", values)],
};

/**
 * @param {ListedWebsite} website
 * @param {string} period  that its figures are of, which its dashboard opens with
 * @param {boolean} hasSettings
 */
export function websiteCard(website, period, hasSettings) {
  const domain = readableHost(website.domain);
  const name = website.name || domain;
  const own = `/websites/${website.id}`;
  return h(
    "li",
    { class: "website-card card", dataset: { id: website.id } },
    h(
      "div",
      { class: "website-card-head" },
      initials(name),
      h(
        "div",
        { class: "grow" },
        h("h2", null, h("a", { class: "stretched", href: `${own}?period=${period}` }, name)),
        name === domain ? null : h("p", { class: "soft small-text" }, domain),
      ),
      website.stats ? online(website.stats.active_visitors) : null,
      hasSettings
        ? h(
            "a",
            {
              class: "button quiet square above",
              href: `${own}/settings`,
              "aria-label": t("settings_of", { website: name }),
              title: shared("nav_settings"),
            },
            icon("settings"),
          )
        : null,
    ),
    figures(website),
  );
}

/**
 * @param {ListedWebsite} website
 */
function figures({ events, stats }) {
  if (!stats) return h("p", { class: "soft" }, t("not_kept"));
  if (!events && !stats.visitors) return h("p", { class: "soft" }, t("no_events"));
  return h(
    "div",
    { class: "website-card-figures" },
    h("dl", { class: "website-numbers" }, figure("visitors", stats), figure("pageviews", stats)),
    line(stats.series),
  );
}

/**
 * Returns a figure with its change: a term and its definition. The period before is counted up to the same time.
 *
 * @param {FigureName} name
 * @param {Pick<WebsiteFigures, FigureName | "previous">} stats
 */
export function figure(name, stats) {
  const [title, soFar] = FIGURES[name];
  const change = changeOf(stats[name], stats.previous[name]);
  return h(
    "div",
    {
      title: soFar({ count: stats[name], before: stats.previous[name] }),
    },
    h("dt", null, title),
    h("dd", null, shortNumber(stats[name]), " ", change === null ? null : changeNode({ up: 1 }, change, null, false)),
  );
}

/**
 * @param {number} count
 */
export function online(count) {
  return h(
    "p",
    { class: "website-now" },
    h("span", { class: count ? "dot on" : "dot" }),
    t("count_now", { count }),
    visuallyHidden(`: ${t("visitors_last_minutes", { count })}`),
  );
}

/**
 * Returns the visitors of a series as a line, which ends before the hour, day or month that is not over.
 *
 * @param {{ time: string, visitors: number }[]} series
 */
function line(series) {
  const rows = closedBuckets(series, true);
  const most = Math.max(1, ...rows.map((row) => row.visitors));
  const [wide, high] = [160, 40];
  const points = rows.map((row, at) => [
    2 + (at * (wide - 4)) / Math.max(1, rows.length - 1),
    high - 3 - (row.visitors / most) * (high - 6),
  ]);
  const path = (/** @type {number[][]} */ some) =>
    some.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return svg(
    "svg",
    {
      class: "website-line",
      viewBox: `0 0 ${wide} ${high}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": t("visitors_over_time", { counts: rows.map((row) => row.visitors).join(", ") }),
    },
    svg("path", { class: "area", d: `${path(points)}L${wide - 2} ${high}L2 ${high}Z` }),
    svg("path", { d: path(points) }),
  );
}

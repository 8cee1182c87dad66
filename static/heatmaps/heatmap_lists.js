// The lists beside the heatmap: pages with data, and the hot spots of the selected page, named by their position.

import { failureNotice } from "../shared/dialog.js";
import { h, visuallyHidden } from "../shared/dom.js";
import { isIn, valueNode, valueText } from "../shared/fields.js";
import { number, percentOf } from "../shared/formats.js";
import { barList } from "../shared/bar_list.js";
import { listDialog } from "../shared/list_dialog.js";
import { texts } from "../shared/messages.js";
import { areaWords, hotSpots, placeWords, textOf } from "./heatmap_grid.js";

const t = await texts("heatmaps");
const shared = await texts("shared");
const FIRST_PAGES = 8;
export const FIRST_PLACES = 10;
// The read API's maximum of `limit`.
export const MAX_PAGES = 1_000;

/**
 * Returns the content of the card of pages: { nodes, openAll() }. `choose(path)` is called on a click.
 *
 * @param {HeatmapPage[]} pages
 * @param {string} chosen
 * @param {(path: string) => void} choose
 */
export function pagesCard(pages, chosen, choose) {
  const most = Math.max(...pages.map(weight));
  const rows = (/** @type {any} */ some) =>
    some.map((/** @type {HeatmapPage} */ page) => ({
      key: `page-${page.value}`,
      label: valueNode("pathname", page.value),
      text: valueText("pathname", page.value),
      count: page.clicks,
      share: null,
      bar: weight(page) / most,
      pressed: page.value === chosen,
      more: h("span", { class: "bar-share pageviews" }, shared("count_pageviews", { count: page.samples })),
      value: page.value,
    }));
  const bars = (/** @type {any} */ some, close = () => {}) =>
    barList(rows(some), {
      unit: (count) => t("unit_clicks", { count }),
      choose: (row) => (close(), choose(row.value)),
    });
  const openAll = () => {
    const dialog = listDialog({
      title: t("pages_with_heatmaps"),
      load: async () => ({ rows: pages, note: pages.length < MAX_PAGES ? "" : ` ${t("most_data")}` }),
      draw: (some) => bars(some, () => dialog.close()),
      matches: (page, text) => isIn(text, "pathname", page.value),
      failed: (error, again) => failureNotice(t("pages_failed"), error, again),
    });
  };
  // The selected page is always in the list.
  const first = pages.slice(0, FIRST_PAGES);
  const other = pages.find((page) => page.value === chosen && !first.includes(page));
  return {
    openAll,
    nodes: [
      head("pages-title", t("pages_title"), h("span", { class: "soft small-text" }, t("pageviews_clicks"))),
      bars(other ? [...first, other] : first),
      pages.length > FIRST_PAGES
        ? h("div", { class: "card-foot no-print" }, more(t("all_pages", { count: pages.length }), "all-pages", openAll))
        : null,
    ],
  };
}

/**
 * @param {HeatmapPage} page
 */
function weight(page) {
  return page.samples + page.clicks;
}

/**
 * Returns the content of the card of hot spots. `show(spot)` shows one on the heatmap.
 *
 * @param {Heatmap} map
 * @param {WidthClass} kind
 * @param {(spot: Area) => void} show
 */
export function placesCard(map, kind, show) {
  const all = hotSpots(map, kind).map((spot, i) => ({
    ...{ spot, rank: i + 1, name: placeWords(spot, map, kind), exact: areaWords(spot, map) },
    text: textOf(spot, map),
  }));
  const openAll = () => {
    const dialog = listDialog({
      title: t("positions_by_clicks"),
      load: async () => ({ rows: all }),
      draw: (some) => placesTable(some, map, (spot) => (dialog.close(), show(spot)), true),
      matches: ({ name, exact, text: own }, text) => `${own} ${name} ${exact}`.toLowerCase().includes(text),
      failed: () => null,
    });
  };
  return [
    head("places-title", t("most_clicked"), h("span", { class: "soft small-text" }, t("clicks_share"))),
    all.length
      ? placesTable(all.slice(0, FIRST_PLACES), map, show)
      : h("p", { class: "nothing soft" }, t("no_clicks_in_range")),
    h(
      "div",
      { class: "card-foot no-print" },
      all.length > FIRST_PLACES ? more(t("all_positions", { number: all.length }), "all-places", openAll) : null,
    ),
  ];
}

/**
 * @param {{ spot: Area, rank: number, name: string, exact: string, text: string }[]} spots
 * @param {Heatmap} map
 * @param {(spot: Area) => void} show
 * @param {boolean} [hasExact]  whether the exact positions are shown; else they are the hints of the rows
 */
function placesTable(spots, map, show, hasExact = false) {
  const row = (/** @type {typeof spots[0]} */ { spot, rank, name, exact, text }) =>
    h(
      "tr",
      null,
      h("td", { class: "spot-rank soft", "aria-hidden": "true" }, number(rank)),
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          {
            class: "plain-button",
            type: "button",
            title: hasExact ? t("show_on_heatmap") : exact,
            dataset: { key: `place-${rank}` },
            onclick: () => show(spot),
          },
          text ? h("bdi", { class: "spot-text" }, text) : name,
        ),
        text ? h("span", { class: "soft small-text spot-exact" }, name) : null,
        hasExact ? h("span", { class: "soft small-text spot-exact" }, exact) : null,
      ),
      h("td", { class: "num" }, h("strong", null, number(spot.count))),
      h("td", { class: "num soft" }, percentOf(spot.count, map.clicks)),
    );
  return h(
    "table",
    { class: "table places" },
    h("caption", { class: "visually-hidden" }, t("positions_caption")),
    h(
      "thead",
      { class: "visually-hidden-head" },
      h(
        "tr",
        null,
        h("td", { "aria-hidden": "true" }),
        [t("position"), t("clicks"), t("share")].map((text) => h("th", { scope: "col" }, text)),
      ),
    ),
    h("tbody", null, spots.map(row)),
  );
}

/**
 * @param {string} id
 * @param {string} title
 * @param {Node} beside
 */
function head(id, title, beside) {
  return h("div", { class: "card-head" }, h("h2", { id, class: "card-title" }, title), beside);
}

/**
 * @param {string} words
 * @param {string} key
 * @param {() => void} open
 */
function more(words, key, open) {
  return h(
    "button",
    { class: "link-button", type: "button", dataset: { key }, onclick: open },
    words,
    visuallyHidden(` ${t("in_a_list")}`),
  );
}

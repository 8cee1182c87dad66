// The lists beside the sheet: pages that have points, and the hottest places of the page that is shown.

import { failureNotice } from "../shared/dialog.js";
import { h, visuallyHidden } from "../shared/dom.js";
import { plural, number } from "../shared/formats.js";
import { barList, listDialog } from "../shared/bar_list.js";
import { cellWords, cellsByClicks, shareOf } from "./heatmap_grid.js";

const FIRST_PAGES = 8;
const FIRST_PLACES = 10;
// The API gives at most so many pages.
export const MAX_PAGES = 1_000;

/** The card of pages; `choose(path)`. */
export function pagesCard(pages, chosen, choose) {
  const most = Math.max(...pages.map(weight));
  const rows = (some) =>
    some.map((page) => ({
      key: `page-${page.value}`,
      label: page.value,
      text: page.value,
      count: page.clicks,
      share: null,
      bar: weight(page) / most,
      pressed: page.value === chosen,
      more: h("span", { class: "bar-share views" }, plural(page.samples, "view")),
      value: page.value,
    }));
  const bars = (some, close = () => {}) =>
    barList(rows(some), { unit: "clicks", choose: (row) => (close(), choose(row.value)) });
  const openAll = () => {
    const dialog = listDialog({
      title: "Pages with points",
      load: async () => ({ rows: pages, note: pages.length < MAX_PAGES ? "" : ", those with the most points" }),
      draw: (some) => bars(some, () => dialog.close()),
      matches: (page, text) => page.value.toLowerCase().includes(text),
      failed: (error, again) => failureNotice("Pages cannot be shown.", error, again),
    });
  };
  // The one that is shown is in the list, wherever it stands.
  const first = pages.slice(0, FIRST_PAGES);
  const other = pages.find((page) => page.value === chosen && !first.includes(page));
  return {
    openAll,
    nodes: [
      head("pages-title", "Pages", h("span", { class: "soft small-text" }, "views, clicks")),
      bars(other ? [...first, other] : first),
      pages.length > FIRST_PAGES
        ? h("div", { class: "card-foot" }, more(`All ${plural(pages.length, "page")}`, "all-pages", openAll))
        : null,
    ],
  };
}

function weight(page) {
  return page.samples + page.clicks;
}

/** The hottest places; `show(x, y)` shows one on the sheet, `csv` is the address of all of them. */
export function placesCard(map, { show, csv }) {
  const all = cellsByClicks(map);
  const openAll = () => {
    const dialog = listDialog({
      title: "Places by clicks",
      load: async () => ({ rows: all.map((cell, i) => [...cell, i + 1]) }),
      draw: (some) => placesTable(some, map, (x, y) => (dialog.close(), show(x, y))),
      matches: ([x, y], text) => cellWords([x, y], map).includes(text),
      failed: () => null,
    });
  };
  return [
    head("places-title", "Hottest places", h("span", { class: "soft small-text" }, "clicks, share")),
    all.length
      ? placesTable(
          all.slice(0, FIRST_PLACES).map((cell, i) => [...cell, i + 1]),
          map,
          show,
        )
      : h("p", { class: "nothing soft" }, "Nobody clicked here in these days."),
    h(
      "div",
      { class: "card-foot" },
      all.length > FIRST_PLACES ? more(`All ${number(all.length)} places`, "all-places", openAll) : h("span"),
      all.length
        ? h("a", { class: "csv", href: csv, download: "heatmap.csv", "aria-label": "CSV of all places" }, "CSV")
        : null,
    ),
  ];
}

function placesTable(cells, map, show) {
  const row = ([x, y, count, place]) =>
    h(
      "tr",
      { dataset: { cell: `${x},${y}` } },
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          {
            class: "plain-button",
            type: "button",
            title: "Show it on the sheet",
            dataset: { key: `place-${place}` },
            onclick: () => show(x, y),
          },
          cellWords([x, y], map),
        ),
      ),
      h("td", { class: "num" }, h("strong", null, number(count))),
      h("td", { class: "num soft" }, shareOf(count, map.clicks)),
    );
  return h(
    "table",
    { class: "table places" },
    h("caption", { class: "unseen" }, "Places by clicks, the hottest first; a press shows one on the sheet"),
    h(
      "thead",
      { class: "unseen-head" },
      h(
        "tr",
        null,
        ["Where", "Clicks", "Share"].map((text) => h("th", { scope: "col" }, text)),
      ),
    ),
    h("tbody", null, cells.map(row)),
  );
}

function head(id, title, beside) {
  return h("div", { class: "card-head" }, h("h2", { id, class: "card-title" }, title), beside);
}

function more(words, key, open) {
  return h(
    "button",
    { class: "link-button no-print", type: "button", dataset: { key }, onclick: open },
    words,
    visuallyHidden(" in a list"),
  );
}

// The heatmaps page (/websites/{id}/heatmaps): clicks and scroll depth by page and width class.
//
// The address has, beside range and zone: pathname, device (the width class), what is hidden, edges, whether the website's
// page is shown under the clicks (over=page) and its address.

import { addressesOf, framingNote, pageAt } from "../heatmaps/page_frame.js";
import { scrollDepthCard } from "../heatmaps/scroll_depth.js";
import { maxClicks, levelOf } from "../heatmaps/heatmap_canvas.js";
import { MAX_PAGES, pagesCard, placesCard } from "../heatmaps/heatmap_lists.js";
import { CLASSES, extentOf, pixels, widthClass } from "../heatmaps/heatmap_grid.js";
import { heatmapView } from "../heatmaps/heatmap_view.js";
import { hasSameScope } from "../shared/view_state.js";
import { fill, h, refill } from "../shared/dom.js";
import { textNode, valueText } from "../shared/fields.js";
import { dayRange, number, shortNumber, wholePercent } from "../shared/formats.js";
import { emptyState, websitePage } from "../shared/website_page.js";
import { snippetBox } from "../shared/onboarding.js";
import { texts } from "../shared/messages.js";

const t = await texts("heatmaps");
const shared = await texts("shared");
const MINUTE_MS = 60_000;
const MAX_HOSTS = 5;
// Counts that a legend may show.
const ROUND = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 1_000_000];
const MAX_TICKS = 4;

/** @type {ViewState} */
const HEATMAP_STATE = {
  read: (query) => ({
    pathname: query.get("pathname"),
    device: widthClass(query.get("device")) ? query.get("device") : null,
    clicks: query.get("hide") !== "clicks",
    scroll: query.get("hide") !== "scroll",
    isSoft: query.get("edges") !== "cells",
    over: query.get("over") === "page",
    at: query.get("at"),
  }),
  write: (view) =>
    [
      ["pathname", view.pathname],
      ["device", view.device],
      ["hide", view.clicks ? (view.scroll ? null : "scroll") : "clicks"],
      ["edges", view.isSoft ? null : "cells"],
      ["over", view.over ? "page" : null],
      ["at", view.over ? view.at : null],
    ].filter(([, value]) => value !== null),
};

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_heatmaps"),
  about: t("about"),
  styles: ["/assets/heatmaps/heatmaps.css"],
  fields: [],
  state: HEATMAP_STATE,
  shortcuts: [["/", t("search_pages"), (board) => board.search?.()]],
  foot: t("foot"),
  build,
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export const show = (root, context) => websitePage(root, context, PAGE);

/**
 * @param {Board} board
 * @returns {PageBody}
 */
function build(board) {
  const nodes = createNodes();
  const heatmap = heatmapView();
  const depth = scrollDepthCard({ goTo: (row) => heatmap.goTo(row) });
  nodes.sheet.append(heatmap.element);
  fill(nodes.depth, depth.element);
  /** @type {{ answer: any, requested: string | null }} */
  const own = { answer: null, requested: null };
  /** @type {CsvFile[]} */
  let files = [];

  function redraw() {
    const { data } = own.answer;
    files = [];
    if (!data.pages.length) return fill(nodes.answer, empty(board));
    if (nodes.answer.firstChild !== nodes.parts) fill(nodes.answer, nodes.parts);
    files = drawParts({ board, nodes, heatmap, depth }, own.answer);
  }

  const loadReports = board.panel(nodes.answer, {
    what: () => t("failed"),
    request: (signal) => fetchAll(board, own, signal),
    draw: (answer) => {
      own.answer = answer;
      redraw();
    },
  });
  return {
    element: nodes.answer,
    load({ quietly, last }) {
      const { pathname, over } = board.view();
      const isSame = last && own.answer && hasSameScope(last, board.view()) && pathname === own.requested;
      // Showing the page needs its hosts, which are fetched only then.
      if (isSame && (!over || own.answer.data.hosts)) return redraw();
      return loadReports({ quietly });
    },
    leave() {
      heatmap.end();
      depth.end();
    },
    files: () => files,
  };
}

function createNodes() {
  /** @type {Record<string, any>} */
  const nodes = { answer: h("div", { class: "answer" }) };
  const card = (/** @type {string} */ name, /** @type {string} */ label) =>
    h("section", { class: `card ${name}`, "aria-labelledby": label });
  nodes.pages = card("pages-card", "pages-title");
  nodes.main = card("sheet-card", "sheet-title");
  nodes.hottest = card("places-card", "places-title");
  nodes.depth = h("div", { class: "depth-place" });
  for (const part of ["head", "classes", "tools", "note", "sheet"]) nodes[part] = h("div", { class: `sheet-${part}` });
  fill(nodes.main, nodes.head, nodes.classes, nodes.tools, nodes.note, nodes.sheet);
  nodes.parts = h("div", { class: "heatmaps" }, nodes.pages, nodes.main, nodes.hottest, nodes.depth);
  return nodes;
}

/**
 * Fetches the pages, and of the selected one (default: the first) the map of each width class, and its hosts if needed.
 *
 * @param {Board} board
 * @param {any} own
 * @param {AbortSignal} signal
 */
async function fetchAll(board, own, signal) {
  const { pathname: wanted, over } = board.view();
  const maps = (/** @type {string} */ pathname) =>
    Promise.all([
      ...CLASSES.map(({ device }) => board.request("heatmap", { pathname, filter_device: device }, signal)),
      over ? board.request("top/hostname", { filter_pathname: pathname, limit: MAX_HOSTS }, signal) : null,
    ]);
  const [pages, early] = await Promise.all([
    board.request("heatmap-pages", { limit: MAX_PAGES }, signal),
    wanted === null ? null : maps(wanted),
  ]);
  if (!pages.ok) return pages;
  const pathname = wanted ?? pages.data[0]?.value ?? null;
  const found = early || (pathname === null ? [] : await maps(pathname));
  const hosts = found[CLASSES.length];
  const failure = found.slice(0, CLASSES.length).find((answer) => answer && !answer.ok);
  if (failure) return failure;
  own.requested = wanted;
  const data = {
    pages: pages.data,
    pathname,
    maps: Object.fromEntries(
      CLASSES.map(({ device }, i) => [device, found[i] && { ...found[i]?.data, cells: found[i]?.meta.cells }]),
    ),
    // Without hosts the website's domain is used.
    hosts: over ? (hosts?.ok ? hosts.data.map((/** @type {any} */ row) => row.value) : []) : null,
  };
  return { ...pages, data };
}

/**
 * @param {Board} board
 */
function empty(board) {
  return emptyState({
    title: t("none_title"),
    words: t("none_words"),
    steps: snippetBox(board.website, board.server, { attributes: 'data-heatmap="0.1"' }),
  });
}

/**
 * Draws the page, and returns its CSV files.
 *
 * @param {{ board: Board, nodes: any, heatmap: any, depth: any }} options
 * @param {{ data: any, meta: any }} options
 * @returns {CsvFile[]}
 */
function drawParts({ board, nodes, heatmap, depth }, { data, meta }) {
  const view = board.view();
  const { pages, pathname, maps } = data;
  const kind =
    widthClass(view.device) ||
    CLASSES.reduce((best, one) => (weight(maps[one.device]) > weight(maps[best.device]) ? one : best));
  const map = maps[kind.device];
  const list = pagesCard(pages, pathname, (path) => board.go({ ...view, pathname: path }));
  board.search = list.openAll;
  refill(nodes.pages, list.nodes);
  drawHead(nodes.head, { board, pathname, kind, map, meta });
  refill(nodes.classes, classes(board, maps, kind));
  refill(nodes.tools, tools(board), legend(view, map));
  const framing = framingOf(board, data);
  refill(nodes.note, notes(board, { map, kind, pathname, framing }));
  const title = t("heatmap_of", { page: valueText("pathname", pathname), devices: kind.many });
  nodes.parts.classList.toggle("is-over", Boolean(framing?.url));
  heatmap.draw({
    map,
    kind,
    title,
    clicks: view.clicks,
    scroll: view.scroll,
    isSoft: view.isSoft,
    url: framing?.url || null,
  });
  const query = board.query({ pathname, filter_device: kind.device, format: "csv" });
  refill(
    nodes.hottest,
    placesCard(map, kind, (spot) => heatmap.show(spot)),
  );
  depth.draw(map, kind);
  board.announce(t("announcement", { title, ...countsOf(map) }));
  return map.clicks ? [[t("csv_positions"), `${board.base}/heatmap?${query}`, "heatmap.csv"]] : [];
}

/**
 * @param {Heatmap} map
 */
function weight(map) {
  return map.samples + map.clicks;
}

/**
 * @param {Heatmap} map
 */
function countsOf(map) {
  return {
    clicks: t("count_clicks", { count: map.clicks }),
    pageviews: shared("count_pageviews", { count: map.samples }),
  };
}

/**
 * @param {HTMLElement} root
 * @param {{ board: Board, pathname: string, kind: WidthClass, map: Heatmap, meta: any }} options
 */
function drawHead(root, { board, pathname, kind, map, meta }) {
  const [from, to] = [Date.parse(meta.from), Date.parse(meta.to) - 1].map((moment) =>
    new Date(moment + board.site.dayOffset * MINUTE_MS).toISOString().slice(0, 10),
  );
  const days = dayRange(from, to);
  fill(
    root,
    h("h2", { id: "sheet-title", class: "sheet-title" }, h("bdi", null, textNode("pathname", pathname))),
    h("p", { class: "soft" }, t("head", { ...countsOf(map), devices: kind.many, width: kind.says, days })),
  );
}

/**
 * Returns the buttons that select the width class.
 *
 * @param {Board} board
 * @param {Record<string, Heatmap>} maps
 * @param {WidthClass} chosen
 */
function classes(board, maps, chosen) {
  const item = (/** @type {any} */ one) =>
    h(
      "li",
      null,
      h(
        "button",
        {
          class: "figure",
          type: "button",
          "aria-pressed": String(one === chosen),
          title: t("pages_of_width", { width: one.says }),
          dataset: { key: `class-${one.device}`, device: one.device },
          onclick: () => board.go({ ...board.view(), device: one.device }),
        },
        h("span", { class: "figure-name" }, one.title),
        h(
          "span",
          { class: "figure-value" },
          shortNumber(maps[one.device].clicks),
          h("span", { class: "figure-unit" }, ` ${t("unit_clicks", { count: maps[one.device].clicks })}`),
        ),
        h("span", { class: "figure-change soft" }, countsOf(maps[one.device]).pageviews),
      ),
    );
  return h("ul", { class: "figures", "aria-label": t("width_class") }, CLASSES.map(item));
}

/**
 * @param {Board} board
 */
function tools(board) {
  const view = board.view();
  const choice = (
    /** @type {string} */ key,
    /** @type {string} */ words,
    /** @type {boolean} */ isOn,
    /** @type {any} */ next,
    title = "",
  ) =>
    h(
      "button",
      {
        class: "segment",
        type: "button",
        "aria-pressed": String(isOn),
        title: title || null,
        dataset: { key },
        onclick: () => board.go({ ...view, ...next }),
      },
      words,
    );
  const group = (/** @type {string} */ label, /** @type {any} */ ...buttons) =>
    h("div", { class: "segments small", role: "group", "aria-label": label }, buttons);
  return h(
    "div",
    { class: "row no-print" },
    group(
      t("layers"),
      choice("both", t("both"), view.clicks && view.scroll, { clicks: true, scroll: true }),
      choice("clicks", t("clicks"), view.clicks && !view.scroll, { clicks: true, scroll: false }),
      choice("scroll", t("scroll"), view.scroll && !view.clicks, { clicks: false, scroll: true }),
    ),
    view.clicks
      ? group(
          t("edges"),
          choice("soft", t("soft"), view.isSoft, { isSoft: true }, t("soft_hint")),
          choice("cells", t("cells"), !view.isSoft, { isSoft: false }, t("cells_hint")),
        )
      : null,
    group(
      t("background"),
      choice("plain", t("plain"), !view.over, { over: false, at: null }),
      choice("over", t("live_page"), view.over, { over: true }, t("live_page_hint")),
    ),
  );
}

/**
 * @param {View} view
 * @param {Heatmap} map
 */
function legend({ clicks, scroll }, map) {
  return h(
    "div",
    { class: "sheet-legend" },
    clicks && map.clicks ? clicksLegend(maxClicks(map)) : null,
    scroll && map.samples
      ? [
          h(
            "span",
            { class: "legend-part" },
            t("share_reached", { share: wholePercent(100) }),
            h("span", { class: "legend-fog" }),
            wholePercent(0),
          ),
          h("span", { class: "legend-part" }, h("span", { class: "legend-reach" }), t("legend_reach")),
        ]
      : null,
  );
}

/**
 * @param {number} most
 */
function clicksLegend(most) {
  // One click and the maximum are always labelled; counts close to the maximum are not.
  const labelled = most < 2 ? [] : ROUND.filter((count) => count === 1 || levelOf(count, most) < 0.82);
  const step = Math.ceil(labelled.length / MAX_TICKS);
  const ticks = [...labelled.filter((_, i) => i % step === 0), most];
  const place = (/** @type {number} */ count) => ({ left: `${100 * levelOf(count, most)}%` });
  return h(
    "span",
    { class: "legend-part" },
    most < 2
      ? [h("span", { class: "legend-one" }), h("span", null, t("count_clicks", { count: 1 }))]
      : [
          h(
            "span",
            { class: "legend-ramp" },
            ticks.map((count) => h("span", { style: place(count) }, number(count))),
          ),
          h("span", null, t("clicks_per_cell")),
        ],
  );
}

/**
 * Returns the address of the website's page, if it is to be shown.
 *
 * @param {Board} board
 * @param {{ pathname: string, hosts: string[] }} options
 */
function framingOf(board, { pathname, hosts }) {
  const view = board.view();
  if (!view.over) return null;
  const addresses = addressesOf(board.website, hosts || [], view.at || "");
  const origin = addresses.includes(view.at) ? view.at : addresses[0];
  return { addresses, origin, url: pageAt(origin, pathname) };
}

/**
 * @param {Board} board
 * @param {{ map: Heatmap, kind: WidthClass, pathname: string, framing: any }} options
 */
function notes(board, { map, kind, pathname, framing }) {
  const view = board.view();
  const note = (/** @type {string} */ words) => h("p", { class: "sheet-message" }, words);
  const extent = extentOf(map, kind);
  const depth = pixels(extent.height);
  const below = map.grid.reduce((sum, [, y, count]) => (y < extent.rows ? sum : sum + count), 0);
  return [
    weight(map) ? null : note(t("no_data_from", { devices: kind.many, page: valueText("pathname", pathname) })),
    map.samples && !map.clicks ? note(t("no_clicks_on", { devices: kind.many })) : null,
    map.clicks && !map.samples ? note(t("only_clicks")) : null,
    map.cells > map.grid.length ? note(t("cells_shown", { shown: map.grid.length, all: map.cells })) : null,
    extent.isCut ? note(below ? t("cut_clicks", { depth, count: below }) : t("cut", { depth })) : null,
    framing
      ? framingNote({
          ...framing,
          website: board.website,
          choose: (at) => board.go({ ...view, at }),
          back: () => board.go({ ...view, over: false, at: null }),
        })
      : null,
  ];
}

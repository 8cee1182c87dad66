// Heatmaps of a website (/websites/{id}/heatmaps): where its pages are clicked and how far down they are seen, by page
// and width class. It asks, and changes nothing.
//
// In the address beside days and zone: pathname, device (the width class), what is hidden, edges, whether the page itself
// lies under the clicks (over=page) and at which address.

import { addressesOf, framingNote, pageAt } from "../heatmaps/page_frame.js";
import { scrollDepthCard } from "../heatmaps/scroll_depth.js";
import { maxClicks, levelOf } from "../heatmaps/heatmap_canvas.js";
import { MAX_PAGES, pagesCard, placesCard } from "../heatmaps/heatmap_lists.js";
import { CLASSES, widthClass, extentOf } from "../heatmaps/heatmap_grid.js";
import { heatmapView } from "../heatmaps/heatmap_view.js";
import { hasSameScope } from "../shared/view_state.js";
import { fill, h, refill } from "../shared/dom.js";
import { plural, dayRange, number, shortNumber } from "../shared/formats.js";
import { emptyState, websitePage } from "../shared/website_page.js";
import { snippetBox } from "../shared/onboarding.js";

const DAY_MS = 86_400_000;
const MAX_HOSTS = 5;
// Counts that a legend may name.
const ROUND = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 1_000_000];
const MAX_TICKS = 4;

const OWN = {
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

const PAGE = {
  title: "Heatmaps",
  about: "Where a page is clicked, and how far down it is seen.",
  look: ["/assets/heatmaps/heatmaps.css"],
  fields: [],
  own: OWN,
  keys: [["/", "Search in all pages", (board) => board.searchPages?.()]],
  foot: "Clicks and depths are of the share of views that data-heatmap names, and are kept by page, width and whole UTC day, never by person: so nothing filters them.",
  build,
};

export const show = (root, context) => websitePage(root, context, PAGE);

function build(board) {
  const places = placesOf();
  const paper = heatmapView();
  const deep = scrollDepthCard({ goTo: (row) => paper.goTo(row) });
  places.sheet.append(paper.element);
  fill(places.depth, deep.element);
  const own = { answer: null, asked: null };

  function redraw() {
    const { data } = own.answer;
    if (!data.pages.length) return fill(places.answer, empty(board));
    if (places.answer.firstChild !== places.parts) fill(places.answer, places.parts);
    drawParts({ board, places, paper, deep }, own.answer);
  }

  const ask = board.part(places.answer, {
    what: () => "The heatmaps cannot be shown.",
    ask: (signal) => askAll(board, own, signal),
    draw: (answer) => {
      own.answer = answer;
      redraw();
    },
  });
  return {
    element: places.answer,
    load({ quietly, last }) {
      const { pathname, over } = board.view();
      const isSame = last && own.answer && hasSameScope(last, board.view()) && pathname === own.asked;
      // To lie over the page needs to know where it is.
      if (isSame && (!over || own.answer.data.hosts)) return redraw();
      return ask({ quietly });
    },
    leave() {
      paper.end();
      deep.end();
    },
  };
}

function placesOf() {
  const places = { answer: h("div", { class: "answer" }) };
  const card = (name, label) => h("section", { class: `card ${name}`, "aria-labelledby": label });
  places.pages = card("pages-card", "pages-title");
  places.main = card("sheet-card", "sheet-title");
  places.hottest = card("places-card", "places-title");
  places.depth = h("div", { class: "depth-place" });
  for (const part of ["head", "classes", "tools", "note", "sheet"]) places[part] = h("div", { class: `sheet-${part}` });
  fill(places.main, places.head, places.classes, places.tools, places.note, places.sheet);
  places.parts = h("div", { class: "heatmaps" }, places.pages, places.main, places.hottest, places.depth);
  return places;
}

/** The pages, and of the chosen one (else of the first) what each width class has; its hosts where they are needed. */
async function askAll(board, own, signal) {
  const { pathname: wanted, over } = board.view();
  const maps = (pathname) =>
    Promise.all([
      ...CLASSES.map(({ device }) => board.ask("heatmap", { pathname, filter_device: device }, signal)),
      over ? board.ask("top/hostname", { filter_pathname: pathname, limit: MAX_HOSTS }, signal) : null,
    ]);
  const [pages, early] = await Promise.all([
    board.ask("heatmap-pages", { limit: MAX_PAGES }, signal),
    wanted === null ? null : maps(wanted),
  ]);
  if (!pages.ok) return pages;
  const pathname = wanted ?? pages.data[0]?.value ?? null;
  const found = early || (pathname === null ? [] : await maps(pathname));
  const hosts = found[CLASSES.length];
  const failure = found.slice(0, CLASSES.length).find((answer) => !answer.ok);
  if (failure) return failure;
  own.asked = wanted;
  const data = {
    pages: pages.data,
    pathname,
    maps: Object.fromEntries(
      CLASSES.map(({ device }, i) => [device, found[i] && { ...found[i].data, cells: found[i].meta.cells }]),
    ),
    // Where they cannot be told, the website's domain is tried.
    hosts: over ? (hosts?.ok ? hosts.data.map((row) => row.value) : []) : null,
  };
  return { ...pages, data };
}

function empty(board) {
  return emptyState({
    title: "No heatmap in these days",
    words:
      "No page has sent clicks or depths. Add data-heatmap to the tracker's line: its number is the share of views that are looked at, here one in ten.",
    steps: snippetBox(board.website, board.server, { attributes: 'data-heatmap="0.1"' }),
  });
}

function drawParts({ board, places, paper, deep }, { data, meta }) {
  const view = board.view();
  const { pages, pathname, maps } = data;
  const kind =
    widthClass(view.device) ||
    CLASSES.reduce((best, one) => (weight(maps[one.device]) > weight(maps[best.device]) ? one : best));
  const map = maps[kind.device];
  const list = pagesCard(pages, pathname, (path) => board.go({ ...view, pathname: path }));
  board.searchPages = list.openAll;
  refill(places.pages, list.nodes);
  drawHead(places.head, { pathname, kind, map, meta });
  refill(places.classes, classes(board, maps, kind));
  refill(places.tools, tools(board), legend(view, map));
  const framing = framingOf(board, data);
  refill(places.note, notes(board, { map, kind, pathname, framing }));
  const title = `Heatmap of ${pathname}, ${kind.many}`;
  places.parts.classList.toggle("is-over", Boolean(framing?.url));
  paper.draw({
    map,
    kind,
    title,
    clicks: view.clicks,
    scroll: view.scroll,
    isSoft: view.isSoft,
    url: framing?.url || null,
  });
  const question = board.question({ pathname, filter_device: kind.device, format: "csv" });
  refill(
    places.hottest,
    placesCard(map, { show: (x, y) => paper.show(x, y), csv: `${board.base}/heatmap?${question}` }),
  );
  deep.draw(map, kind);
  board.say(`${title}: ${plural(map.clicks, "click")}, ${plural(map.samples, "view")}`);
}

function weight(map) {
  return map.samples + map.clicks;
}

function drawHead(root, { pathname, kind, map, meta }) {
  const [from, to] = [Date.parse(meta.from), Date.parse(meta.to) - 1].map(
    (moment) => new Date(moment - (moment % DAY_MS)),
  );
  const days = dayRange(from.toISOString().slice(0, 10), to.toISOString().slice(0, 10));
  fill(
    root,
    h("h2", { id: "sheet-title", class: "sheet-title" }, h("bdi", null, pathname)),
    h(
      "p",
      { class: "soft" },
      `${plural(map.clicks, "click")} and ${plural(map.samples, "view")} on ${kind.many} (${kind.says}), ${days}: whole UTC days.`,
    ),
  );
}

/** A press chooses the width class. */
function classes(board, maps, chosen) {
  const item = (one) =>
    h(
      "li",
      null,
      h(
        "button",
        {
          class: "figure",
          type: "button",
          "aria-pressed": String(one === chosen),
          title: `Pages ${one.says}`,
          dataset: { key: `class-${one.device}`, device: one.device },
          onclick: () => board.go({ ...board.view(), device: one.device }),
        },
        h("span", { class: "figure-name" }, one.title),
        h(
          "span",
          { class: "figure-value" },
          shortNumber(maps[one.device].clicks),
          h("span", { class: "figure-unit" }, " clicks"),
        ),
        h("span", { class: "figure-change soft" }, plural(maps[one.device].samples, "view")),
      ),
    );
  return h("ul", { class: "figures", "aria-label": "Width of the page" }, CLASSES.map(item));
}

function tools(board) {
  const view = board.view();
  const choice = (key, words, isOn, next, title) =>
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
  const group = (label, ...buttons) =>
    h("div", { class: "segments small", role: "group", "aria-label": label }, buttons);
  return h(
    "div",
    { class: "row no-print" },
    group(
      "What is drawn",
      choice("both", "Both", view.clicks && view.scroll, { clicks: true, scroll: true }),
      choice("clicks", "Clicks", view.clicks && !view.scroll, { clicks: true, scroll: false }),
      choice("scroll", "Scroll", view.scroll && !view.clicks, { clicks: false, scroll: true }),
    ),
    view.clicks
      ? group(
          "Edges",
          choice("soft", "Soft", view.isSoft, { isSoft: true }, "Cells with soft edges"),
          choice(
            "cells",
            "Cells",
            !view.isSoft,
            { isSoft: false },
            "Cells as they are counted: a fiftieth of the width, 20 px high",
          ),
        )
      : null,
    group(
      "Under the clicks",
      choice("plain", "Plain sheet", !view.over, { over: false, at: null }),
      choice(
        "over",
        "Show over the page",
        view.over,
        { over: true },
        "Opens the page itself here, without scripts: it is not counted as a visit",
      ),
    ),
  );
}

function legend({ clicks, scroll }, map) {
  return h(
    "div",
    { class: "sheet-legend" },
    clicks && map.clicks ? clicksLegend(maxClicks(map)) : null,
    scroll && map.samples
      ? [
          h("span", { class: "legend-part" }, "seen by all", h("span", { class: "legend-fog" }), "by none"),
          h("span", { class: "legend-part" }, h("span", { class: "legend-reach" }), "how many come this far"),
        ]
      : null,
  );
}

function clicksLegend(most) {
  // One and the most are always named, and what is not too near to the most.
  const said = most < 2 ? [] : ROUND.filter((count) => count === 1 || levelOf(count, most) < 0.82);
  const step = Math.ceil(said.length / MAX_TICKS);
  const ticks = [...said.filter((_, i) => i % step === 0), most];
  const place = (count) => ({ left: `${100 * levelOf(count, most)}%` });
  return h(
    "span",
    { class: "legend-part" },
    most < 2
      ? [h("span", { class: "legend-one" }), h("span", null, "1 click")]
      : [
          h(
            "span",
            { class: "legend-ramp" },
            ticks.map((count) => h("span", { style: place(count) }, number(count))),
          ),
          h("span", null, "clicks a cell"),
        ],
  );
}

/** Where the page itself is, if it is to lie under the clicks. */
function framingOf(board, { pathname, hosts }) {
  const view = board.view();
  if (!view.over) return null;
  const addresses = addressesOf(board.website, hosts || []);
  const origin = addresses.includes(view.at) ? view.at : addresses[0];
  return { addresses, origin, url: pageAt(origin, pathname) };
}

function notes(board, { map, kind, pathname, framing }) {
  const view = board.view();
  const note = (words) => h("p", { class: "sheet-said" }, words);
  const extent = extentOf(map, kind);
  const below = map.grid.reduce((sum, [, y, count]) => (y < extent.rows ? sum : sum + count), 0);
  return [
    weight(map)
      ? null
      : note(`Nothing came from ${kind.many} for ${pathname} in these days: choose another width, page or days.`),
    map.samples && !map.clicks ? note(`Nobody clicked here on ${kind.many} in these days.`) : null,
    map.clicks && !map.samples ? note("No view told how far it was seen: only clicks are drawn.") : null,
    map.cells > map.grid.length
      ? note(`Of ${number(map.cells)} cells with clicks the ${number(map.grid.length)} hottest are shown.`)
      : null,
    extent.isCut
      ? note(
          `Drawn down to ${number(extent.height)} px; ${below ? `${plural(below, "click")} further down ${below === 1 ? "is" : "are"}` : "what lies deeper is"} in the lists.`,
        )
      : null,
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

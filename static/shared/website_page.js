// The frame of a website's pages beside its overview (vitals, heatmaps, experiments, events, funnels): title, range
// picker, zone, filters, keys, footer. A page brings its own part, and nothing of what is in here.
//
// A page is a module of pages/ with one line, `export const show = (root, context) => websitePage(root, context, PAGE);`
// its route in app.js and ROUTES, and its line in PAGES of navigation.js, which comes with the module: nothing leads to
// a page that is not there. PAGE:
//   title         "Web vitals": heading, and title of the tab with the website's name
//   about         a sentence below the heading; may be left out where there are filters
//   look          paths of its own style sheets; app.css and shared/website_page.css are there
//   fields        the fields it can be filtered by, by name; [] for none; left out: all 14, event_name and type
//   own           what it has of its own in the address: { read(query), write(view) }, as shared/view_state.js says it
//   keys          [[key, words, (board) => ...], ...] of its own
//   csv           (board) => [[words, path, file name], ...], links in the footer; may be left out
//   foot          a sentence for the footer; may be left out
//   build(board)  makes its own part, once; gives { element, load, leave }:
//     element       a node or several
//     load({ quietly, last })   asks and draws. `last` is the view before where the address has changed, else null:
//                   isAlike(last, board.view()) says that only what is the page's own did. Quietly: each minute while
//                   the range is not over; nothing is dimmed, and a failure leaves the old figures
//     leave()       may be left out
// The board:
//   website, name, base        the website as /api/account/websites has it; what to call it; /api/account/websites/{id}
//   server                     the server's own address, as snippets name it
//   view(), span(), zone       shared/view_state.js; `zone` is the account's
//   go(view)                   to that view: the address changes, then load is called
//   toggle(field, value)       a filter more, or less
//   question(more)             the query of a question to the API about the view: from, to, tz, filters, and more
//   ask(what, more, signal)    its answer, as shared/api.js gives it: ask("vitals", { by: "day" }, signal)
//   part(element, { ask(signal), draw(answer), what() })   shared/panel.js, ended with the page: the old figures stay
//                              dimmed while it asks; where it fails, it says what() and has a button
//   say(words)                 what has changed, for who listens
//   signal                     aborted when the page is left
// `nothing({...})` is the empty state: a sentence and the next step; `noMatch(board)` that of filters that leave nothing.

import {
  AUTOMATIC_MAX_DAYS,
  hasSameScope,
  reportQuery,
  readView,
  spanOf,
  toggleFilter,
  writeView,
} from "./view_state.js";
import { fill, h, loadStylesheet } from "./dom.js";
import { get } from "./api.js";
import { FILTERS, fieldName, valueText } from "./fields.js";
import { drawFilters, filterDialog } from "./filters.js";
import { dayRange, displayZone } from "./formats.js";
import { listenForShortcuts, shortcutsDialog } from "./keyboard_shortcuts.js";
import { showWebsiteNotFound } from "./website_not_found.js";
import { createPanel } from "./panel.js";
import { drawRange, drawWhen } from "./range_picker.js";
import { at, here, publicUrl } from "./paths.js";

// A range that is not over is asked again so often, without a trace where nothing has changed.
const EVERY_MS = 60_000;
// Keys that are pressed fast, one after the other, ask once in the end: requests are counted.
const FAST_MS = 250;
const LOOK = "/assets/shared/website_page.css";

/** Shows a page in `root`. Gives what the router needs. */
export async function websitePage(root, context, page) {
  const website = context.websites.find((one) => one.id === context.params.id);
  if (!website) return showWebsiteNotFound(root, context);
  await Promise.all([LOOK, ...(page.look || [])].map(loadStylesheet));
  const name = website.name || website.domain;
  const zone = displayZone(context.account.time_zone);
  const { own, fields = FILTERS } = page;
  const read = (query) => readView(query, zone, own, fields);
  const addressOf = (view) => `${context.path}?${writeView(view, own)}`;
  let view = read(context.query);
  const places = placesOf(page, name);
  const base = `/api/account/websites/${website.id}`;
  const board = {
    ...{ website, name, base, zone, fields, signal: context.signal },
    server: publicUrl(context.account.base_url),
    view: () => view,
    span: () => spanOf(view),
    go: (next) => context.go(addressOf(next)),
    toggle: (field, value) => board.go(toggleFilter(view, field, value)),
    question: (more) => reportQuery(view, spanOf(view), more),
    ask: (what, more, signal = context.signal) => get(`${base}/${what}?${board.question(more)}`, { signal }),
    part: (element, of) => createPanel(element, { ...of, until: context.signal }),
    say: (words) => (places.status.textContent = words),
  };
  const body = page.build(board);

  let today = "";
  function drawFrame() {
    today = board.span().today;
    context.title(`${page.title}, ${name}`);
    drawRange(places.range, board);
    drawWhen(places.when, board);
    if (fields.length) drawFilters(places.filters, board);
    fill(places.print, printHead(page, board));
    fill(
      places.csv,
      (page.csv?.(board) || []).map(([words, href, download]) => h("a", { class: "csv", href, download }, words)),
    );
  }

  let lastLoad = 0;
  let waiting = 0;
  function loadSoon(last) {
    const isFast = Date.now() - lastLoad < FAST_MS;
    lastLoad = Date.now();
    clearTimeout(waiting);
    if (!isFast) return body.load({ quietly: false, last });
    places.body.setAttribute("aria-busy", "true");
    waiting = setTimeout(() => {
      places.body.removeAttribute("aria-busy");
      body.load({ quietly: false, last: null });
    }, FAST_MS);
  }

  function again() {
    const span = board.span();
    if (document.visibilityState !== "visible" || !span.isOpen || span.days > AUTOMATIC_MAX_DAYS) return;
    if (today !== span.today) drawFrame();
    body.load({ quietly: true, last: null });
  }

  drawFrame();
  fill(places.body, body.element);
  fill(root, places.page);
  if (here() === context.path) history.replaceState(null, "", at(addressOf(view) + context.hash));
  body.load({ quietly: false, last: null });
  const stopKeys = listenForShortcuts(board, keysOf(page, board, fields));
  const timer = setInterval(again, EVERY_MS);
  return {
    update(changed) {
      const last = view;
      view = read(changed.query);
      drawFrame();
      if (hasSameScope(last, view)) body.load({ quietly: false, last });
      else loadSoon(last);
    },
    leave() {
      stopKeys();
      clearInterval(timer);
      clearTimeout(waiting);
      body.leave?.();
    },
  };
}

function placesOf(page, name) {
  const places = {
    range: h("div", { class: "dash-range no-print" }),
    when: h("div", { class: "when" }),
    filters: h("div", { class: "chips", role: "group", "aria-label": "Filters" }),
    body: h("div", { class: "page-body" }),
    csv: h("span", { class: "row" }),
    // Says by ear what has changed.
    status: h("p", { class: "unseen", role: "status" }),
    print: h("div", { class: "print-only print-head" }),
  };
  const hasFilters = !page.fields || page.fields.length;
  const title = h("h1", null, page.title, " ", h("span", { class: "of-website" }, name));
  places.page = h(
    "div",
    { class: "page dash" },
    h(
      "header",
      { class: "dash-head" },
      h(
        "div",
        { class: "dash-row" },
        h("div", { class: "dash-name" }, title),
        h("div", { class: "dash-tools" }),
        places.range,
      ),
      h("div", { class: "dash-row" }, hasFilters ? places.filters : h("p", { class: "soft" }, page.about), places.when),
    ),
    places.print,
    hasFilters && page.about ? h("p", { class: "soft about" }, page.about) : null,
    places.body,
    h(
      "footer",
      { class: "dash-foot soft small-text" },
      h("p", null, page.foot || ""),
      h(
        "p",
        { class: "row" },
        places.csv,
        h(
          "button",
          { class: "link-button no-print", type: "button", onclick: () => shortcutsDialog(listed(page)) },
          "Keys",
        ),
        h("button", { class: "link-button no-print", type: "button", onclick: () => print() }, "Print"),
      ),
    ),
    places.status,
  );
  return places;
}

function printHead(page, board) {
  const { from, to } = board.span();
  const filters = board.view().filters.map(([field, value]) => `${fieldName(field)}: ${valueText(field, value)}`);
  return [
    h("h1", null, `${page.title}, ${board.name}`),
    h("p", null, [`${dayRange(from, to)}, ${board.view().zone}`, ...filters].join(" · ")),
  ];
}

function keysOf(page, board, fields) {
  const own = (page.keys || []).map(([key, , act]) => [key, () => act(board)]);
  const filter = fields.length ? [["f", () => filterDialog(board)]] : [];
  return Object.fromEntries([...filter, ...own, ["?", () => shortcutsDialog(listed(page))]]);
}

function listed(page) {
  const hasFilters = !page.fields || page.fields.length;
  return [
    ["1 to 5", "Today, 7 days, 30 days, 90 days, 12 months"],
    ["← →", "Earlier and later; on a chart, from one bucket to the next"],
    ...(hasFilters ? [["f", "Add a filter"]] : []),
    ...(page.keys || []).map(([key, words]) => [key, words]),
    ["Esc", hasFilters ? "Close what is open; else take away the last filter" : "Close what is open"],
    ["?", "This list"],
  ];
}

/** The empty state. `words` and `steps` are nodes or texts; `steps` stands below, as wide as the page, and may be left out. */
export function emptyState({ title, words, steps = null }) {
  return h(
    "div",
    { class: "card nothing-yet" },
    h("div", { class: "empty" }, h("h2", null, title), h("p", null, words)),
    steps ? h("div", { class: "nothing-steps" }, steps) : null,
  );
}

/** The empty state where it is the filters that leave nothing. */
export function noMatchState(board) {
  const { from, to } = board.span();
  const clear = () => board.go({ ...board.view(), filters: [] });
  return h(
    "div",
    { class: "card nothing-yet" },
    h(
      "div",
      { class: "empty" },
      h("h2", null, "Nothing matches these filters"),
      h("p", null, `${dayRange(from, to)}. Other days may have some.`),
      h("button", { class: "button primary", type: "button", onclick: clear }, "Remove the filters"),
    ),
  );
}

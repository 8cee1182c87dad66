// The layout that all pages of a website share: heading, range picker, filters, keyboard shortcuts, footer.
//
// A page is a module of pages/ that exports `show = (root, context) => websitePage(root, context, PAGE)`. It has a route
// in app.js and in the server's route table, and a line in PAGES of navigation.js. PAGE (PageDefinition in types.d.ts):
//   title         heading, and title of the tab with the website's name; "" for the dashboard, whose heading is the name
//   about         a sentence below the heading; optional
//   styles        paths of the page's own style sheets, beside app.css and website_page.css
//   compares      whether figures are compared with those of another range
//   fields        the fields the page can be filtered by; [] for none; default: all, on the owner's pages OWN_FILTERS
//   state         what the page adds to the address: { read(query), write(view) }, see view_state.js
//   shortcuts     [[key, description, (board) => ... or null], ...] of its own
//   foot          a sentence for the footer, or a function of the website that returns it; optional
//   build(board)  creates the page's own part once and returns { element, load, redraw, leave, nameAside, footLinks }:
//     load({ quietly, last })   fetches and draws. `last` is the previous view where the address has changed, else null;
//                   hasSameScope(last, board.view()) is true where only the page's own state changed. `quietly`: each
//                   minute while the range is not over; nothing is dimmed, and a failure leaves the old figures
//     redraw()      draws what depends on the view alone, before load; optional
//     leave()       releases timers and listeners; optional
//     files()       returns the CSV files of the menu Export: [[label, path, file name], ...], or a promise of them; optional
//     nameAside, footLinks      nodes beside the heading and in the footer; optional
// The board:
//   site, website, name, base  where reports come from; /api/account/websites/{id} or /api/share/{token}
//   server                     the server's public address, as snippets name it
//   compares                   as in the page
//   first()                    the day of the first event, of a new website and with all time; else ""
//   view(), span(), zone       see view_state.js; `zone` is the website's, else the account's
//   go(view, { replace })      changes the address to that view, then load is called
//   toggle(field, value)       adds or removes a filter
//   saved(), loadSaved()       the segments and goals that filters name, see saved_filters.js
//   query(more)                the query of a report: from, to, tz, filters, and more
//   request(report, more, signal)  fetches a report: request("vitals", { by: "day" }, signal)
//   panel(element, options)    a panel (panel.js) that ends with the page
//   announce(words)            announces a change to screen readers
//   signal                     aborted when the page is left
// `emptyState({...})` is a sentence and the next step; `noMatchState(board)` is shown where filters match nothing.

import {
  AUTOMATIC_MAX_DAYS,
  hasSameScope,
  isFiltered,
  reportQuery,
  readView,
  spanOf,
  toggleFilter,
  withPeriod,
  withoutFilters,
  writeView,
} from "./view_state.js";
import { openWhenLoaded } from "./dialog.js";
import { fill, h, icon, loadStylesheet } from "./dom.js";
import { get } from "./api.js";
import { FILTERS } from "./fields.js";
import { OWN_FILTERS, filterText, splitKey, valuesByKey } from "./filter_words.js";
import { drawFilters, filterDialog } from "./filters.js";
import { dayRange, displayZone } from "./formats.js";
import { listenForShortcuts } from "./keyboard_shortcuts.js";
import { texts } from "./messages.js";
import { showWebsiteNotFound } from "./website_not_found.js";
import { createPanel } from "./panel.js";
import { drawRange, drawWhen } from "./range_picker.js";
import { loadRegions } from "./regions.js";
import { savedFilters, takesSaved } from "./saved_filters.js";
import { at, here, publicUrl } from "./paths.js";

const t = await texts("shared");

// How often a range that is not over is loaded again.
const REFRESH_MS = 60_000;
// Changes that follow each other faster than this are loaded once, at the end: requests are rate-limited.
const DEBOUNCE_MS = 250;
// Tags are placed within days: after that the range of the first visit to a page needs no request.
const NEW_MS = 30 * 86_400_000;
const STYLES = "/assets/shared/website_page.css";

/**
 * Shows a page in `root`; returns what the router needs. `site` is where reports come from: the account's website of the
 * address unless given.
 *
 * @param {HTMLElement} root
 * @param {Context} context
 * @param {PageDefinition} page
 * @param {Site | null} [given]
 * @returns {Promise<PageHandle>}
 */
export async function websitePage(root, context, page, given = ownSite(context)) {
  if (!given) return showWebsiteNotFound(root, context);
  const site = given;
  await Promise.all([STYLES, ...(page.styles || [])].map(loadStylesheet));
  const zone = displayZone(site.zone);
  const { state, fields = site.website ? OWN_FILTERS : FILTERS } = page;
  const definitions = savedFilters(site.base, context.signal);
  // The day of the first event, once the range has been all time or the website was new.
  let first = "";
  async function read(/** @type {URLSearchParams} */ query) {
    const found = readView(query, zone, state, fields);
    if (found.period !== "all" && !isNew(site)) return found;
    if (!first) {
      const all = new URLSearchParams({ period: "all", tz: found.zone });
      const answer = await get(`${site.base}/stats?${all}`, { signal: context.signal });
      if (answer.ok) first = answer.meta.from.slice(0, 10);
    }
    if (found.period === "all") return { ...found, first };
    // One day is no week.
    const isChosen = query.has("period") || found.period === "custom";
    return !isChosen && first === spanOf(found).today ? withPeriod(found, "today") : found;
  }
  const addressOf = (/** @type {View} */ view) => `${context.path}?${writeView(view, state)}`;
  let view = await read(context.query);
  /** @type {Board} */
  const board = {
    site,
    // Pages that use it are the owner's.
    website: /** @type {Website} */ (site.website),
    ...{ name: site.name, base: site.base, zone, fields, signal: context.signal },
    server: site.server || "",
    compares: Boolean(page.compares),
    view: () => view,
    first: () => first,
    span: () => spanOf(view),
    go: (next, options) => context.go(addressOf(next), options),
    toggle: (field, value) => void board.go(toggleFilter(view, field, value)),
    query: (more) => reportQuery(view, spanOf(view), more),
    request: (report, more, signal = context.signal) => get(`${site.base}/${report}?${board.query(more)}`, { signal }),
    panel: (element, options) => createPanel(element, { ...options, until: context.signal }),
    saved: definitions.saved,
    async loadSaved() {
      const error = await definitions.load();
      if (!error) drawFilters(nodes.filters, board);
      return error;
    },
    announce: (words) => void (nodes.status.textContent = words),
  };
  const body = page.build(board);
  const nodes = layout(page, site, body);

  let today = "";
  function drawFrame() {
    today = board.span().today;
    context.title(page.title ? `${page.title}, ${site.name}` : site.name);
    drawRange(nodes.range, board);
    drawWhen(nodes.when, board);
    if (fields.length) drawFilters(nodes.filters, board);
    fill(nodes.print, printHead(page, board));
    body.redraw?.();
  }

  /** Loads what is named by an id in the chips. */
  function loadNames() {
    const isNamed = view.segment || view.goal || view.filters.some(([key]) => key === "goal");
    if (isNamed && takesSaved(board) && !board.saved().isLoaded) void board.loadSaved();
  }

  let lastLoad = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  function loadDebounced(/** @type {View} */ last) {
    const isFast = Date.now() - lastLoad < DEBOUNCE_MS;
    lastLoad = Date.now();
    clearTimeout(waiting);
    // The timer may be late, and this change not a fast one.
    nodes.body.removeAttribute("aria-busy");
    if (!isFast) return void body.load({ quietly: false, last });
    nodes.body.setAttribute("aria-busy", "true");
    waiting = setTimeout(() => {
      nodes.body.removeAttribute("aria-busy");
      body.load({ quietly: false, last: null });
    }, DEBOUNCE_MS);
  }

  function refresh() {
    const span = board.span();
    if (document.visibilityState !== "visible" || !span.isOpen || span.days > AUTOMATIC_MAX_DAYS) return;
    if (today !== span.today) drawFrame();
    body.load({ quietly: true, last: null });
  }

  drawFrame();
  fill(nodes.body, body.element);
  fill(root, nodes.page);
  if (here() === context.path) history.replaceState(null, "", at(addressOf(view) + context.hash));
  body.load({ quietly: false, last: null });
  // Their names stand in the chips.
  if (view.filters.some(([key]) => splitKey(key).field === "region")) {
    void loadRegions().then(() => drawFilters(nodes.filters, board));
  }
  loadNames();
  const stopShortcuts = listenForShortcuts(board, shortcutActions(page, board));
  const timer = setInterval(refresh, REFRESH_MS);
  return {
    board,
    async update(changed) {
      const last = view;
      const next = await read(changed.query);
      if (context.signal.aborted) return;
      view = next;
      drawFrame();
      loadNames();
      if (hasSameScope(last, view)) body.load({ quietly: false, last });
      else loadDebounced(last);
    },
    leave() {
      stopShortcuts();
      clearInterval(timer);
      clearTimeout(waiting);
      body.leave?.();
    },
  };
}

/**
 * Returns whether a website may have its first events: the share link of one does not say.
 *
 * @param {Site} site
 */
export function isNew({ website }) {
  return Boolean(website) && Date.now() - Date.parse(website?.created_at || "") < NEW_MS;
}

/**
 * Returns the account's website that the address names; null where there is none.
 *
 * @param {Context} context
 * @returns {Site | null}
 */
export function ownSite({ account, websites, params }) {
  const website = websites?.find((one) => one.id === params.id);
  if (!website) return null;
  return {
    base: `/api/account/websites/${website.id}`,
    domain: website.domain,
    name: website.name || website.domain,
    zone: website.time_zone || account.time_zone,
    dayOffset: website.day_offset_minutes,
    website,
    server: publicUrl(account.base_url),
  };
}

function layout(/** @type {PageDefinition} */ page, /** @type {Site} */ site, /** @type {PageBody} */ body) {
  const hasFilters = !page.fields || page.fields.length > 0;
  const nodes = {
    range: h("div", { class: "dash-range no-print" }),
    when: h("div", { class: "when" }),
    filters: h("div", { class: "chips", role: "group", "aria-label": t("filters") }),
    body: h("div", { class: "page-body" }),
    // Announces changes to screen readers.
    status: h("p", { class: "visually-hidden", role: "status" }),
    print: h("div", { class: "print-only print-head" }),
  };
  const title = page.title
    ? h("h1", null, page.title, " ", h("span", { class: "of-website" }, site.name))
    : h("h1", null, site.name);
  const head = h(
    "header",
    { class: "dash-head" },
    h(
      "div",
      { class: "dash-row" },
      h("div", { class: "dash-name" }, title, body.nameAside),
      h("div", { class: "dash-tools no-print" }, site.tools, body.files ? exportButton(body.files) : null),
      nodes.range,
    ),
    h("div", { class: "dash-row" }, hasFilters ? nodes.filters : h("p", { class: "soft" }, page.about), nodes.when),
  );
  const shortcuts = () => openShortcuts(page, Boolean(site.website));
  const foot = h(
    "footer",
    { class: "dash-foot soft small-text" },
    h("p", null, typeof page.foot === "function" ? page.foot(site) : page.foot || ""),
    h(
      "p",
      { class: "row" },
      body.footLinks,
      h("button", { class: "link-button no-print", type: "button", onclick: shortcuts }, t("keyboard_shortcuts")),
      h("button", { class: "link-button no-print", type: "button", onclick: () => print() }, t("print")),
    ),
  );
  const about = hasFilters && page.about ? h("p", { class: "soft about" }, page.about) : null;
  return {
    ...nodes,
    page: h("div", { class: "page dash" }, site.banner, head, nodes.print, about, nodes.body, foot, nodes.status),
  };
}

function printHead(/** @type {PageDefinition} */ page, /** @type {Board} */ board) {
  const { from, to } = board.span();
  const { segments, goals } = board.saved();
  const filters = valuesByKey(board.view().filters).map(([key, values]) => filterText(key, values, goals));
  const segment = segments.find(({ id }) => id === board.view().segment);
  if (segment) filters.unshift(t("segment_named", { name: segment.name }));
  return [
    h("h1", null, page.title ? `${page.title}, ${board.name}` : board.name),
    h("p", null, [`${dayRange(from, to)}, ${board.view().zone}`, ...filters].join(" · ")),
    page.printLine ? h("p", null, page.printLine(board)) : null,
  ];
}

/**
 * @param {PageDefinition} page
 * @param {Board} board
 * @returns {Record<string, () => void>}
 */
function shortcutActions(page, board) {
  // Without an action the key is that of an element of the page.
  const own = (page.shortcuts || []).flatMap(([key, , act]) => (act ? [[key, () => act(board)]] : []));
  const filter = board.fields.length ? [["f", () => filterDialog(board)]] : [];
  return Object.fromEntries([...filter, ...own, ["?", () => openShortcuts(page, Boolean(board.site.website))]]);
}

/**
 * Opens the list of the page's keyboard shortcuts.
 *
 * @param {PageDefinition} page
 * @param {boolean} isFramed  whether the page has the frame, with the search over everything
 */
function openShortcuts(page, isFramed) {
  return openWhenLoaded(import("./shortcuts_dialog.js"), ({ shortcutsDialog }) => shortcutsDialog(page, isFramed));
}

/** @param {NonNullable<PageBody["files"]>} files */
function exportButton(files) {
  const props = { class: "button quiet square", type: "button", "aria-label": t("export"), title: t("export") };
  const open = () =>
    openWhenLoaded(Promise.all([import("./export_dialog.js"), files()]), ([{ exportDialog }, found]) =>
      exportDialog(found),
    );
  return h(
    "button",
    { ...props, "aria-haspopup": "dialog", dataset: { key: "export" }, onclick: open },
    icon("download"),
  );
}

/**
 * Returns an empty state. `steps` stands below the card, as wide as the page.
 *
 * @param {{ title: string, words: Child, steps?: Child }} content
 */
export function emptyState({ title, words, steps = null }) {
  return h(
    "div",
    { class: "card nothing-yet" },
    h("div", { class: "empty" }, h("h2", null, title), h("p", null, words)),
    steps ? h("div", { class: "nothing-steps" }, steps) : null,
  );
}

/**
 * Returns what a list without rows shows: a sentence and, where filters may be why, a button that removes them.
 *
 * @param {string} words
 * @param {Board} board
 */
export function emptyList(words, board) {
  const clear = () => {
    // The button goes away with the filters.
    document.getElementById("main")?.focus();
    board.go(withoutFilters(board.view()));
  };
  return h(
    "div",
    { class: "nothing soft" },
    h("p", null, words),
    isFiltered(board.view())
      ? h("button", { class: "button small", type: "button", onclick: clear }, t("remove_the_filters"))
      : null,
  );
}

/**
 * Returns the empty state for filters that match nothing.
 *
 * @param {Board} board
 */
export function noMatchState(board) {
  const { from, to } = board.span();
  const clear = () => board.go(withoutFilters(board.view()));
  return h(
    "div",
    { class: "card nothing-yet" },
    h(
      "div",
      { class: "empty" },
      h("h2", null, t("no_match_title")),
      h("p", null, t("other_days", { days: dayRange(from, to) })),
      h("button", { class: "button primary", type: "button", onclick: clear }, t("remove_the_filters")),
    ),
  );
}

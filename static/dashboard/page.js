// The dashboard of a website as a page: what is on it, what is asked when, what the address says. The owner's page and
// the share page are this one; they differ in where the figures come from and in what `tools` they bring.
//
// The address is the state: a press changes the address, the router calls update, and what has changed is asked anew.

import {
  AUTOMATIC_MAX_DAYS,
  hasSameScope,
  reportQuery,
  readView,
  spanOf,
  toggleFilter,
  writeView,
} from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill, loadStylesheet } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldName, valueText } from "../shared/fields.js";
import { drawFilters, filterDialog } from "../shared/filters.js";
import { plural, dayRange, displayZone } from "../shared/formats.js";
import { listenForShortcuts, shortcutsDialog } from "../shared/keyboard_shortcuts.js";
import { createPanel } from "../shared/panel.js";
import { drawInterval, drawRange, drawWhen, pickDays } from "../shared/range_picker.js";
import { CARDS } from "./list_cards.js";
import { recentEvents } from "./recent_events.js";
import { drawFigures, figureNamed } from "./key_figures.js";
import { rejectedLink } from "./rejected_link.js";
import { listCard } from "./top_lists.js";
import { realtimePanel } from "./realtime.js";
import { DASHBOARD_STATE } from "./dashboard_view.js";
import { worldMap } from "./world_map.js";
import { timeSeriesChart } from "./time_series.js";
import { at } from "../shared/paths.js";

// A range that is not over is asked again so often, without a trace where nothing has changed.
const EVERY_MS = 60_000;
const FAST_MS = 250;

const look = loadStylesheet("/assets/shared/website_page.css");

/** Shows it in `root`. `site`: { base, name, zone, tools (nodes), home, leftOut (a path) }. Gives what the router needs. */
export async function dashboard(root, context, site) {
  await look;
  const zone = displayZone(site.zone);
  let view = readView(context.query, zone, DASHBOARD_STATE);
  let totals = null;
  const board = {
    base: site.base,
    zone,
    view: () => view,
    span: () => spanOf(view),
    total: (counts) => totals?.[counts] || 0,
    figures: () => figured,
    go: (next) => context.go(`${context.path}?${addressOf(next)}`),
    toggle: (field, value) => board.go(toggleFilter(view, field, value)),
    openTab: (card, field) => board.go({ ...view, tabs: { ...view.tabs, [card]: field } }),
  };
  const out = site.leftOut ? rejectedLink(board, site.leftOut) : null;
  const places = placesOf(site, out?.element);
  const now = realtimePanel(board);
  places.name.append(now.badge);
  const chart = timeSeriesChart(places.chart, { pick: (first, last) => pickDays(board, first, last) });
  const interval = h("div");
  const csv = h("a", { class: "csv", download: "series.csv", "aria-label": "CSV of the chart" }, "CSV");
  chart.tools.append(interval, csv);
  const map = worldMap(board);
  const cards = CARDS.map((card) => listCard(card, board, card.name === "places" ? map : null));
  const recent = recentEvents(board);
  const names = cards.at(-1);
  places.cards.append(...cards.slice(0, -1).map((card) => card.element), names.element, now.card, recent.element);

  const figures = createPanel(places.figures, {
    what: () => "The key figures cannot be shown.",
    ask: (signal) => askFigures(board, signal),
    draw: (answer) => {
      const words = `${dayRange(board.span().from, board.span().to)}: ${plural(answer.data.visitors, "visitor")}`;
      if (totals?.visitors !== answer.data.visitors) places.status.textContent = words;
      totals = answer.data;
      drawFigures(places.figures, {
        ...answer,
        stats: answer.data,
        span: board.span(),
        chosen: view.figure,
        choose: (name) => board.go({ ...view, figure: name }),
      });
    },
  });
  const line = createPanel(places.chart, {
    what: () => "The chart cannot be shown.",
    ask: (signal) => askSeries(board, signal),
    draw: ({ data, before }) => {
      if (!places.chart.contains(interval)) refillChart();
      chart.draw(view, board.span(), data, before);
    },
  });
  const chartNodes = [...places.chart.childNodes];
  const refillChart = () => fill(places.chart, chartNodes);

  function drawFrame() {
    context.title(site.name);
    drawRange(places.range, board);
    drawWhen(places.when, board);
    drawFilters(places.filters, board);
    drawInterval(interval, board);
    out?.redraw();
    const question = reportQuery(view, board.span(), { interval: board.span().interval, format: "csv" });
    csv.href = at(`${site.base}/timeseries?${question}`);
    fill(places.print, printHead(site, view, board.span()));
  }

  let figured = null;
  async function load(options) {
    figured = figures(options).then((there) => {
      if (!there && !options?.quietly) totals = null;
    });
    out?.load();
    await Promise.all([figured, line(options), recent.load(options), ...cards.map((card) => card.load(options))]);
  }

  // Keys that are pressed fast, one after the other, ask once in the end: requests are counted.
  let lastLoad = 0;
  let waiting = 0;
  function loadSoon() {
    const isFast = Date.now() - lastLoad < FAST_MS;
    lastLoad = Date.now();
    clearTimeout(waiting);
    if (!isFast) return load();
    places.figures.setAttribute("aria-busy", "true");
    waiting = setTimeout(load, FAST_MS);
  }

  let today = board.span().today;
  function again() {
    const span = board.span();
    if (document.visibilityState !== "visible" || !span.isOpen || span.days > AUTOMATIC_MAX_DAYS) return;
    if (today !== span.today) drawFrame();
    today = span.today;
    load({ quietly: true });
  }

  drawFrame();
  fill(root, places.page);
  if (location.search.slice(1) !== addressOf(view))
    history.replaceState(null, "", at(`${context.path}?${addressOf(view)}${context.hash}`));
  load();
  const stopKeys = listenForShortcuts(board, {
    f: () => filterDialog(board),
    "/": () => cards[0].openAll(),
    "?": () => shortcutsDialog(),
  });
  const timer = setInterval(again, EVERY_MS);

  return {
    update(changed) {
      const last = view;
      view = readView(changed.query, zone, DASHBOARD_STATE);
      drawFrame();
      now.redraw();
      if (!hasSameScope(last, view)) return loadSoon();
      if (last.figure !== view.figure) (chooseFigure(places.figures, view.figure), chart.redraw(view));
      if (last.interval !== view.interval) line();
      for (const [i, card] of CARDS.entries()) if (last.tabs[card.name] !== view.tabs[card.name]) cards[i].load();
    },
    leave() {
      stopKeys();
      clearInterval(timer);
      clearTimeout(waiting);
      now.end();
      chart.end();
      out?.end();
      for (const card of cards) card.end();
    },
  };
}

const addressOf = (view) => writeView(view, DASHBOARD_STATE);

function placesOf(site, out) {
  const places = {
    name: h("div", { class: "dash-name" }, h("h1", null, site.name)),
    range: h("div", { class: "dash-range no-print" }),
    when: h("div", { class: "when" }),
    filters: h("div", { class: "chips", role: "group", "aria-label": "Filters" }),
    figures: h("div", { class: "figures-place" }),
    chart: h("div", { class: "chart-place" }),
    cards: h("div", { class: "cards" }),
    // Says by ear what has changed.
    status: h("p", { class: "unseen", role: "status" }),
    print: h("div", { class: "print-only print-head" }),
  };
  places.page = h(
    "div",
    { class: "page dash" },
    site.home || null,
    h(
      "header",
      { class: "dash-head" },
      h(
        "div",
        { class: "dash-row" },
        places.name,
        h("div", { class: "dash-tools no-print" }, site.tools || null),
        places.range,
      ),
      h("div", { class: "dash-row" }, places.filters, places.when),
    ),
    places.print,
    h("section", { class: "card main-card", "aria-label": "Key figures and chart" }, places.figures, places.chart),
    places.cards,
    footer(out),
    places.status,
  );
  return places;
}

function footer(out) {
  return h(
    "footer",
    { class: "dash-foot soft small-text" },
    h(
      "p",
      null,
      "A visitor is who a website takes to be one person during one UTC day. No cookie, no address and no fingerprint is kept, so who comes on three days counts three times.",
    ),
    h(
      "p",
      { class: "row" },
      out || null,
      h("a", { href: "https://db-ip.com", target: "_blank", rel: "noopener" }, "IP Geolocation by DB-IP"),
      h("button", { class: "link-button no-print", type: "button", onclick: () => shortcutsDialog() }, "Keys"),
      h("button", { class: "link-button no-print", type: "button", onclick: () => print() }, "Print"),
    ),
  );
}

/** Key figures with those of the range before: as much of it as of this one, where this one is not over. */
async function askFigures(board, signal) {
  const [view, span] = [board.view(), board.span()];
  const own = (more) => get(`${board.base}/stats?${reportQuery(view, span, more)}`, { signal });
  if (!span.isOpen) {
    const answer = await own({ compare: "previous" });
    return answer.ok ? { ...answer, previous: answer.data.previous, change: answer.data.change } : answer;
  }
  const until = { from: span.before.from, to: span.beforeUntil };
  const [answer, before] = await Promise.all([
    own({}),
    get(`${board.base}/stats?${reportQuery(view, until)}`, { signal }),
  ]);
  // Where the range before is no longer kept, there is nothing to compare with; the figures are still good.
  return { ...answer, previous: before.ok ? before.data : null, change: null };
}

async function askSeries(board, signal) {
  const [view, span] = [board.view(), board.span()];
  const ask = (days) =>
    get(`${board.base}/timeseries?${reportQuery(view, days, { interval: span.interval })}`, { signal });
  const [answer, before] = await Promise.all([ask(span), ask(span.before)]);
  return { ...answer, before: before.ok ? before.data : null };
}

function chooseFigure(root, name) {
  for (const button of root.querySelectorAll("button.figure"))
    button.setAttribute("aria-pressed", String(button.dataset.figure === name));
}

function printHead(site, view, span) {
  const filters = view.filters.map(([field, value]) => `${fieldName(field)}: ${valueText(field, value)}`);
  return [
    h("h1", null, site.name),
    h("p", null, [`${dayRange(span.from, span.to)}, ${view.zone}`, ...filters].join(" · ")),
    h("p", null, `Chart: ${figureNamed(view.figure).title}`),
  ];
}

/** A page in the place of the dashboard that says why there is none. */
export function noDashboard(root, title, error, again) {
  refill(root, h("div", { class: "page narrow" }, failureNotice(title, error, again)));
}

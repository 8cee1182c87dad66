// The dashboard of a website: key figures, chart, top lists, visitors now, recent events. The owner's page and the shared
// page show the same; their `site` says where reports come from and what stands in the frame.

import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { dayRange, plural } from "../shared/formats.js";
import { drawInterval, pickDays } from "../shared/range_picker.js";
import { hasSameScope, reportQuery } from "../shared/view_state.js";
import { at } from "../shared/paths.js";
import { DASHBOARD_STATE } from "./dashboard_view.js";
import { drawFigures, figureNamed } from "./key_figures.js";
import { CARDS } from "./list_cards.js";
import { realtimePanel } from "./realtime.js";
import { recentEvents } from "./recent_events.js";
import { rejectedLink } from "./rejected_link.js";
import { timeSeriesChart } from "./time_series.js";
import { listCard } from "./top_lists.js";
import { worldMap } from "./world_map.js";

/**
 * What the cards of the dashboard share beside the board.
 *
 * @typedef {Board & {
 *   total(figure: string): number,
 *   figuresLoaded(): Promise<void> | null,
 *   openTab(card: string, field: string): void,
 * }} DashboardBoard
 */

/** @type {PageDefinition} */
export const DASHBOARD = {
  title: "",
  state: DASHBOARD_STATE,
  shortcuts: [["/", "Search in all pages; in an open list, search in that list", (board) => board.search?.()]],
  foot: "Unique visitors are counted per day (UTC): a visitor who returns on another day counts again. No cookies, IP addresses or fingerprints are stored.",
  printLine: (board) => `Chart: ${figureNamed(board.view().figure).title}`,
  build,
};

/**
 * @param {Board} shared
 * @returns {PageBody}
 */
function build(shared) {
  /** @type {Stats | null} */
  let totals = null;
  /** @type {Promise<void> | null} */
  let figuresLoaded = null;
  /** @type {DashboardBoard} */
  const board = Object.assign(shared, {
    total: (/** @type {string} */ figure) => totals?.[figure] || 0,
    figuresLoaded: () => figuresLoaded,
    openTab: (/** @type {string} */ card, /** @type {string} */ field) =>
      void board.go({ ...board.view(), tabs: { ...board.view().tabs, [card]: field } }),
  });
  const nodes = {
    figures: h("div", { class: "figures-place" }),
    chart: h("div", { class: "chart-place" }),
    cards: h("div", { class: "cards" }),
  };
  const rejected = board.site.rejected ? rejectedLink(board, board.site.rejected) : null;
  const realtime = realtimePanel(board);
  const chart = timeSeriesChart(nodes.chart, { pick: (first, last) => pickDays(board, first, last) });
  const interval = h("div");
  const csv = h("a", { class: "csv", download: "series.csv", "aria-label": "CSV of the chart" }, "CSV");
  chart.tools.append(interval, csv);
  const chartNodes = [...nodes.chart.childNodes];
  const map = worldMap(board);
  const cards = CARDS.map((card) => listCard(card, board, card.name === "places" ? map : null));
  const recent = recentEvents(board);
  const eventNames = cards[cards.length - 1];
  const topLists = cards.slice(0, -1).map((card) => card.element);
  nodes.cards.append(...topLists, eventNames.element, realtime.card, recent.element);
  board.search = () => void cards[0].openAll();

  const loadFigures = board.panel(nodes.figures, {
    what: () => "The key figures cannot be shown.",
    ask: (signal) => fetchFigures(board, signal),
    draw: (answer) => {
      const stats = /** @type {Stats} */ (answer.data);
      const span = board.span();
      if (totals?.visitors !== stats.visitors) {
        board.say(`${dayRange(span.from, span.to)}: ${plural(stats.visitors, "visitor")}`);
      }
      totals = stats;
      drawFigures(nodes.figures, {
        ...{ stats, previous: answer.previous, change: answer.change, span },
        chosen: board.view().figure,
        choose: (name) => board.go({ ...board.view(), figure: name }),
      });
    },
  });
  const loadChart = board.panel(nodes.chart, {
    what: () => "The chart cannot be shown.",
    ask: (signal) => fetchSeries(board, signal),
    draw: ({ data, before }) => {
      if (!nodes.chart.contains(interval)) fill(nodes.chart, chartNodes);
      chart.draw(board.view(), board.span(), data, before);
    },
  });

  async function loadAll(/** @type {LoadOptions} */ options) {
    figuresLoaded = loadFigures(options).then((isLoaded) => {
      if (!isLoaded && !options.quietly) totals = null;
    });
    rejected?.load();
    const loads = [loadChart(options), recent.load(options), ...cards.map((card) => card.load(options))];
    await Promise.all([figuresLoaded, ...loads]);
  }

  /** Draws what the page's own state changed: the figure on the chart, its buckets, an open tab. */
  function loadChanged(/** @type {View} */ last, /** @type {View} */ view) {
    if (last.figure !== view.figure) {
      markChosen(nodes.figures, view.figure);
      chart.redraw(view);
    }
    if (last.interval !== view.interval) loadChart();
    for (const [i, { name }] of CARDS.entries()) if (last.tabs[name] !== view.tabs[name]) cards[i].load();
  }

  return {
    element: [
      h("section", { class: "card main-card", "aria-label": "Key figures and chart" }, nodes.figures, nodes.chart),
      nodes.cards,
    ],
    nameAside: realtime.badge,
    footLinks: [
      rejected?.element,
      h("a", { href: "https://db-ip.com", target: "_blank", rel: "noopener" }, "IP Geolocation by DB-IP"),
    ],
    redraw() {
      const span = board.span();
      drawInterval(interval, board);
      rejected?.redraw();
      realtime.redraw();
      const query = reportQuery(board.view(), span, { interval: span.interval, format: "csv" });
      csv.href = at(`${board.base}/timeseries?${query}`);
    },
    load({ quietly, last }) {
      if (last && hasSameScope(last, board.view())) return loadChanged(last, board.view());
      return loadAll({ quietly });
    },
    leave() {
      realtime.end();
      chart.end();
      rejected?.end();
      for (const card of cards) card.end();
    },
  };
}

/**
 * Fetches the key figures and those of the range before. Where this range is not over, as much of the range before is
 * compared as of this one.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 */
async function fetchFigures(board, signal) {
  const [view, span] = [board.view(), board.span()];
  if (!span.isOpen) {
    const answer = await board.ask("stats", { compare: "previous" }, signal);
    return answer.ok ? { ...answer, previous: answer.data.previous, change: answer.data.change } : answer;
  }
  const until = { from: span.before.from, to: span.beforeUntil };
  const [answer, before] = await Promise.all([
    board.ask("stats", {}, signal),
    get(`${board.base}/stats?${reportQuery(view, until)}`, { signal }),
  ]);
  // The range before may be older than the retention period: then there is nothing to compare with.
  return { ...answer, previous: before.ok ? before.data : null, change: null };
}

/**
 * Fetches the series of the range, and of the range before as `before`.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 */
async function fetchSeries(board, signal) {
  const [view, span] = [board.view(), board.span()];
  const ask = (/** @type {Days} */ days) =>
    get(`${board.base}/timeseries?${reportQuery(view, days, { interval: span.interval })}`, { signal });
  const [answer, before] = await Promise.all([ask(span), ask(span.before)]);
  return { ...answer, before: before.ok ? before.data : null };
}

function markChosen(/** @type {HTMLElement} */ root, /** @type {string} */ name) {
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("button.figure"))) {
    button.setAttribute("aria-pressed", String(button.dataset.figure === name));
  }
}

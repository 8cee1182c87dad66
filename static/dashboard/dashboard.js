// The dashboard of a website: key figures, chart, top lists, visitors now, recent events. The owner's page and the shared
// page show the same; their `site` has the path of the reports and the parts of the frame.

import { openWhenLoaded } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { dayRange } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { drawInterval, showDays } from "../shared/range_picker.js";
import { comparisonOf, hasSameScope, reportQuery, toggleFilter } from "../shared/view_state.js";
import { at } from "../shared/paths.js";
import { DASHBOARD_STATE, NO_TABLE } from "./dashboard_view.js";
import { annotationTool } from "./annotations.js";
import { conversionCount, shownFigure } from "./conversions.js";
import { goalCards } from "./goal_cards.js";
import { comparedUntil, drawFigures, figureNamed, requestCompared } from "./key_figures.js";
import { CARDS } from "./list_cards.js";
import { realtimePanel } from "./realtime.js";
import { recentEvents } from "./recent_events.js";
import { rejectedLink } from "./rejected_link.js";
import { drawFigureSparks } from "./sparklines.js";
import { timeSeriesChart } from "./time_series.js";
import { listCard } from "./top_lists.js";
import { topRequests } from "./top_requests.js";
import { toggleCountry, worldMap } from "./world_map.js";

const t = await texts("dashboard");
const shared = await texts("shared");

/**
 * What the cards of the dashboard share beside the board.
 *
 * @typedef {Board & {
 *   top: ReturnType<typeof topRequests>,
 *   total(figure: string): number,
 *   figuresLoaded(): Promise<void> | null,
 *   allLoaded(): Promise<any>,
 *   openTab(card: string, field: string): void,
 *   choose(field: string, value: string): void,
 * }} DashboardBoard
 */

/** @type {PageDefinition} */
export const DASHBOARD = {
  title: "",
  compares: true,
  state: DASHBOARD_STATE,
  shortcuts: [["/", t("search_pages"), (board) => board.search?.()]],
  foot: t("counting_note"),
  printLine: (board) => t("chart_of", { figure: figureNamed(board.view().figure).title }),
  build,
};

/**
 * @param {Board} given
 * @returns {PageBody}
 */
function build(given) {
  /** @type {Stats | null} */
  let totals = null;
  // Those of the chart, for the sparklines of the figures.
  /** @type {Bucket[]} */
  let series = [];
  /** @type {Promise<void> | null} */
  let figuresLoaded = null;
  /** @type {Promise<any>} */
  let allLoaded = Promise.resolve();
  /** @type {DashboardBoard} */
  const board = Object.assign(given, {
    top: topRequests(given.base),
    total: (/** @type {string} */ figure) => totals?.[figure] || 0,
    figuresLoaded: () => figuresLoaded,
    allLoaded: () => allLoaded,
    // A row of a list or a place on the map. A table of all values is closed.
    choose: (/** @type {string} */ field, /** @type {string} */ value) => {
      const view = { ...board.view(), ...NO_TABLE };
      const hasRegions = cards.some((card) => card.has("region"));
      const isCountry = field === "country";
      void board.go(isCountry ? toggleCountry(view, value, hasRegions) : toggleFilter(view, field, value));
    },
    openTab: (/** @type {string} */ card, /** @type {string} */ field) =>
      void board.go({ ...board.view(), tabs: { ...board.view().tabs, [card]: field } }),
  });
  const nodes = {
    figures: h("div", { class: "figures-place" }),
    chart: h("div", { class: "chart-place" }),
    cards: h("div", { class: "cards" }),
  };
  const rejected = board.site.rejected ? rejectedLink(board, board.site.rejected) : null;
  // A share link may fix filters, which visitors now do not have, and hide single events.
  const isFiltered = Object.keys(board.site.filters || {}).length > 0;
  const realtime = isFiltered ? null : realtimePanel(board);
  // Share links show no goals.
  const goals = board.site.website ? goalCards(board) : null;
  // Only the owner changes annotations.
  const annotate = board.site.website ? annotationTool(board, () => void loadChart()) : null;
  const chart = timeSeriesChart(nodes.chart, {
    pick: (first, last, days) => annotate?.pick(first, last) || showDays(board, days),
    openMark: annotate ? ({ annotations }) => annotate.open(annotations) : undefined,
  });
  const interval = h("div");
  const csv = h("a", { class: "csv", download: "series.csv", "aria-label": shared("csv_of_chart") }, "CSV");
  chart.tools.append(...(annotate ? [annotate.button] : []), interval, csv);
  const chartNodes = [...nodes.chart.childNodes];
  const map = worldMap(board);
  const cards = CARDS.map((card) => listCard(card, board, card.name === "places" ? map : null));
  const recent = board.site.hidesEvents ? null : recentEvents(board);
  const belowLists = [realtime?.card, recent?.element].filter((card) => card !== undefined);
  nodes.cards.append(...cards.map((card) => card.element), ...belowLists);
  board.search = () => void cards[0].openAll();

  // Which count of some figures holds conversions.
  const countOf = (/** @type {TopRow[] | Stats[] | Bucket[]} */ rows) =>
    conversionCount(board.view(), board.saved().segments, rows);

  const loadFigures = board.panel(nodes.figures, {
    what: () => t("key_figures_failed"),
    request: (signal) => requestCompared(board, (compared) => board.request("stats", compared, signal)),
    draw: (answer) => {
      const stats = /** @type {Stats} */ (answer.data);
      const span = board.span();
      if (totals?.visitors !== stats.visitors) {
        board.announce(t("visitors_of_days", { days: dayRange(span.from, span.to), count: stats.visitors }));
      }
      totals = stats;
      drawFigures(nodes.figures, {
        ...{ stats, previous: stats.previous || null, change: stats.change || null },
        ...{ span: comparedUntil(span, answer.meta.previous_to), count: countOf([stats]) },
        chosen: shownFigure(board.view().figure, countOf([stats])),
        choose: (name) => board.go({ ...board.view(), figure: name }),
      });
      drawFigureSparks(nodes.figures, series, span.isOpen);
    },
  });
  const loadChart = board.panel(nodes.chart, {
    what: () => t("chart_failed"),
    request: (signal) => fetchSeries(board, signal),
    draw: ({ data, before, annotations, meta }) => {
      if (!nodes.chart.contains(interval)) fill(nodes.chart, chartNodes);
      const count = countOf([...data, ...(before || [])]);
      chart.draw(board.view(), board.span(), data, before, annotations, count, meta.imported);
      series = data;
      drawFigureSparks(nodes.figures, series, board.span().isOpen);
    },
  });

  /** @type {{ name: string, dialog: Dialog | null }} */
  const table = { name: "", dialog: null };
  /** Opens the table of all values that the view names; closes another one, and one of another scope. */
  function showTable(/** @type {boolean} */ isSameScope) {
    const { all } = board.view();
    if (isSameScope && table.name === all) return;
    const { dialog: last } = table;
    Object.assign(table, { name: all, dialog: null });
    last?.close();
    if (!all) return;
    openWhenLoaded(import("./all_values.js"), ({ allDialog }) => {
      if (board.view().all !== all || board.signal.aborted) return;
      const dialog = allDialog(board, () => {
        if (table.dialog === dialog && !board.signal.aborted) board.go({ ...board.view(), ...NO_TABLE });
      });
      table.dialog = dialog;
    });
  }

  async function loadAll(/** @type {LoadOptions} */ options) {
    if (!options.quietly) series = [];
    figuresLoaded = loadFigures(options).then((isLoaded) => {
      if (!isLoaded && !options.quietly) totals = null;
    });
    rejected?.load();
    const loads = [
      loadChart(options),
      goals?.load(options),
      recent?.load(options),
      ...cards.map((card) => card.load(options)),
    ];
    allLoaded = Promise.all([figuresLoaded, ...loads]);
    await allLoaded;
  }

  /** Draws what the page's own state changed: the figure on the chart, its buckets, an open tab. */
  function loadChanged(/** @type {View} */ last, /** @type {View} */ view) {
    if (last.figure !== view.figure) {
      markChosen(nodes.figures, shownFigure(view.figure, totals && countOf([totals])));
      chart.redraw(view);
    }
    if (last.interval !== view.interval) loadChart();
    goals?.redraw();
    if (last.goal !== view.goal) for (const card of cards) card.load();
    if (last.recent !== view.recent) recent?.load({ quietly: false });
    for (const [i, { name }] of CARDS.entries()) if (last.tabs[name] !== view.tabs[name]) cards[i].load();
  }

  return {
    element: [
      h("section", { class: "card main-card", "aria-label": t("key_figures_and_chart") }, nodes.figures, nodes.chart),
      ...(goals ? [goals.element] : []),
      nodes.cards,
    ],
    nameAside: realtime?.badge,
    footLinks: [
      rejected?.element,
      h("a", { href: "https://db-ip.com", target: "_blank", rel: "noopener" }, t("geolocation_source")),
    ],
    redraw() {
      const span = board.span();
      drawInterval(interval, board);
      rejected?.redraw();
      realtime?.redraw();
      const more = { interval: span.interval, ...comparisonOf(board.view(), span), format: "csv" };
      const query = reportQuery(board.view(), span, more);
      csv.href = at(`${board.base}/timeseries?${query}`);
    },
    load({ quietly, last }) {
      const isSameScope = quietly || Boolean(last && hasSameScope(last, board.view()));
      const loading = last && isSameScope ? loadChanged(last, board.view()) : loadAll({ quietly });
      showTable(isSameScope);
      return loading;
    },
    leave() {
      realtime?.end();
      chart.end();
      rejected?.end();
      for (const card of cards) card.end();
    },
  };
}

/**
 * Fetches the series of the range, and as `before` that of the range which it is compared with.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 */
async function fetchSeries(board, signal) {
  const [view, span] = [board.view(), board.span()];
  const fetchDays = (/** @type {Days} */ days) =>
    get(`${board.base}/timeseries?${reportQuery(view, days, { interval: span.interval })}`, { signal });
  const [answer, before, annotations] = await Promise.all([
    fetchDays(span),
    span.before && fetchDays(span.before),
    get(`${board.base}/annotations`, { signal }),
  ]);
  return { ...answer, before: before?.ok ? before.data : null, annotations: annotations.ok ? annotations.data : [] };
}

function markChosen(/** @type {HTMLElement} */ root, /** @type {string} */ name) {
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("button.figure"))) {
    button.setAttribute("aria-pressed", String(button.dataset.figure === name));
  }
}

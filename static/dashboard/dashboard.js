// The dashboard of a website: key figures, chart, top lists, visitors now. The owner's page and the shared
// page show the same; their `site` has the path of the reports and the parts of the frame.

import { isWithinDay } from "../shared/buckets.js";
import { openWhenLoaded } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { dayRange, isKnownZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { drawInterval, showDays } from "../shared/range_picker.js";
import { offsetLabel, zoneOffsets } from "../shared/time_zones.js";
import { daysLater, goalOf, hasSameScope, reportQuery, toggleFilter } from "../shared/view_state.js";
import { isNew } from "../shared/website_page.js";
import { DASHBOARD_STATE, NO_TABLE } from "./dashboard_view.js";
import { annotationTool } from "./annotations.js";
import { conversionCount, shownFigure } from "./conversions.js";
import { goalCards } from "./goal_cards.js";
import { comparedUntil, drawFigures, figureNamed, figuresOf, requestCompared } from "./key_figures.js";
import { CARDS } from "./list_cards.js";
import { profileRequest, projected } from "./projection.js";
import { visitorsNow } from "./realtime.js";
import { rejectedLink } from "./rejected_link.js";
import { drawFigureSparks } from "./sparklines.js";
import { timeSeriesChart } from "./time_series.js";
import { listCard } from "./top_lists.js";
import { topRequests } from "./top_requests.js";
import { toggleCountry, worldMap } from "./world_map.js";

const t = await texts("dashboard");
const shared = await texts("shared");
// How far below or above the visible area a card is loaded.
const NEAR = "100px 0px";

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
  foot: countingNote,
  printLine: (board) => t("chart_of", { figure: figureNamed(board.view().figure).title }),
  build,
};

/**
 * Returns by which days visitors are counted: those of the website's time zone, unless it was changed later.
 *
 * @param {Site} site
 */
function countingNote({ zone, dayOffset }) {
  const isOfZone = zone && isKnownZone(zone) && zoneOffsets(zone)[0] === dayOffset;
  const days = isOfZone ? t("counted_by_zone") : t("counted_by_offset", { offset: offsetLabel(dayOffset) });
  return t("counting_note", { days });
}

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
  // A share link may fix filters, which visitors now do not have.
  const isFiltered = Object.keys(board.site.filters || {}).length > 0;
  const realtime = isFiltered ? null : visitorsNow(board);
  // Share links show no goals.
  const goals = board.site.website ? goalCards(board) : null;
  const changes = changesPlace(board);
  const steps = h("section", { class: "card next-card", hidden: true });
  // Imported events are of a website that is not new.
  if (isNew(board.site) && board.first() >= daysLater(board.span().today, -30)) {
    import("./next_steps.js").then(({ nextSteps }) => nextSteps(steps, board, () => goals?.load({ quietly: false })));
  }
  // Only the owner changes annotations.
  const annotate = board.site.website ? annotationTool(board, () => void loadChart()) : null;
  const chart = timeSeriesChart(nodes.chart, {
    pick: (first, last, days) => annotate?.pick(first, last) || showDays(board, days),
    openMark: annotate ? ({ annotations }) => annotate.open(annotations) : undefined,
  });
  const interval = h("div");
  chart.tools.append(...(annotate ? [annotate.button] : []), interval);
  const chartNodes = [...nodes.chart.childNodes];
  const map = worldMap(board);
  const cards = CARDS.map((card) => listCard(card, board, card.name === "places" ? map : null));
  const week = weekPlace(board);
  nodes.cards.append(...cards.map((card) => card.element), week.element);
  // The owner's pages have a page for it.
  const live = board.site.website || (isFiltered && board.site.hidesEvents) ? null : livePlace(board);
  board.search = () => void cards[0].openAll();

  // Which count of some figures holds conversions.
  const countOf = (/** @type {TopRow[] | Stats[] | Bucket[]} */ rows) =>
    conversionCount(board.view(), board.saved().segments, rows);

  const loadFigures = board.panel(nodes.figures, {
    what: () => t("key_figures_failed"),
    request: (signal) =>
      requestCompared(board, (compared) => board.request("stats", { ...compared, ...goalOf(board.view()) }, signal)),
    draw: (answer) => {
      const stats = /** @type {Stats} */ (answer.data);
      const span = board.span();
      const [first] = figuresOf(countOf([stats]));
      if (totals?.[first.name] !== stats[first.name]) {
        const days = dayRange(span.from, span.to);
        board.announce(shared("label_value", { label: days, value: first.described(stats[first.name]) }));
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
  const usualHours = profileRequest(board.base);
  const loadChart = board.panel(nodes.chart, {
    what: () => t("chart_failed"),
    request: (signal) => fetchSeries(board, usualHours, signal),
    draw: ({ data, before, annotations, meta, hours }) => {
      if (!nodes.chart.contains(interval)) fill(nodes.chart, chartNodes);
      const count = countOf([...data, ...(before || [])]);
      const [view, span] = [board.view(), board.span()];
      const project = (/** @type {Bucket} */ row, /** @type {string} */ figure) =>
        projected(row, figure, { hours, zone: view.zone, ...span });
      chart.draw(view, span, data, before, annotations, count, meta.imported, project);
      series = data;
      drawFigureSparks(nodes.figures, series, span.isOpen);
    },
  });

  /** @type {{ view: View, dialog: Dialog | null }} */
  const table = { view: { ...board.view(), all: "" }, dialog: null };
  /** Opens the table of all values that the view names; closes another one, and one of another scope. */
  function showTable() {
    const view = board.view();
    const { all } = view;
    const { view: shown, dialog: last } = table;
    if (shown.all === all && countsTheSame(shown, view)) return;
    Object.assign(table, { view, dialog: null });
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
      changes.load(options),
      ...cards.map((card) => card.load(options)),
    ];
    allLoaded = Promise.all([figuresLoaded, ...loads]);
    await Promise.all([allLoaded, week.load(options), live?.load(options)]);
  }

  /** Draws what the page's own state changed: the figure on the chart, its buckets, an open tab. */
  function loadChanged(/** @type {View} */ last, /** @type {View} */ view) {
    if (last.figure !== view.figure) {
      markChosen(nodes.figures, shownFigure(view.figure, totals && countOf([totals])));
      chart.redraw(view);
    }
    if (last.interval !== view.interval) loadChart();
    for (const [i, { name }] of CARDS.entries()) if (last.tabs[name] !== view.tabs[name]) cards[i].load();
  }

  return {
    element: [
      h("section", { class: "card main-card", "aria-label": t("key_figures_and_chart") }, nodes.figures, nodes.chart),
      steps,
      changes.element,
      ...(goals ? [goals.element] : []),
      nodes.cards,
      ...(live ? [live.element] : []),
    ],
    nameAside: realtime || undefined,
    footLinks: [
      rejected?.element,
      h("a", { href: "https://db-ip.com", target: "_blank", rel: "noopener" }, t("geolocation_source")),
    ],
    files: async () =>
      (await import("./files.js")).files(board, Boolean(totals?.previous), Boolean(goals && !goals.element.hidden)),
    redraw() {
      drawInterval(interval, board);
      rejected?.redraw();
      goals?.redraw();
    },
    load({ quietly, last }) {
      const isLoaded = last && (quietly || countsTheSame(last, board.view()));
      const loading = isLoaded ? loadChanged(last, board.view()) : loadAll({ quietly });
      showTable();
      return loading;
    },
    leave() {
      chart.end();
      rejected?.end();
      for (const card of cards) card.end();
    },
  };
}

/**
 * Returns whether two views have the same scope and goal.
 *
 * @param {View} one
 * @param {View} other
 */
function countsTheSame(one, other) {
  return hasSameScope(one, other) && one.goal === other.goal;
}

/**
 * Returns { element, load(options) } of the card with what changed, which is hidden where nothing is compared.
 *
 * @param {DashboardBoard} board
 */
function changesPlace(board) {
  const element = h("section", { class: "card changes-card", hidden: true });
  /** @type {Promise<(options: LoadOptions) => Promise<boolean>> | null} */
  let card = null;
  return {
    element,
    async load(/** @type {LoadOptions} */ options = {}) {
      element.hidden = !board.span().before;
      if (element.hidden) return;
      if (!card) element.setAttribute("aria-busy", "true");
      card ||= import("./changes_card.js").then(({ changesCard }) => changesCard(element, board));
      const load = await card;
      element.removeAttribute("aria-busy");
      await load(options);
    },
  };
}

/**
 * Returns { element, load(options) } of the card with the hours of the week. It is hidden in ranges of less than a week, and
 * loads when it comes near the visible area.
 *
 * @param {DashboardBoard} board
 */
function weekPlace(board) {
  const element = h("section", { class: "card card-week", hidden: true });
  /** @type {Promise<(options: LoadOptions) => Promise<boolean>> | null} */
  let card = null;
  async function draw(/** @type {LoadOptions} */ options) {
    card ||= import("./week_card.js").then(({ weekCard }) => weekCard(element, board));
    const load = await card;
    await load(options);
  }
  const near = whenNear(board, () => void draw({}));
  return {
    element,
    async load(/** @type {LoadOptions} */ options = {}) {
      element.hidden = board.span().days < 7;
      if (element.hidden) return;
      if (card) await draw(options);
      // Until then the cards above it are empty, and it is higher up than it will be.
      else void board.allLoaded().then(() => (card ? undefined : near.observe(element)));
    },
  };
}

/**
 * Returns { element, load(options) } of what happens now, for pages without a menu; it loads when it comes near the visible
 * area.
 *
 * @param {DashboardBoard} board
 */
function livePlace(board) {
  const element = h("div", { id: "live", tabindex: "-1" });
  /** @type {Promise<ReturnType<typeof import("../live/live_view.js").liveView>> | null} */
  let view = null;
  const near = whenNear(board, () => {
    view = import("../live/live_view.js").then(({ liveView }) => liveView(board));
    void view.then((made) => element.append(made.element));
  });
  return {
    element,
    async load(/** @type {LoadOptions} */ options) {
      if (view) await (await view).load(options);
      else void board.allLoaded().then(() => (view ? undefined : near.observe(element)));
    },
  };
}

/**
 * Returns an observer that calls `act` once, when what it observes comes near the visible area.
 *
 * @param {Board} board
 * @param {() => void} act
 */
function whenNear(board, act) {
  const near = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      near.disconnect();
      act();
    },
    { rootMargin: NEAR },
  );
  board.signal.addEventListener("abort", () => near.disconnect());
  return near;
}

/**
 * Fetches the series of the range, as `before` that of the range which it is compared with, and as `hours` those of the
 * days before today where the last bucket is not over.
 *
 * @param {Board} board
 * @param {ReturnType<typeof profileRequest>} usualHours
 * @param {AbortSignal} signal
 */
async function fetchSeries(board, usualHours, signal) {
  const [view, span] = [board.view(), board.span()];
  const fetchDays = (/** @type {Days} */ days) =>
    get(`${board.base}/timeseries?${reportQuery(view, days, { interval: span.interval, ...goalOf(view) })}`, {
      signal,
    });
  const [answer, before, annotations, hours] = await Promise.all([
    fetchDays(span),
    span.before && fetchDays(span.before),
    get(`${board.base}/annotations`, { signal }),
    span.isOpen && !isWithinDay(span.interval) ? usualHours(view, span, signal) : [],
  ]);
  const own = { before: before?.ok ? before.data : null, annotations: annotations.ok ? annotations.data : [], hours };
  return { ...answer, ...own };
}

function markChosen(/** @type {HTMLElement} */ root, /** @type {string} */ name) {
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("button.figure"))) {
    button.setAttribute("aria-pressed", String(button.dataset.figure === name));
  }
}

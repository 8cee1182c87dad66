// The selected event: its counts, compared with the range before and with all visitors, and its trend.
//
// Figures come from the read API with filter_event_name, which replaces the page's filters by event name.

import { beforeWords, changeNode, changeOf, figureNamed } from "../dashboard/key_figures.js";
import { timeSeriesChart } from "../dashboard/time_series.js";
import { splitKey } from "../shared/filter_words.js";
import { reportQuery, writeView } from "../shared/view_state.js";
import { h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { decimal, number, percent, shortNumber } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { drawInterval, showDays } from "../shared/range_picker.js";

const t = await texts("events");
const dashboard = await texts("dashboard");
const COUNTS = ["events", "visitors", "visits"].map(figureNamed);

/**
 * Returns the card: { element, frame(), load(options), loadTrend(options), redraw(), end() }. `chosen()` returns the name.
 *
 * @param {Board} board
 * @param {() => string} chosen
 */
export function selectedEventCard(board, chosen) {
  const places = {
    head: h("div", { class: "chosen-head" }),
    figures: h("div", { class: "figures-place" }),
    chart: h("div", { class: "chart-place" }),
  };
  const line = timeSeriesChart(places.chart, { pick: (_first, _last, days) => showDays(board, days), counts: COUNTS });
  const chartNodes = [...places.chart.childNodes];
  const interval = h("div");
  line.tools.append(interval);

  const figures = board.panel(places.figures, {
    what: () => t("figures_failed", { event: chosen() }),
    request: (/** @type {AbortSignal} */ signal) => fetchFigures(board, chosen(), signal),
    draw: (/** @type {any} */ answer) => {
      const span = board.span();
      board.announce(t("count_of_event", { event: chosen(), count: answer.data.event.events }));
      refill(places.figures, figureRow(board, answer.data, answer.previous, span));
    },
  });
  const trend = board.panel(places.chart, {
    what: () => t("trend_failed", { event: chosen() }),
    request: async (/** @type {AbortSignal} */ signal) => {
      const [view, span] = [ofEvent(board, chosen()), board.span()];
      const fetchDays = (/** @type {any} */ days) =>
        get(`${board.base}/timeseries?${reportQuery(view, days, { interval: span.interval })}`, { signal });
      const [answer, before] = await Promise.all([fetchDays(span), span.before && fetchDays(span.before)]);
      return { ...answer, before: before?.ok ? before.data : null };
    },
    draw: (/** @type {{ data: any, before: any }} */ { data, before }) => {
      if (!places.chart.contains(interval)) places.chart.replaceChildren(...chartNodes);
      line.draw(board.view(), board.span(), data, before);
    },
  });

  function frame() {
    refill(places.head, heading(board, chosen(), ofEvent(board, chosen())));
    drawInterval(interval, board);
  }
  return {
    element: h("section", { class: "card main-card", "aria-label": t("selected_event") }, Object.values(places)),
    frame,
    load: (/** @type {any} */ options) => Promise.all([figures(options), trend(options)]),
    loadTrend: trend,
    redraw() {
      for (const button of /** @type {NodeListOf<HTMLElement>} */ (places.figures.querySelectorAll("button.figure"))) {
        button.setAttribute("aria-pressed", String(button.dataset.figure === board.view().figure));
      }
      line.redraw(board.view());
    },
    end: () => line.end(),
  };
}

/**
 * Returns the view with that event as its only filter by event name.
 *
 * @param {Board} board
 * @param {string} name
 * @returns {View}
 */
export function ofEvent(board, name) {
  const view = withoutNames(board.view());
  return { ...view, filters: [...view.filters, ["event_name", name]] };
}

/**
 * Returns the view without filters by event name.
 *
 * @param {View} view
 * @returns {View}
 */
export function withoutNames(view) {
  return { ...view, filters: view.filters.filter(([key]) => splitKey(key).field !== "event_name") };
}

/**
 * @param {Board} board
 * @param {string} name
 * @param {View} view
 */
function heading(board, name, view) {
  const there = `/websites/${board.website.id}?${writeView(view)}`;
  return [
    h("h2", { class: "wrap" }, h("bdi", null, name)),
    h("a", { class: "small-text no-print", href: there, dataset: { key: "to-dashboard" } }, t("show_on_overview")),
  ];
}

/**
 * @param {Board} board
 * @param {string} name
 * @param {AbortSignal} signal
 */
async function fetchFigures(board, name, signal) {
  const [view, span] = [ofEvent(board, name), board.span()];
  const stats = (/** @type {any} */ of, /** @type {any} */ days) =>
    get(`${board.base}/stats?${reportQuery(of, days)}`, { signal });
  const until = span.before && { from: span.before.from, to: span.beforeUntil || span.before.to };
  const [event, all, before] = await Promise.all([
    stats(view, span),
    stats(withoutNames(view), span),
    until && stats(view, until),
  ]);
  if (!event.ok || !all.ok) return event.ok ? all : event;
  return { ...event, data: { event: event.data, all: all.data }, previous: before?.ok ? before.data : null };
}

/**
 * @param {Board} board
 * @param {{ event: Stats, all: Stats }} options
 * @param {Stats | null} previous
 * @param {Span} span
 */
function figureRow(board, { event, all }, previous, span) {
  const { figure, ...view } = board.view();
  const counts = [
    { ...figureNamed("events"), means: t("events_means") },
    { ...figureNamed("visitors"), means: t("visitors_means") },
  ].map(({ name, title, described, means }) => {
    const button = h(
      "button",
      {
        class: "figure",
        type: "button",
        "aria-pressed": String(figure === name),
        dataset: { key: `figure-${name}`, figure: name, value: String(event[name]) },
        onclick: () => board.go({ ...view, figure: name }),
      },
      figureParts(
        title,
        shortNumber(event[name]),
        changeNode({ up: 1 }, changeOf(event[name], previous?.[name]), span),
      ),
    );
    addTooltip(button, () => [
      h("strong", null, described(event[name])),
      previous
        ? h(
            "p",
            { class: "soft" },
            dashboard("value_in_range", { value: number(previous[name]), range: beforeWords(span) }),
          )
        : null,
      h("p", null, means),
    ]);
    return button;
  });
  const share = all.visitors ? (100 * event.visitors) / all.visitors : null;
  const each = event.visitors ? event.events / event.visitors : null;
  return h("ul", { class: "figures" }, [
    ...counts.map((one) => h("li", null, one)),
    fixedFigure("share", t("of_all_visitors"), percent(share), t("of_visitors", { count: all.visitors }), share),
    fixedFigure("each", t("per_visitor"), decimal(each), t("times_on_average"), each),
  ]);
}

/**
 * @param {string} title
 * @param {string} value
 * @param {Node} below
 */
function figureParts(title, value, below) {
  return [h("span", { class: "figure-name" }, title), h("span", { class: "figure-value" }, value), below];
}

/**
 * @param {string} name
 * @param {string} title
 * @param {string} value
 * @param {string} words
 * @param {number | null} exact
 */
function fixedFigure(name, title, value, words, exact) {
  const below = h("span", { class: "figure-change soft" }, words);
  return h(
    "li",
    null,
    h("div", { class: "figure", dataset: { figure: name, value: String(exact) } }, figureParts(title, value, below)),
  );
}

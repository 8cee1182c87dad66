// The selected event: its counts, compared with the range before and with all visitors, and its trend.
//
// Figures come from the read API with filter_event_name, which replaces the page's filters by event name.

import { beforeWords, changeNode, changeOf } from "../dashboard/key_figures.js";
import { timeSeriesChart } from "../dashboard/time_series.js";
import { reportQuery, writeView } from "../shared/view_state.js";
import { h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { plural, decimal, number, percent, shortNumber } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";
import { drawInterval, pickDays } from "../shared/range_picker.js";
import { at } from "../shared/paths.js";

/** @type {[name: string, noun: string, column: string][]} */
const COUNTS = [
  ["events", "event", "Events"],
  ["visitors", "visitor", "Visitors"],
  ["visits", "visit", "Visits"],
];

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
  const line = timeSeriesChart(places.chart, { pick: (first, last) => pickDays(board, first, last), counts: COUNTS });
  const chartNodes = [...places.chart.childNodes];
  const interval = h("div");
  const csv = h("a", { class: "csv", download: "series.csv", "aria-label": "CSV of the chart" }, "CSV");
  line.tools.append(interval, csv);

  const figures = board.panel(places.figures, {
    what: () => `The figures of ${chosen()} cannot be shown.`,
    ask: (/** @type {AbortSignal} */ signal) => fetchFigures(board, chosen(), signal),
    draw: (/** @type {any} */ answer) => {
      const span = board.span();
      board.say(`${chosen()}: ${plural(answer.data.event.events, "event")}`);
      refill(places.figures, figureRow(board, answer.data, answer.previous, span));
    },
  });
  const trend = board.panel(places.chart, {
    what: () => `The trend of ${chosen()} cannot be shown.`,
    ask: async (/** @type {AbortSignal} */ signal) => {
      const [view, span] = [ofEvent(board, chosen()), board.span()];
      const ask = (/** @type {any} */ days) =>
        get(`${board.base}/timeseries?${reportQuery(view, days, { interval: span.interval })}`, { signal });
      const [answer, before] = await Promise.all([ask(span), ask(span.before)]);
      return { ...answer, before: before.ok ? before.data : null };
    },
    draw: (/** @type {{ data: any, before: any }} */ { data, before }) => {
      if (!places.chart.contains(interval)) places.chart.replaceChildren(...chartNodes);
      line.draw(board.view(), board.span(), data, before);
    },
  });

  function frame() {
    const [view, span] = [ofEvent(board, chosen()), board.span()];
    refill(places.head, heading(board, chosen(), view));
    drawInterval(interval, board);
    csv.href = at(`${board.base}/timeseries?${reportQuery(view, span, { interval: span.interval, format: "csv" })}`);
  }
  return {
    element: h("section", { class: "card main-card", "aria-label": "Selected event" }, Object.values(places)),
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
  return { ...view, filters: view.filters.filter(([field]) => field !== "event_name") };
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
    h("a", { class: "small-text no-print", href: there, dataset: { key: "to-dashboard" } }, "Show on overview"),
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
  const until = span.isOpen ? { from: span.before.from, to: span.beforeUntil } : span.before;
  const [event, all, before] = await Promise.all([
    stats(view, span),
    stats(withoutNames(view), span),
    stats(view, until),
  ]);
  if (!event.ok || !all.ok) return event.ok ? all : event;
  return { ...event, data: { event: event.data, all: all.data }, previous: before.ok ? before.data : null };
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
    ["events", "Events", "How often the event occurred."],
    ["visitors", "Visitors", "Unique visitors with this event, counted per day (UTC)."],
  ].map(([name, title, means]) => {
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
      h("strong", null, `${number(event[name])} ${title.toLowerCase()}`),
      previous ? h("p", { class: "soft" }, `${number(previous[name])} in ${beforeWords(span)}`) : null,
      h("p", null, means),
    ]);
    return button;
  });
  const share = all.visitors ? (100 * event.visitors) / all.visitors : null;
  const each = event.visitors ? event.events / event.visitors : null;
  return h("ul", { class: "figures" }, [
    ...counts.map((one) => h("li", null, one)),
    fixedFigure("share", "Of all visitors", percent(share), `of ${plural(all.visitors, "visitor")}`, share),
    fixedFigure("each", "Per visitor", decimal(each), "times, on average", each),
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

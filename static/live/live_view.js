// What happens now: visitors of the last minutes by minute, their pages, referrers and countries, and the events as they
// arrive. All is requested again every ten seconds, unless it is paused. The page Live of a website shows it, and the
// dashboards of share links below their lists.

import { UNITS, barList } from "../shared/bar_list.js";
import { get } from "../shared/api.js";
import { fill, h, loadStylesheet, refill } from "../shared/dom.js";
import { valueNode, valueText } from "../shared/fields.js";
import { CLOCK, dateFormat, number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { hasFilter, isFiltered, reportQuery } from "../shared/view_state.js";
import { startPolling } from "./polling.js";
import { recentEvents } from "./recent_events.js";

await loadStylesheet("/assets/live/live.css");
const t = await texts("live");
const shared = await texts("shared");

const MINUTE_MS = 60_000;
const MINUTES = 30;
// The window of the report of visitors now, which takes no filters.
const WINDOW_S = 300;
const SHOWN = 10;
/** @type {[field: string, title: string][]} */
const LISTS = [
  ["pathname", t("pages")],
  ["referrer", t("referrers")],
  ["country", t("countries")],
];

/**
 * What is drawn: the visitors of the window, its lists by field, and the last minutes.
 *
 * @typedef {{ visitors: number, seconds: number, lists: Record<string, { value: string, visitors: number }[]>,
 *   minutes: Bucket[] }} Present
 */

/**
 * Returns { element, load(options), events }: `load` fetches all, `events` is the card of events or null where the website
 * shows none.
 *
 * @param {Board} board
 */
export function liveView(board) {
  const pause = h("button", { class: "button small no-print", type: "button", "aria-pressed": "false" }, t("pause"));
  const count = h("p", { class: "live-count" });
  const minutes = h("div", { class: "live-minutes" });
  const table = h("div", {
    ...{ class: "table-scroll series-scroll", tabindex: "0", role: "region", "aria-label": shared("chart_table") },
  });
  const behind = h("details", { class: "series-table" }, h("summary", null, shared("show_chart_table")), table);
  const content = [h("div", { class: "live-figures" }, count, minutes), behind];
  const body = h("div", { class: "live-body" });
  const lists = LISTS.map(([field, title]) => {
    const list = h("div", { class: "card-body" });
    const card = h(
      "section",
      { class: `card list-card card-now-${field}`, "aria-label": title },
      h("div", { class: "card-head" }, h("h2", { class: "card-title" }, title)),
      list,
    );
    return { field, card, list };
  });
  const events = board.site.hidesEvents ? null : recentEvents(board);
  let isPaused = false;

  const loadNow = board.panel(body, {
    what: () => t("now_failed"),
    request: (signal) => fetchPresent(board, signal),
    draw: ({ data }) => {
      if (!body.contains(count)) fill(body, content);
      drawCount(count, data);
      fill(minutes, minuteBars(data.minutes));
      fill(table, minuteTable(data.minutes, board.view().zone));
      for (const { field, list } of lists) drawList(list, field, data.lists[field] || [], board);
    },
  });
  const load = (/** @type {LoadOptions} */ options) => Promise.all([loadNow(options), events?.load(options)]);

  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    if (!isPaused) void load({ quietly: true });
  });
  let isFirst = true;
  const poll = () => {
    const quietly = !isFirst;
    isFirst = false;
    return load({ quietly });
  };
  startPolling(poll, board.signal, () => isPaused);
  return {
    load,
    element: h(
      "div",
      { class: "live-view" },
      h(
        "section",
        { class: "card card-live", "aria-label": t("now") },
        h("div", { class: "card-head" }, h("h2", { class: "card-title" }, t("now")), pause),
        body,
      ),
      h(
        "div",
        { class: "cards" },
        lists.map(({ card }) => card),
        events?.element,
      ),
    ),
  };
}

/**
 * Returns what is present. With filters, visitors and pages are those of the matching events in the same window.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 * @returns {Promise<Answer>}
 */
async function fetchPresent(board, signal) {
  const takesFilters = isFiltered(board.view()) || Object.keys(board.site.filters || {}).length > 0;
  const present = takesFilters ? null : await get(`${board.base}/realtime`, { signal });
  if (present && !present.ok) return present;
  // The server's time, where the answer has it.
  const now = present ? Date.parse(present.meta.time) : Date.now();
  const seconds = present?.data.window_seconds || WINDOW_S;
  const fetchSince = (
    /** @type {string} */ report,
    /** @type {number} */ from,
    /** @type {number} */ to,
    /** @type {Record<string, any>} */ more,
  ) => {
    const days = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
    return get(`${board.base}/${report}?${reportQuery(board.view(), days, more)}`, { signal });
  };
  const begin = now - seconds * 1000;
  const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const fields = LISTS.map(([field]) => field).filter((field) => !present || field !== "pathname");
  const [stats, top, series] = await Promise.all([
    present ? null : fetchSince("stats", begin, now + 1, {}),
    fetchSince("top", begin, now + 1, { fields: fields.join(","), limit: SHOWN }),
    fetchSince("timeseries", minute - (MINUTES - 1) * MINUTE_MS, minute + MINUTE_MS, { interval: "minute" }),
  ]);
  if (stats && !stats.ok) return stats;
  if (!top.ok) return top;
  if (!series.ok) return series;
  /** @type {Present["lists"]} */
  const lists = Object.fromEntries(
    top.data.map((/** @type {{ field: string, data: TopRow[] }} */ { field, data }) => [field, data]),
  );
  const pages = present?.data.pages.slice(0, SHOWN);
  if (pages) {
    lists.pathname = pages.map((/** @type {Realtime["pages"][0]} */ page) => ({
      value: page.pathname,
      visitors: page.visitors,
    }));
  }
  const visitors = present ? present.data.active_visitors : stats?.data.visitors;
  return { ...series, data: { visitors, seconds, lists, minutes: series.data } };
}

/**
 * @param {HTMLElement} element
 * @param {Present} present
 */
function drawCount(element, { visitors, seconds }) {
  fill(
    element,
    t.rich("visitors_last_minutes", {
      count: visitors,
      minutes: seconds / 60,
      number: h("strong", null, number(visitors)),
    }),
  );
}

/**
 * Returns the bars of the last minutes; the table has their figures.
 *
 * @param {Bucket[]} rows
 */
function minuteBars(rows) {
  const most = Math.max(1, ...rows.map(({ visitors }) => visitors));
  return [
    h(
      "div",
      { class: "live-bars", "aria-hidden": "true" },
      rows.map(({ visitors }) => h("span", { style: { "--bar": String(visitors / most) } })),
    ),
    h("p", { class: "soft small-text" }, t("visitors_by_minute", { minutes: MINUTES, count: most })),
  ];
}

/**
 * @param {Bucket[]} rows
 * @param {string} zone
 */
function minuteTable(rows, zone) {
  const head = [t("minute"), shared("figure_visitors"), shared("figure_pageviews"), shared("figure_events")];
  return h(
    "table",
    { class: "table" },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        head.map((words, i) => h("th", { scope: "col", class: i ? "num" : null }, words)),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map((row) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, dateFormat(zone, CLOCK).format(Date.parse(row.time))),
          [row.visitors, row.pageviews, row.events].map((figure) => h("td", { class: "num" }, number(figure))),
        ),
      ),
    ),
  );
}

/**
 * @param {HTMLElement} element
 * @param {string} field
 * @param {{ value: string, visitors: number }[]} values
 * @param {Board} board
 */
function drawList(element, field, values, board) {
  if (!values.length) return void fill(element, h("p", { class: "nothing soft" }, t("nobody_now")));
  const rows = values.map(({ value, visitors }) => ({
    key: `${field}=${value}`,
    value,
    text: valueText(field, value),
    label: valueNode(field, value),
    count: visitors,
    share: null,
    bar: visitors / values[0].visitors,
    pressed: hasFilter(board.view(), field, value),
  }));
  refill(element, barList(rows, { choose: (row) => board.toggle(field, row.value), unit: UNITS.visitors }));
}

// The card with the hours of the week: a grid of weekdays and hours of the website's zone, the darker the more visitors, or
// conversions with a goal. Screen readers have the table below it. Loaded when the card comes near the visible area.

import { get } from "../shared/api.js";
import { h, loadStylesheet, refill } from "../shared/dom.js";
import { FULL_HOUR, dateFormat, dayRange, decimal, number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { daysLater, goalOf, reportQuery } from "../shared/view_state.js";
import { weekHours } from "./week_hours.js";

await loadStylesheet("/assets/dashboard/week_card.css");
const t = await texts("week");
const shared = await texts("shared");
const dashboard = await texts("dashboard");

const STEPS = 5;
// Whole weeks, within the read API's limit for a series.
const MAX_DAYS = 52 * 7;
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

/**
 * Draws the card into `element`; returns load(options).
 *
 * @param {HTMLElement} element
 * @param {import("./dashboard.js").DashboardBoard} board
 */
export function weekCard(element, board) {
  const body = h("div", { class: "card-body week-body" });
  element.setAttribute("aria-label", t("title"));
  element.append(h("div", { class: "card-head" }, h("h2", { class: "card-title" }, t("title"))), body);
  // Stays open while the card is drawn again.
  let isOpen = false;
  return board.panel(body, {
    what: () => t("failed"),
    request: async (signal) => {
      const days = daysOf(board.span());
      const query = reportQuery(board.view(), days, { interval: "hour", ...goalOf(board.view()) });
      return get(`${board.base}/timeseries?${query}`, { signal });
    },
    draw: ({ data, meta }) => {
      const count = board.view().goal ? "conversions" : "visitors";
      const week = inOrder(weekHours(data, count, Date.now()), board.website?.week_start);
      const table = h("div", {
        class: "table-scroll series-scroll",
        tabindex: "0",
        role: "region",
        "aria-label": shared("chart_table"),
      });
      const details = h(
        "details",
        { class: "series-table", open: isOpen },
        h("summary", null, shared("show_chart_table")),
        table,
      );
      const caption = `${meta.goal ? t("conversions_about") : t("visitors_about")} ${daysWords(board)}`;
      const drawTable = () => details.open && refill(table, tableOf(week, caption));
      details.addEventListener("toggle", () => {
        isOpen = details.open;
        drawTable();
      });
      drawTable();
      const excluded = meta.imported ? dashboard("imported_excluded", { count: meta.imported.days }) : null;
      refill(
        body,
        gridOf(week, count),
        h("p", { class: "soft small-text week-about" }, caption, excluded && ` · ${excluded}`),
        details,
      );
    },
  });
}

/**
 * Returns the days that are counted: those of the range, or its last year.
 *
 * @param {Span} span
 */
export function daysOf({ from, to }) {
  const first = daysLater(to, 1 - MAX_DAYS);
  return { from: from > first ? from : first, to };
}

/**
 * @param {Board} board
 */
function daysWords(board) {
  const { from, to } = daysOf(board.span());
  return `${dayRange(from, to)}, ${board.view().zone}`;
}

/**
 * Returns the weekdays with their names, from the first of the website's week on.
 *
 * @param {WeekCell[][]} week
 * @param {string} [start]
 */
function inOrder(week, start = "monday") {
  const first = start === "sunday" ? 0 : 1;
  return week.map((_, i) => {
    const day = (first + i) % 7;
    // The first of these days is a Sunday.
    const name = (/** @type {"short" | "long"} */ weekday) =>
      dateFormat("UTC", { weekday }).format(new Date(Date.UTC(2026, 10, 1 + day)));
    return { short: name("short"), long: name("long"), hours: week[day] };
  });
}

/**
 * @param {number} hour
 */
function hourName(hour) {
  return dateFormat("UTC", FULL_HOUR).format(new Date(Date.UTC(2026, 0, 1, hour)));
}

/**
 * @param {ReturnType<typeof inOrder>} week
 * @param {string} count
 */
function gridOf(week, count) {
  const most = Math.max(0, ...week.flatMap(({ hours }) => hours.map(({ mean }) => mean || 0)));
  const words = (/** @type {WeekCell} */ { sum, days, mean }) => {
    const values = { mean: decimal(mean, 1), sum: number(sum), count: days };
    return count === "conversions" ? t("cell_conversions", values) : t("cell_visitors", values);
  };
  const rows = week.map(({ short, long, hours }) => [
    h("span", { class: "soft week-day" }, short),
    hours.map((cell, hour) => {
      const node = h("span", { class: `week-cell land-${cell.mean ? Math.ceil((STEPS * cell.mean) / most) : 0}` });
      addTooltip(
        node,
        () => [h("strong", null, `${long}, ${hourName(hour)}`), h("p", null, cell.days ? words(cell) : t("no_day"))],
        { byTouch: true },
      );
      return node;
    }),
  ]);
  const axis = HOURS.filter((hour) => hour % 6 === 0).map((hour) =>
    h("span", { class: "soft week-hour", style: { "grid-column": `${hour + 2} / span 6` } }, hourName(hour)),
  );
  return h("div", { class: "week-grid", "aria-hidden": "true" }, rows, axis);
}

/**
 * @param {ReturnType<typeof inOrder>} week
 * @param {string} caption
 */
function tableOf(week, caption) {
  return h(
    "table",
    { class: "table" },
    h("caption", { class: "visually-hidden" }, caption),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, dashboard("hour")),
        week.map(({ short, long }) => h("th", { class: "num", scope: "col", abbr: long }, short)),
      ),
    ),
    h(
      "tbody",
      null,
      HOURS.map((hour) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, hourName(hour)),
          week.map(({ hours }) => h("td", { class: "num" }, decimal(hours[hour].mean, 1))),
        ),
      ),
    ),
  );
}

// Goals on the dashboard: conversions, rate and value of each saved goal. Choosing one adds its figures to every list.

import { get } from "../shared/api.js";
import { h, refill } from "../shared/dom.js";
import { number, numberFormat, percent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { reportQuery } from "../shared/view_state.js";
import { at } from "../shared/paths.js";

const t = await texts("dashboard");
const shared = await texts("shared");

/**
 * Returns { element, load(options), redraw() }. Without goals the element is hidden.
 *
 * @param {import("./dashboard.js").DashboardBoard} board
 */
export function goalCards(board) {
  const body = h("div");
  const element = h("section", { class: "card goals-card", "aria-label": shared("goals"), hidden: true }, body);
  const load = board.panel(body, {
    what: () => shared("goals_failed"),
    request: (signal) => get(`${board.base}/goals/report?${reportQuery(board.view(), board.span())}`, { signal }),
    draw: ({ data }) => {
      element.hidden = !data.length;
      const csv = at(`${board.base}/goals/report?${reportQuery(board.view(), board.span(), { format: "csv" })}`);
      refill(
        body,
        h(
          "div",
          { class: "card-head" },
          h("h2", { class: "card-title" }, shared("goals")),
          h("a", { class: "csv", href: csv, download: "goals.csv", "aria-label": t("csv_of_goals") }, "CSV"),
        ),
        h(
          "ul",
          { class: "goals" },
          data.map((/** @type {GoalRow} */ row) => h("li", null, goalButton(row, board))),
        ),
      );
    },
  });
  return {
    element,
    load,
    redraw() {
      for (const button of /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll(".goal"))) {
        button.setAttribute("aria-pressed", String(button.dataset.goal === board.view().goal));
      }
    },
  };
}

/**
 * @param {GoalRow} row
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function goalButton(row, board) {
  const isChosen = () => board.view().goal === row.id;
  return h(
    "button",
    {
      class: "goal",
      type: "button",
      "aria-pressed": String(isChosen()),
      title: t("choose_goal"),
      dataset: { goal: row.id, key: `goal-${row.id}` },
      onclick: () => board.go({ ...board.view(), goal: isChosen() ? "" : row.id }),
    },
    h("span", { class: "goal-name" }, h("bdi", null, row.name)),
    h("strong", { class: "goal-count" }, number(row.conversions)),
    h(
      "span",
      { class: "soft" },
      row.conversion_rate === null ? t("no_visitors") : t("rate_converted", { rate: percent(row.conversion_rate) }),
    ),
    row.value === null ? null : h("span", { class: "goal-value" }, money(row.value, row.currency)),
    row.without_value
      ? h("span", { class: "soft small-text" }, t("without_value", { count: row.without_value }))
      : null,
  );
}

/**
 * Returns a sum with its currency; the text is an exact decimal number.
 *
 * @param {string} value
 * @param {string | null} currency
 */
export function money(value, currency) {
  // Intl formats decimal texts without rounding them to a float.
  const exact = /** @type {any} */ (value);
  const plain = { minimumFractionDigits: 2, maximumFractionDigits: 6 };
  /** @type {Intl.NumberFormatOptions} */
  const options = currency ? { style: "currency", currency } : plain;
  return numberFormat(options).format(exact);
}

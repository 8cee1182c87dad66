// Goals on the dashboard: conversions, rate and value of each saved goal. Choosing one adds its figures to every list.

import { h, refill } from "../shared/dom.js";
import { number, numberFormat, percent } from "../shared/formats.js";
import { splitKey } from "../shared/filter_words.js";
import { texts } from "../shared/messages.js";
import { withGoal } from "../shared/view_state.js";
import { addTooltip } from "../shared/tooltip.js";
import { beforeNode, comparedUntil, requestCompared, rowChangeNode } from "./key_figures.js";

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
    request: (signal) => requestCompared(board, (compared) => board.request("goals/report", compared, signal)),
    draw: ({ data, meta }) => {
      element.hidden = !data.length;
      refill(
        body,
        h("div", { class: "card-head" }, h("h2", { class: "card-title" }, shared("goals"))),
        aboutPages(board),
        h(
          "ul",
          { class: "goals" },
          data.map((/** @type {GoalRow} */ row) => h("li", null, goalButton(row, meta, board))),
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
 * Returns what the card counts where a filter selects pages, with a button for the visits that began on them; else null.
 *
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function aboutPages(board) {
  const view = board.view();
  const isOfPage = (/** @type {Filter} */ [key]) => splitKey(key).field === "pathname";
  const pages = view.filters.filter(isOfPage);
  if (!pages.length) return null;
  const isOne = pages.length === 1 && !splitKey(pages[0][0]).sign;
  const filters = view.filters.map((one) =>
    isOfPage(one) ? /** @type {Filter} */ ([`entry_page${splitKey(one[0]).sign}`, one[1]]) : one,
  );
  return h(
    "p",
    { class: "soft small-text row goals-about" },
    isOne ? t("goals_on_page") : t("goals_on_pages"),
    h(
      "button",
      {
        class: "link-button",
        type: "button",
        dataset: { key: "began-here" },
        onclick: () => board.go({ ...view, filters }),
      },
      isOne ? t("visits_that_began_here") : t("visits_that_began_there"),
    ),
  );
}

/**
 * @param {GoalRow} row
 * @param {{ visitors: number, previous_visitors?: number, previous_to?: string }} meta
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function goalButton(row, meta, board) {
  const span = comparedUntil(board.span(), meta.previous_to);
  const { previous } = row;
  const rate = { name: "conversion_rate", up: 1, format: percent };
  const isChosen = () => board.view().goal === row.id;
  const button = h(
    "button",
    {
      class: "goal",
      type: "button",
      "aria-pressed": String(isChosen()),
      dataset: { goal: row.id, key: `goal-${row.id}` },
      onclick: () => board.go(withGoal(board.view(), isChosen() ? "" : row.id)),
    },
    h("span", { class: "goal-name" }, h("bdi", null, row.name)),
    h(
      "span",
      { class: "goal-figure" },
      h("strong", { class: "goal-count" }, number(row.conversions)),
      rowChangeNode({ name: "conversions", up: 1, inSeries: true }, row, previous, span),
    ),
    h(
      "span",
      { class: "goal-figure soft" },
      row.conversion_rate === null ? t("no_visitors") : t("rate_converted", { rate: percent(row.conversion_rate) }),
      rowChangeNode(rate, row, previous, span, [meta.visitors, meta.previous_visitors || 0]),
    ),
    row.value === null ? null : h("span", { class: "goal-value" }, money(row.value, row.currency)),
    row.without_value
      ? h("span", { class: "soft small-text" }, t("without_value", { count: row.without_value }))
      : null,
  );
  addTooltip(button, () => [
    h("strong", null, rateWords(row)),
    previous ? beforeNode(rateWords(previous), span) : null,
    h("p", { class: "soft" }, t("choose_goal")),
  ]);
  return button;
}

/**
 * @param {{ conversions: number, conversion_rate: number | null }} figures
 */
function rateWords({ conversions, conversion_rate: rate }) {
  const count = shared("count_conversions", { count: conversions });
  return rate === null ? count : `${count} · ${t("rate_converted", { rate: percent(rate) })}`;
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

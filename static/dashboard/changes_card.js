// The card with what changed: a sentence for each value that moved most beyond chance between the two ranges that are
// compared, with links that filter by it and by what explains it. Loaded with the first comparison.

import { h, refill } from "../shared/dom.js";
import { fieldName, textNode, valueText } from "../shared/fields.js";
import { dayRange, number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { here } from "../shared/paths.js";
import { loadRegions } from "../shared/regions.js";
import { comparisonOf, goalOf, withKey, writeView } from "../shared/view_state.js";
import { DASHBOARD_STATE } from "./dashboard_view.js";
import { beforeWords, changeNode, changeOf, comparedUntil } from "./key_figures.js";

const t = await texts("changes");

/**
 * Draws the card into `element`; returns load(options). The card is hidden where events of the other range have expired.
 *
 * @param {HTMLElement} element
 * @param {import("./dashboard.js").DashboardBoard} board
 */
export function changesCard(element, board) {
  const body = h("div", { class: "changes-body" });
  const about = h("p", { class: "soft small-text changes-about" });
  element.setAttribute("aria-label", t("what_changed"));
  element.append(h("div", { class: "card-head" }, h("h2", { class: "card-title" }, t("what_changed"))), body, about);
  return board.panel(body, {
    what: () => t("failed"),
    request: async (signal) => {
      const more = { ...comparisonOf(board.view(), board.span()), ...goalOf(board.view()) };
      const answer = await board.request("changes", more, signal);
      element.hidden = answer.error?.code === "beyond_retention";
      if (answer.ok && rowsOf(answer.data).some(({ field }) => field === "region")) await loadRegions();
      return answer;
    },
    draw: ({ data, meta }) => {
      const span = comparedUntil(board.span(), meta.previous_to);
      const days = { days: dayRange(span.from, span.to), before: beforeWords(span) };
      about.textContent = meta.goal ? t("converted_visitors", { goal: meta.goal.name, ...days }) : t("visitors", days);
      const none = meta.tested ? t("nothing", { count: meta.tested }) : t("none_tested");
      refill(
        body,
        data.length
          ? h(
              "ul",
              { class: "changes" },
              data.map((/** @type {ChangedValue} */ row) => h("li", null, sentence(row, meta.metric, board, span))),
            )
          : h("p", { class: "soft" }, none),
      );
    },
  });
}

/**
 * @param {ChangedValue[]} data
 */
function rowsOf(data) {
  return data.flatMap((row) => (row.explained_by ? [row, row.explained_by] : [row]));
}

/**
 * Returns the nodes of a sentence: "Channel Paid search: 148 to 117, most of it from Germany ↓ 20.9%"
 *
 * @param {ChangedValue} row
 * @param {string} metric
 * @param {import("./dashboard.js").DashboardBoard} board
 * @param {Span} span
 */
function sentence(row, metric, board, span) {
  const [before, now] = [row.previous[metric], row[/** @type {"visitors"} */ (metric)]];
  const cause = row.explained_by;
  const values = {
    value: link([row], board),
    before: h("strong", null, number(before)),
    now: h("strong", null, number(now)),
    ...(cause ? { cause: link([cause, row], board) } : null),
  };
  return [
    h("span", { class: "soft small-text" }, fieldName(row.field)),
    h(
      "span",
      null,
      !cause
        ? t.rich("moved", values)
        : cause.field === "entry_page"
          ? t.rich("moved_by_entry", values)
          : t.rich("moved_by", values),
      " ",
      changeNode({ up: 1 }, changeOf(now, before), span),
    ),
  ];
}

/**
 * Returns a link that filters by values; it is named by the first one.
 *
 * @param {{ field: string, value: string }[]} values
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function link(values, board) {
  const view = values.reduce((left, { field, value }) => withKey(left, field, [value]), board.view());
  const filters = values.map(({ field, value }) =>
    t("filter", { field: fieldName(field), value: valueText(field, value) }),
  );
  const [{ field, value }] = values;
  return h(
    "a",
    { href: `${here()}?${writeView(view, DASHBOARD_STATE)}`, title: filters.join(", ") },
    h("bdi", null, textNode(field, value)),
  );
}

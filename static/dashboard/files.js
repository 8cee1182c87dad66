// The CSV files of the dashboard: of the chart, of each card, and of each of their lists. Loaded at their first use.

import { texts } from "../shared/messages.js";
import { comparisonOf, goalOf, reportQuery } from "../shared/view_state.js";
import { MAX_FILE_ROWS, eventsPath } from "../live/recent_events.js";
import { CARDS } from "./list_cards.js";
import { MAX_ROWS, listOf, listQuery } from "./top_lists.js";
import { daysOf } from "./week_card.js";

const t = await texts("exports");

/**
 * Returns the files. `isCompared`: whether the figures are; the files are as the cards.
 *
 * @param {import("./dashboard.js").DashboardBoard} board
 * @param {boolean} isCompared
 * @param {boolean} hasGoals
 * @returns {CsvFile[]}
 */
export function files(board, isCompared, hasGoals) {
  const [view, span] = [board.view(), board.span()];
  const compared = isCompared ? comparisonOf(view, span) : {};
  const path = (
    /** @type {string} */ report,
    /** @type {Record<string, any>} */ more,
    /** @type {Days} */ days = span,
  ) => `${board.base}/${report}?${reportQuery(view, days, { ...more, format: "csv" })}`;
  const goal = goalOf(view);
  /** @type {[isShown: boolean, ...CsvFile][]} */
  const cards = [
    [true, t("csv_of_chart"), path("timeseries", { interval: span.interval, ...compared, ...goal }), "series.csv"],
    [hasGoals, t("csv_of_goals"), path("goals/report", compared), "goals.csv"],
    [isCompared, t("csv_of_changes"), path("changes", { ...compared, ...goal }), "changes.csv"],
    [span.days >= 7, t("csv_of_hours"), path("timeseries", { interval: "hour", ...goal }, daysOf(span)), "hours.csv"],
    [
      !board.site.website && !board.site.hidesEvents,
      t("csv_of_events", { count: MAX_FILE_ROWS }),
      eventsPath(board, { limit: MAX_FILE_ROWS, format: "csv" }),
      "events.csv",
    ],
  ];
  const lists = CARDS.flatMap(({ fields }) => fields).map((name) => {
    const list = listOf(name, board);
    const query = listQuery(board, list, { limit: MAX_ROWS, compared, format: "csv" });
    return /** @type {CsvFile} */ ([
      t("csv_of", { list: list.title }),
      `${board.base}/${list.path}?${query}`,
      `${name}.csv`,
    ]);
  });
  const shown = cards.filter(([isShown]) => isShown).map(([, ...file]) => file);
  return [...shown, ...lists];
}

// The CSV files of the page of events. Loaded at their first use.

import { texts } from "../shared/messages.js";
import { reportQuery } from "../shared/view_state.js";
import { MAX_ROWS } from "./event_names.js";
import { dataPath } from "./event_properties.js";
import { ofEvent } from "./selected_event.js";

const t = await texts("exports");

/**
 * Returns the files: of all names, and of the chosen event its chart, its data and each property that is shown.
 *
 * @param {Board} board
 * @param {string} event
 * @param {EventProperty[]} properties
 * @returns {CsvFile[]}
 */
export function filesOf(board, event, properties) {
  const [view, span] = [board.view(), board.span()];
  const all = { limit: MAX_ROWS, format: "csv" };
  const series = { interval: span.interval, format: "csv" };
  return [
    [t("csv_of_names"), `${board.base}/event-names?${reportQuery(view, span, all)}`, "event-names.csv"],
    [t("csv_of_chart"), `${board.base}/timeseries?${reportQuery(ofEvent(board, event), span, series)}`, "series.csv"],
    .../** @type {CsvFile[]} */ (
      properties.length ? [[t("csv_of_data"), dataPath(board, event, all), "event-data.csv"]] : []
    ),
    ...properties.map(
      ({ property }) =>
        /** @type {CsvFile} */ ([
          t("csv_of", { list: property }),
          dataPath(board, event, { ...all, property }),
          `${property}.csv`,
        ]),
    ),
  ];
}

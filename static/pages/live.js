// The page Live (/websites/{id}/live): visitors now, the last minutes, and the events as they arrive.
//
// Filters apply to all of it, the range to the list of events. The address has which types of events are listed.

import { eventsPath, MAX_FILE_ROWS } from "../live/recent_events.js";
import { liveView } from "../live/live_view.js";
import { texts } from "../shared/messages.js";
import { websitePage } from "../shared/website_page.js";

const t = await texts("live");
const exported = await texts("exports");
const shared = await texts("shared");

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_live"),
  state: {
    read: (/** @type {URLSearchParams} */ query) => ({ recent: query.get("recent") === "all" ? "all" : "" }),
    write: ({ recent }) => (recent ? [["recent", recent]] : []),
  },
  foot: t("foot"),
  build,
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export const show = (root, context) => websitePage(root, context, PAGE);

/**
 * @param {Board} board
 * @returns {PageBody}
 */
function build(board) {
  const view = liveView(board);
  return {
    element: view.element,
    // The view loads itself.
    load: ({ last }) => (last ? view.load({ quietly: false }) : null),
    files: () => [
      [
        exported("csv_of_events", { count: MAX_FILE_ROWS }),
        eventsPath(board, { limit: MAX_FILE_ROWS, format: "csv" }),
        "events.csv",
      ],
    ],
  };
}

// The link to the page of rejected events, with the number of rejected events in the range. Only on the owner's dashboard.

import { reportQuery, withoutFilters, writeView } from "../shared/view_state.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { texts } from "../shared/messages.js";
import { at } from "../shared/paths.js";

const t = await texts("dashboard");
const shared = await texts("shared");

/**
 * Returns { element, redraw(), load(), end() }. `path`: of the page of rejected events.
 *
 * @param {Board} board
 * @param {string} path
 */
export function rejectedLink(board, path) {
  const element = h("a", { class: "rejected-link no-print" }, shared("nav_rejected"));
  /** @type {AbortController | null} */
  let pending = null;

  function redraw() {
    const query = writeView({ ...withoutFilters(board.view()), interval: null });
    element.href = at(`${path}?${query}`);
  }

  /** Where the request fails, the link has no number. */
  async function load() {
    pending?.abort();
    const mine = (pending = new AbortController());
    const query = reportQuery(withoutFilters(board.view()), board.span());
    const answer = await get(`${board.base}/rejected?${query}`, { signal: mine.signal });
    if (mine !== pending) return;
    const events = answer.ok ? answer.data.events : null;
    fill(
      element,
      events === null
        ? shared("nav_rejected")
        : events
          ? t("count_rejected_events", { count: events })
          : t("no_rejected_events"),
    );
  }
  return { element, redraw, load, end: () => pending?.abort() };
}

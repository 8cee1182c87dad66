// The link to the page of rejected events, with the number of rejected events in the range. Only on the owner's dashboard.

import { reportQuery, writeView } from "../shared/view_state.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { plural } from "../shared/formats.js";
import { at } from "../shared/paths.js";

/**
 * Returns { element, redraw(), load(), end() }. `path`: of the page of rejected events.
 *
 * @param {Board} board
 * @param {string} path
 */
export function rejectedLink(board, path) {
  const element = h("a", { class: "rejected-link no-print" }, "Rejected events");
  /** @type {AbortController | null} */
  let asking = null;

  function redraw() {
    const { range, from, to, zone } = board.view();
    const query = writeView({ range, from, to, zone, interval: null, filters: [] });
    element.href = at(`${path}?${query}`);
  }

  /** Where the request fails, the link has no number. */
  async function load() {
    asking?.abort();
    const mine = (asking = new AbortController());
    const question = reportQuery({ ...board.view(), filters: [] }, board.span());
    const answer = await get(`${board.base}/rejected?${question}`, { signal: mine.signal });
    if (mine !== asking) return;
    const events = answer.ok ? answer.data.events : null;
    fill(
      element,
      events === null ? "Rejected events" : events ? plural(events, "rejected event") : "No rejected events",
    );
  }
  return { element, redraw, load, end: () => asking?.abort() };
}

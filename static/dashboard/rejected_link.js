// How much was left out in the days of the dashboard, as the link to the page that says why. The owner's alone.

import { reportQuery, writeView } from "../shared/view_state.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { plural } from "../shared/formats.js";
import { at } from "../shared/paths.js";

/** Gives { element, redraw(), load() }. `path`: where the page is. */
export function rejectedLink(board, path) {
  const element = h("a", { class: "rejected-link no-print" }, "What was left out");
  let asking = null;

  function redraw() {
    const { range, from, to, zone } = board.view();
    const query = writeView({ range, from, to, zone, figure: "visitors", filters: [], tabs: {} });
    element.href = at(`${path}?${query}`);
  }

  /** Where it cannot be asked, the link stays without a number. */
  async function load() {
    asking?.abort();
    const mine = (asking = new AbortController());
    const question = reportQuery({ ...board.view(), filters: [] }, board.span());
    const answer = await get(`${board.base}/rejected?${question}`, { signal: mine.signal });
    if (mine !== asking) return;
    const events = answer.ok ? answer.data.events : null;
    fill(
      element,
      events === null ? "What was left out" : events ? `Left out: ${plural(events, "event")}` : "Nothing was left out",
    );
  }
  return { element, redraw, load, end: () => asking?.abort() };
}

// Visitors now: a number beside the heading and a card with their pages, refreshed every ten seconds while the tab is
// visible.

import { hasFilter } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill, visuallyHidden } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { plural, number } from "../shared/formats.js";
import { barList } from "../shared/bar_list.js";

const POLL_MS = 10_000;
const SHOWN = 10;

/**
 * Returns { badge, card, redraw(), end() }.
 *
 * @param {Board} board
 */
export function realtimePanel(board) {
  const badge = h("a", { class: "live", href: "#live", hidden: true });
  badge.addEventListener("click", (event) => {
    event.preventDefault();
    card.scrollIntoView({ block: "center" });
    card.focus({ preventScroll: true });
  });
  const body = h("div", { class: "card-body" });
  const count = h("span", { class: "soft small-text" });
  const card = h(
    "section",
    { class: "card list-card card-live", id: "live", tabindex: "-1", "aria-label": "Now" },
    h("div", { class: "card-head" }, h("h2", { class: "card-title" }, h("span", { class: "dot" }), "Now"), count),
    body,
  );
  const ending = new AbortController();
  let timer = 0;
  let latest = "";
  /** @type {Realtime | null} */
  let data = null;

  async function ask() {
    clearTimeout(timer);
    if (document.visibilityState === "visible") {
      const answer = await get(`${board.base}/realtime`, { signal: ending.signal });
      if (ending.signal.aborted || answer.error?.code === "not_logged_in") return;
      if (answer.ok) show((data = answer.data));
      else if (!latest) fill(body, failureNotice("Visitors now cannot be shown.", answer.error, ask));
    }
    clearTimeout(timer);
    timer = setTimeout(ask, POLL_MS);
  }

  /**
   * @param {Realtime} options
   */
  function show({ active_visitors: visitors, pages, window_seconds: seconds }) {
    // Redrawn only on changes.
    const now = JSON.stringify([visitors, pages, board.view().filters]);
    if (now === latest) return;
    latest = now;
    badge.hidden = false;
    fill(
      badge,
      h("span", { class: visitors ? "dot on" : "dot" }),
      h("strong", null, number(visitors)),
      " now",
      visuallyHidden(`: visitors of the last ${seconds / 60} minutes`),
    );
    card.querySelector(".dot")?.classList.toggle("on", visitors > 0);
    count.textContent = `${plural(visitors, "visitor")} in the last ${seconds / 60} minutes`;
    const rows = pages.slice(0, SHOWN).map((page) => ({
      key: page.pathname,
      value: page.pathname,
      text: page.pathname,
      label: page.pathname,
      count: page.visitors,
      share: null,
      bar: page.visitors / pages[0].visitors,
      pressed: hasFilter(board.view(), "pathname", page.pathname),
    }));
    const more =
      pages.length > SHOWN
        ? h("p", { class: "soft small-text" }, `and ${plural(pages.length - SHOWN, "other page")}`)
        : null;
    refill(
      body,
      rows.length
        ? [barList(rows, { choose: (row) => board.toggle("pathname", row.value), unit: "visitors" }), more]
        : h("p", { class: "nothing soft" }, "No visitors now. Pageviews appear here within ten seconds."),
    );
  }

  const wake = () => document.visibilityState === "visible" && ask();
  document.addEventListener("visibilitychange", wake);
  ask();
  return {
    badge,
    card,
    redraw: () => data && show(data),
    end() {
      ending.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
    },
  };
}

// Visitors now: a number beside the heading and a card with their pages while there are any, refreshed every ten seconds while the tab is
// visible.

import { hasFilter } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill, visuallyHidden } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { valueNode, valueText } from "../shared/fields.js";
import { number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { UNITS, barList } from "../shared/bar_list.js";

const t = await texts("dashboard");
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
    { class: "card list-card card-live", id: "live", tabindex: "-1", "aria-label": t("now"), hidden: true },
    h("div", { class: "card-head" }, h("h2", { class: "card-title" }, h("span", { class: "dot" }), t("now")), count),
    body,
  );
  const ending = new AbortController();
  let timer = 0;
  let latest = "";
  /** @type {Realtime | null} */
  let data = null;

  async function poll() {
    clearTimeout(timer);
    if (document.visibilityState === "visible") {
      const answer = await get(`${board.base}/realtime`, { signal: ending.signal });
      if (ending.signal.aborted || answer.error?.code === "not_logged_in") return;
      if (answer.ok) show((data = answer.data));
      else if (!latest) {
        card.hidden = false;
        fill(body, failureNotice(t("visitors_now_failed"), answer.error, poll));
      }
    }
    clearTimeout(timer);
    timer = setTimeout(poll, POLL_MS);
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
      t.rich("visitors_now", { visitors: h("strong", null, number(visitors)) }),
      visuallyHidden(`: ${t("visitors_now_means", { minutes: seconds / 60 })}`),
    );
    card.querySelector(".dot")?.classList.toggle("on", visitors > 0);
    card.hidden = !pages.length;
    count.textContent = t("visitors_last_minutes", { count: visitors, minutes: seconds / 60 });
    const rows = pages.slice(0, SHOWN).map((page) => ({
      key: page.pathname,
      value: page.pathname,
      text: valueText("pathname", page.pathname),
      label: valueNode("pathname", page.pathname),
      count: page.visitors,
      share: null,
      bar: page.visitors / pages[0].visitors,
      pressed: hasFilter(board.view(), "pathname", page.pathname),
    }));
    const more =
      pages.length > SHOWN
        ? h("p", { class: "soft small-text" }, t("other_pages", { count: pages.length - SHOWN }))
        : null;
    refill(body, barList(rows, { choose: (row) => board.toggle("pathname", row.value), unit: UNITS.visitors }), more);
  }

  const wake = () => document.visibilityState === "visible" && poll();
  document.addEventListener("visibilitychange", wake);
  poll();
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

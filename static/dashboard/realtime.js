// Visitors now: a number beside the heading of a dashboard, which leads to the page Live, or to its place on shared
// pages.

import { fill, h, visuallyHidden } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { startPolling } from "../live/polling.js";

const t = await texts("dashboard");

/**
 * Returns the link with the number, hidden until it is known.
 *
 * @param {Board} board
 */
export function visitorsNow(board) {
  const { website } = board.site;
  const badge = h("a", { class: "live", href: website ? `/websites/${website.id}/live` : "#live", hidden: true });
  if (!website) {
    badge.addEventListener("click", (event) => {
      event.preventDefault();
      const place = document.getElementById("live");
      place?.scrollIntoView({ block: "start" });
      place?.focus({ preventScroll: true });
    });
  }
  let latest = "";
  startPolling(async () => {
    const answer = await get(`${board.base}/realtime`, { signal: board.signal });
    if (answer.ok) show(answer.data);
  }, board.signal);

  /** @param {Realtime} present */
  function show({ active_visitors: visitors, window_seconds: seconds }) {
    // Redrawn only on changes.
    if (latest === String(visitors)) return;
    latest = String(visitors);
    badge.hidden = false;
    fill(
      badge,
      h("span", { class: visitors ? "dot on" : "dot" }),
      t.rich("visitors_now", { visitors: h("strong", null, number(visitors)) }),
      visuallyHidden(`: ${t("visitors_now_means", { minutes: seconds / 60 })}`),
    );
  }
  return badge;
}

// A panel: a part of the page that fetches and draws on its own. While it loads, the old figures stay, dimmed. Where it
// fails, it shows what failed and a button to try again. A newer load cancels an older one.

import { failureNotice } from "./dialog.js";
import { fill } from "./dom.js";
import { hideTooltip } from "./tooltip.js";

const HOUR_MS = 3_600_000;

/**
 * Returns load({ quietly }), which resolves to whether the figures are shown. `request(signal)` resolves to an answer of
 * shared/api.js, `draw` draws it, `what()` returns the sentence to show on failure; `until`, a signal, ends the panel.
 * Quietly: nothing is dimmed, nothing is drawn where nothing has changed, and a failure leaves the old figures.
 *
 * @param {HTMLElement} element
 * @param {PanelOptions & { until?: AbortSignal }} options
 */
export function createPanel(element, { request, draw, what, until }) {
  /** @type {AbortController | null} */
  let pending = null;
  until?.addEventListener("abort", () => pending?.abort());
  let drawn = "";
  async function load({ quietly = false } = {}) {
    pending?.abort();
    const mine = (pending = new AbortController());
    if (!quietly) element.setAttribute("aria-busy", "true");
    const answer = await request(mine.signal);
    if (mine !== pending || answer.error?.code === "aborted") return false;
    element.removeAttribute("aria-busy");
    const { data, previous, before } = answer;
    const now = JSON.stringify([data, previous, before, Math.floor(Date.now() / HOUR_MS)]);
    if (answer.ok && !(quietly && now === drawn)) {
      drawn = now;
      hideTooltip(element);
      draw(answer);
    } else if (!answer.ok && !quietly && answer.error.code !== "not_logged_in") {
      drawn = "";
      fill(
        element,
        failureNotice(what(), answer.error, () => load()),
      );
    }
    return answer.ok;
  }
  return load;
}

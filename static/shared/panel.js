// A part of the page that asks and draws on its own: while it asks, the old figures stay, dimmed; where it fails, it
// says what failed and offers to try again; a newer question ends an older one.

import { failureNotice } from "./dialog.js";
import { fill } from "./dom.js";
import { hideTooltip } from "./tooltip.js";

const HOUR_MS = 3_600_000;

/**
 * Gives load({ quietly }): resolves to whether the figures are there. `ask(signal)` resolves to an answer of
 * shared/api.js, `draw` takes it, `what()` says what cannot be shown where it fails; `until`, a signal, ends it.
 * Quietly: nothing is dimmed, nothing is drawn where nothing has changed, and a failure leaves the old figures.
 */
export function createPanel(element, { ask, draw, what, until = null }) {
  let asking = null;
  until?.addEventListener("abort", () => asking?.abort());
  let drawn = "";
  async function load({ quietly = false } = {}) {
    asking?.abort();
    const mine = (asking = new AbortController());
    if (!quietly) element.setAttribute("aria-busy", "true");
    const answer = await ask(mine.signal);
    if (mine !== asking || answer.error?.code === "aborted") return false;
    element.removeAttribute("aria-busy");
    const { data, previous, before } = answer;
    const now = JSON.stringify([data, previous, before, Math.floor(Date.now() / HOUR_MS)]);
    if (answer.ok && !(quietly && now === drawn)) {
      drawn = now;
      hideTooltip();
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

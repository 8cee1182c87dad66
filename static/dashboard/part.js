// A part of the page that asks and draws on its own: while it asks, the old figures stay, dimmed; where it fails, it says
// what failed and offers to try again; a newer question ends an older one.

import { failureNotice } from "../shared/dialog.js";
import { fill } from "../shared/dom.js";

/**
 * Gives load(): resolves to whether it was drawn. `ask(signal)` resolves to an answer of shared/fetching.js, `draw`
 * takes it, `what()` says what cannot be shown where it fails.
 */
export function part(element, { ask, draw, what }) {
  let asking = null;
  async function load({ quietly = false } = {}) {
    asking?.abort();
    const mine = (asking = new AbortController());
    // On its own and unasked for, a refresh leaves no trace.
    if (!quietly) element.setAttribute("aria-busy", "true");
    const answer = await ask(mine.signal);
    if (mine !== asking || answer.error?.code === "aborted") return false;
    element.removeAttribute("aria-busy");
    if (answer.ok) draw(answer);
    else if (!quietly && answer.error.code !== "not_logged_in") fill(element, failureNotice(what(), answer.error, () => load()));
    return answer.ok;
  }
  load.end = () => asking?.abort();
  return load;
}

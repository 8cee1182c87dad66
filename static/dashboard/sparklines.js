// A small line beside each page: its views by day, or by hour on short ranges. It asks for one page after the other,
// and only where that is cheap: ranges of up to a month, and screens with room for it.

import { AUTOMATIC_MAX_DAYS, reportQuery } from "../shared/view_state.js";
import { h, svg } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { number } from "../shared/formats.js";

const ROOM = "(min-width: 1081px)";
const [WIDTH, HEIGHT] = [64, 16];
// Who goes from range to range asks for none of them.
const AFTER_MS = 400;

/** Places for the lines, empty where there is none: the rows do not move when they come. */
export function sparkPlace() {
  return h("span", { class: "spark", "aria-hidden": "true" });
}

/** Draws the lines of rows into the places of a list; gives a function that ends it. */
export function drawSparks(list, rows, field, board) {
  const ending = new AbortController();
  const span = board.span();
  const isCheap = span.days <= AUTOMATIC_MAX_DAYS && matchMedia(ROOM).matches;
  const timer = isCheap && setTimeout(() => drawAll(list, rows, field, board, span, ending.signal), AFTER_MS);
  return () => {
    clearTimeout(timer);
    ending.abort();
  };
}

async function drawAll(list, rows, field, board, span, signal) {
  const view = board.view();
  const places = list.querySelectorAll(".spark");
  for (const [i, row] of rows.entries()) {
    // Of a field that is filtered already only this value is asked for.
    const alone = { ...view, filters: [...view.filters.filter(([name]) => name !== field), [field, row.value]] };
    const query = reportQuery(alone, span, { interval: span.days > 2 ? "day" : "hour" });
    const answer = await get(`${board.base}/timeseries?${query}`, { signal });
    if (!answer.ok || !places[i]?.isConnected) return;
    places[i].replaceChildren(line(answer.data));
  }
}

function line(rows) {
  const past = rows.filter((row) => Date.parse(row.time) <= Date.now());
  const most = Math.max(1, ...past.map((row) => row.pageviews));
  const step = WIDTH / Math.max(1, past.length - 1);
  const height = (views) => HEIGHT - 1 - (views / most) * (HEIGHT - 2);
  const points = past.map((row, i) => `${(i * step).toFixed(1)},${height(row.pageviews).toFixed(1)}`).join(" ");
  const words = svg("title", null, `At most ${number(most)} views`);
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return svg("svg", size, words, svg("polyline", { points }));
}

// Recent events, newest first, in pages that do not shift while new events arrive.

import { reportQuery } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { TYPES } from "../shared/fields.js";
import { countryName, dateFormat, flag } from "../shared/formats.js";
import { createPanel } from "../shared/panel.js";

const PAGE_ROWS = 12;
const MAX_ROWS = 1000;

/**
 * Returns the card: { element, load(options) }.
 *
 * @param {Board} board
 */
export function recentEvents(board) {
  const body = h("div", { class: "card-body" });
  const tbody = h("tbody");
  const foot = h("div", { class: "card-foot no-print" });
  const element = h(
    "section",
    { class: "card card-events", "aria-label": "Recent events" },
    h("div", { class: "card-head" }, h("h2", { class: "card-title" }, "Recent events")),
    body,
    foot,
  );
  const path = (/** @type {Record<string, any>} */ params) =>
    `${board.base}/events?${reportQuery(board.view(), board.span(), params)}`;

  const load = createPanel(body, {
    what: () => "Recent events cannot be shown.",
    ask: (signal) => get(path({ limit: PAGE_ROWS }), { signal }),
    draw: (answer) => {
      fill(tbody);
      fill(body, answer.data.length ? table(tbody) : h("p", { class: "nothing soft" }, "No events in this range."));
      more(answer);
    },
  });

  /**
   * @param {{ data: any, meta: any }} options
   */
  function more({ data, meta }) {
    tbody.append(...data.map((/** @type {EventRow} */ event) => row(event, board)));
    const older = meta.next_cursor
      ? h("button", { class: "button small", type: "button", dataset: { key: "older" } }, "Older events")
      : null;
    older?.addEventListener("click", async () => {
      older.disabled = true;
      const answer = await get(path({ limit: PAGE_ROWS, cursor: meta.next_cursor }));
      if (!older.isConnected) return;
      if (answer.ok) more(answer);
      else {
        fill(
          foot,
          failureNotice("Older events cannot be shown.", answer.error, () => more({ data: [], meta })),
        );
      }
    });
    const csv = h(
      "a",
      {
        class: "csv",
        href: path({ limit: MAX_ROWS, format: "csv" }),
        download: "events.csv",
        title: "The newest 1,000",
        "aria-label": "CSV of events",
      },
      "CSV",
    );
    refill(foot, older || h("span"), csv);
  }
  // A reload would remove the older events that were opened.
  const isAtStart = () => tbody.children.length <= PAGE_ROWS;
  return { element, load: (/** @type {any} */ options) => (options?.quietly && !isAtStart() ? null : load(options)) };
}

/**
 * @param {HTMLElement} tbody
 */
function table(tbody) {
  const head = [
    ["Time", ""],
    ["Event", ""],
    ["Referrer", "wide-only"],
    ["Visitor", ""],
  ];
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "table events-table" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          head.map(([words, kind]) => h("th", { scope: "col", class: kind || null }, words)),
        ),
      ),
      tbody,
    ),
  );
}

/**
 * @param {EventRow} event
 * @param {Board} board
 */
function row(event, board) {
  const when = Date.parse(event.timestamp);
  const zone = board.view().zone;
  const clock = dateFormat(zone, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(
    when,
  );
  const day = dateFormat(zone, { day: "numeric", month: "short" }).format(when);
  return h(
    "tr",
    null,
    h(
      "td",
      { class: "when-cell" },
      h("time", { datetime: event.timestamp }, h("span", null, clock), " ", h("span", { class: "soft" }, day)),
    ),
    h("td", { class: "what-cell wrap" }, what(event, board)),
    h(
      "td",
      { class: "from-cell wide-only" },
      event.referrer ? value("referrer", event.referrer, event.referrer, board) : null,
    ),
    h("td", { class: "who-cell" }, who(event)),
  );
}

/**
 * Returns the description of an event: a pageview's path, else the event's name and its path.
 *
 * @param {EventRow} event
 * @param {Board} board
 */
function what(event, board) {
  const page = event.pathname ? value("pathname", event.pathname, event.pathname, board) : null;
  if (event.type === "pageview" || event.type === "screen_view") return page;
  const data = event.event_data || event.vitals || (event.variant ? { variant: event.variant } : null);
  const name = event.goal || event.experiment;
  return [
    event.event_name
      ? value("event_name", event.event_name, event.event_name, board, "event-name")
      : h("span", { class: "event-name" }, name || TYPES[event.type]),
    name ? h("span", { class: "soft" }, ` ${TYPES[event.type]}`) : null,
    page ? [h("span", { class: "soft" }, " on "), page] : null,
    data
      ? h(
          "span",
          { class: "event-data soft" },
          Object.entries(data)
            .map(([key, given]) => `${key}: ${given}`)
            .join(", "),
        )
      : null,
  ];
}

/**
 * @param {EventRow} event
 */
function who(event) {
  const parts = [event.browser || event.platform, event.os].filter(Boolean).join(", ");
  return [
    event.country
      ? h(
          "span",
          { class: "flag", role: "img", "aria-label": countryName(event.country), title: countryName(event.country) },
          flag(event.country),
        )
      : null,
    h("span", { class: "soft wide-only" }, parts || event.device),
  ];
}

/**
 * @param {string} field
 * @param {string} given
 * @param {string} words
 * @param {Board} board
 * @param {string} [kind]
 */
function value(field, given, words, board, kind = "") {
  return h(
    "button",
    {
      class: `plain-button ${kind}`,
      type: "button",
      title: "Filter by this value",
      onclick: () => board.toggle(field, given),
    },
    h("bdi", null, words),
  );
}

// The events of a range as they arrive, newest first, in pages that do not shift while new events arrive.

import { reportQuery } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { TYPES, fieldTitle, textNode } from "../shared/fields.js";
import { CLOCK, countryName, dateFormat } from "../shared/formats.js";
import { flagMark, markOf } from "../shared/marks.js";
import { texts } from "../shared/messages.js";
import { createPanel } from "../shared/panel.js";
import { emptyList } from "../shared/website_page.js";

const t = await texts("live");
const shared = await texts("shared");
const PAGE_ROWS = 20;
/** The rows of the CSV file. */
export const MAX_FILE_ROWS = 1000;
// The types that are shown by default: no measurements and assignments.
const TRAFFIC = ["pageview", "screen_view", "event", "app_event"];

/**
 * Returns whether a filter says which types are shown.
 *
 * @param {Board} board
 */
function isByType(board) {
  return board.view().filters.some(([field]) => field === "type");
}

/**
 * Returns the path of the report.
 *
 * @param {Board} board
 * @param {Record<string, any>} params
 */
export function eventsPath(board, params) {
  const types = board.view().recent || isByType(board) ? [] : TRAFFIC;
  const query = reportQuery(board.view(), board.span(), params);
  return `${board.base}/events?${query}${types.map((type) => `&filter_type=${type}`).join("")}`;
}

/**
 * Returns the card: { element, load(options) }.
 *
 * @param {Board} board
 */
export function recentEvents(board) {
  const body = h("div", { class: "card-body" });
  const tbody = h("tbody");
  const foot = h("div", { class: "card-foot no-print" });
  const choice = h("div", { class: "no-print" });
  const element = h(
    "section",
    { class: "card card-events", "aria-label": t("events") },
    h("div", { class: "card-head" }, h("h2", { class: "card-title" }, t("events")), choice),
    body,
    foot,
  );
  const path = (/** @type {Record<string, any>} */ params) => eventsPath(board, params);
  // The id of the newest event that is listed; 0 where there is none.
  let newest = 0;

  const load = createPanel(body, {
    what: () => t("events_failed"),
    request: (signal) => get(path({ limit: PAGE_ROWS }), { signal }),
    draw: (answer) => {
      if (!answer.data.length) {
        newest = 0;
        fill(body, emptyList(shared("no_events_in_range"), board));
      } else if (!body.contains(tbody)) fill(body, table(tbody));
      // The focus stays on the value that it is on.
      refill(tbody, rowsOf(answer.data));
      newest = Math.max(0, ...answer.data.map((/** @type {EventRow} */ { id }) => id));
      drawFoot(answer);
    },
  });

  function rowsOf(/** @type {EventRow[]} */ data) {
    return data.map((event) => {
      const line = row(event, board);
      if (newest && event.id > newest) line.classList.add("arrived");
      return line;
    });
  }

  function drawFoot(/** @type {{ meta: any }} */ { meta }) {
    const older = meta.next_cursor
      ? h("button", { class: "button small", type: "button", dataset: { key: "older" } }, t("older_events"))
      : null;
    older?.addEventListener("click", async () => {
      older.disabled = true;
      const answer = await get(path({ limit: PAGE_ROWS, cursor: meta.next_cursor }));
      if (!older.isConnected) return;
      if (answer.ok) {
        tbody.append(...rowsOf(answer.data));
        drawFoot(answer);
      } else {
        fill(
          foot,
          failureNotice(t("older_events_failed"), answer.error, () => drawFoot({ meta })),
        );
      }
    });
    refill(foot, older);
  }
  // A reload would remove the older events that were opened.
  const isAtStart = () => tbody.children.length <= PAGE_ROWS;
  return {
    element,
    load(/** @type {LoadOptions} */ options = {}) {
      if (options.quietly && !isAtStart()) return null;
      // Share links have traffic alone.
      refill(choice, isByType(board) || !board.website ? null : typeChoice(board));
      return load(options);
    },
  };
}

/**
 * @param {Board} board
 */
function typeChoice(board) {
  const one = (/** @type {string} */ name, /** @type {string} */ words) =>
    h(
      "button",
      {
        class: "segment",
        type: "button",
        "aria-pressed": String(board.view().recent === name),
        dataset: { key: `recent-${name}` },
        onclick: () => board.go({ ...board.view(), recent: name }),
      },
      words,
    );
  const choices = [one("", t("traffic")), one("all", t("all_types"))];
  return h("div", { class: "segments small", role: "group", "aria-label": fieldTitle("type") }, choices);
}

/**
 * @param {HTMLElement} tbody
 */
function table(tbody) {
  const head = [
    [t("time"), ""],
    [t("event"), ""],
    [t("referrer"), "wide-only"],
    [t("visitor"), ""],
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
  const clock = dateFormat(zone, { ...CLOCK, second: "2-digit" }).format(when);
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
      event.referrer ? [markOf("referrer", event.referrer), value(event.id, "referrer", event.referrer, board)] : null,
    ),
    h("td", { class: "visitor-cell" }, visitorOf(event)),
  );
}

/**
 * Returns the description of an event: a pageview's path, else the event's name and its path.
 *
 * @param {EventRow} event
 * @param {Board} board
 */
function what(event, board) {
  const page = event.pathname ? value(event.id, "pathname", event.pathname, board) : null;
  if (event.type === "pageview" || event.type === "screen_view") return page;
  const data = event.event_data || event.vitals || (event.variant ? { variant: event.variant } : null);
  const name = event.goal || event.experiment;
  return [
    event.event_name
      ? value(event.id, "event_name", event.event_name, board, "event-name")
      : h("span", { class: "event-name" }, name || TYPES[event.type]),
    name ? h("span", { class: "soft" }, ` ${TYPES[event.type]}`) : null,
    page ? [" ", onPage(page)] : null,
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
 * @param {HTMLElement} page
 */
function onPage(page) {
  return t.rich("on_page", { page }).map((piece) => (piece === page ? page : h("span", { class: "soft" }, piece)));
}

/**
 * @param {EventRow} event
 */
function visitorOf(event) {
  const parts = [event.browser || event.platform, event.os].filter(Boolean).join(", ");
  return [
    event.country
      ? h(
          "span",
          { role: "img", "aria-label": countryName(event.country), title: countryName(event.country) },
          flagMark(event.country),
        )
      : null,
    h("span", { class: "soft wide-only" }, parts || event.device),
  ];
}

/**
 * @param {number} id  of the event
 * @param {string} field
 * @param {string} given
 * @param {Board} board
 * @param {string} [kind]
 */
function value(id, field, given, board, kind = "") {
  return h(
    "button",
    {
      class: `plain-button ${kind}`,
      type: "button",
      title: t("filter_by_value"),
      dataset: { key: `${id} ${field}` },
      onclick: () => board.toggle(field, given),
    },
    h("bdi", null, textNode(field, given)),
  );
}

// The deletion of events by filter in the settings of a website: days and filters, which the address may name, a preview,
// the deletion with the number of events repeated, progress, stop.

import { confirmDialog, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { PROPERTY_FILTERS, filterParameter, filterText, readFilter, valuesByKey } from "../shared/filter_words.js";
import { filtersField } from "../shared/filters_field.js";
import { dateTime, displayZone, number, wholePercent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { readView, spanOf } from "../shared/view_state.js";
import { sectionCard } from "./card.js";

const t = await texts("deletions");
const shared = await texts("shared");
const POLL_MS = 1000;
const MAX_ROWS = 1000;
/** @type {Record<string, string>} */
const STATES = { running: t("running"), done: t("done"), stopped: t("stopped") };
/** @type {Record<string, string>} */
const NOT_COVERED = {
  sources: t("not_sources"),
  heatmaps: t("not_heatmaps"),
  imported_sums: t("not_imported_sums"),
  expired_days: t("not_expired_days"),
  other_values: t("not_other_values"),
};

/**
 * Returns the card; the deletions and the segments are loaded into it.
 *
 * @param {Website} website
 */
export function eventDeletionCard(website) {
  const path = `/api/account/websites/${website.id}/deletions`;
  const query = new URLSearchParams(location.search);
  const view = readView(query, displayZone(website.time_zone));
  const isNamed = query.has("from") || query.has("period") || view.filters.length > 0;
  /** @type {EventDeletionCard} */
  const card = {
    ...{ path, website },
    choice: h("div", { class: "stack" }),
    preview: h("div", { class: "stack", "aria-live": "polite" }),
    list: h("div"),
  };
  const span = isNamed ? spanOf(view) : { from: "", to: "" };
  const filters = view.filters.filter(([key]) => key !== "goal").map(filterParameter);
  drawChoice(card, span, filters, []);
  void loadSegments(card, span, filters);
  void load(card);
  card.element = sectionCard(
    t("title"),
    h("p", { class: "soft" }, t("lead")),
    h("div", { class: "stack" }, card.choice, card.preview, card.list),
  );
  card.element.id = "delete-events";
  return card.element;
}

/**
 * Offers the filters of saved segments, if there are any.
 *
 * @param {EventDeletionCard} card
 * @param {{ from: string, to: string }} span
 * @param {string[]} filters
 */
async function loadSegments(card, span, filters) {
  const answer = await get(`/api/account/websites/${card.website.id}/segments`);
  if (answer.ok && answer.data.length) drawChoice(card, span, filters, answer.data);
}

/**
 * @param {EventDeletionCard} card
 * @param {{ from: string, to: string }} span
 * @param {string[]} filters
 * @param {Segment[]} segments
 */
function drawChoice(card, span, filters, segments) {
  const days = [
    field({ label: t("from"), name: "from", type: "date", value: span.from, missing: t("choose_day") }),
    field({ label: t("to"), name: "to", type: "date", value: span.to, missing: t("choose_day") }),
  ];
  const chosen = filtersField({
    ...{ website: card.website, label: t("filters"), name: "filters", filters },
    hint: t("filters_hint"),
    fields: PROPERTY_FILTERS,
  });
  const take = h("select", null, [
    h("option", { value: "" }, shared("no_segment")),
    ...segments.map(({ id, name }) => h("option", { value: id }, name)),
  ]);
  take.addEventListener("change", () => {
    const segment = segments.find(({ id }) => id === take.value);
    const [from, to] = days.map((one) => String(one.value()));
    if (segment) drawChoice(card, { from, to }, segment.filters, segments);
  });
  const made = form({
    fields: [
      h("div", { class: "row" }, days[0].element, days[1].element),
      segments.length ? field({ label: shared("take_segment"), name: "segment", input: take }).element : h("span"),
      chosen,
    ],
    action: t("preview"),
    busy: t("previewing"),
    submit: async () => {
      for (const one of days) {
        if (!one.value()) return { error: { code: "", field: "", message: t("choose_day") } };
      }
      const body = { from: days[0].value(), to: days[1].value(), filters: chosen.value() };
      const answer = await send("POST", `${card.path}/preview`, body);
      if (!answer.ok) return answer;
      drawPreview(card, answer.data, body);
      return null;
    },
  });
  fill(card.choice, made.element);
}

/**
 * @param {EventDeletionCard} card
 * @param {any} found
 * @param {{ from: any, to: any, filters: any }} body
 */
function drawPreview(card, found, body) {
  const facts = [
    t("fact_events", { count: found.events }),
    t("fact_days", { count: found.days }),
    t("fact_gone", { count: found.visits_gone }),
    t("fact_changed", { count: found.visits_changed }),
    found.imported_sums_days && !found.filters.length ? t("fact_sums", { count: found.imported_sums_days }) : null,
  ];
  const samples = Object.entries(found.samples).map(([name, values]) =>
    h("li", { class: "breakable" }, filterText(name, /** @type {string[]} */ (values))),
  );
  const remaining = [
    ...found.not_covered.map((/** @type {string} */ one) => NOT_COVERED[one]),
    found.backups.length ? t("not_backups", { count: found.backups.length }) : t("not_backups_elsewhere"),
  ];
  const backups = h(
    "details",
    null,
    h("summary", null, t("backups")),
    h(
      "ul",
      { class: "mono small-text" },
      found.backups.map((/** @type {string} */ one) => h("li", { class: "breakable" }, one)),
    ),
  );
  const isEmpty = !found.events && !(found.imported_sums_days && !found.filters.length);
  fill(
    card.preview,
    h("h3", null, t("preview_title")),
    h(
      "ul",
      null,
      facts.map((one) => one && h("li", null, one)),
    ),
    samples.length ? [h("p", { class: "soft small-text" }, t("samples")), h("ul", null, samples)] : null,
    h("p", { class: "soft small-text" }, t("not_covered")),
    h(
      "ul",
      null,
      remaining.map((one) => h("li", null, one)),
    ),
    found.backups.length ? backups : null,
    isEmpty
      ? h("p", { class: "notice" }, t("nothing_matches"))
      : [download(card, found, body), confirmation(card, found)],
  );
}

/**
 * Returns the link to the events as CSV: the newest ones, as the list of events has them.
 *
 * @param {EventDeletionCard} card
 * @param {any} found
 * @param {{ from: any, to: any, filters: any }} body
 */
function download(card, found, body) {
  const query = new URLSearchParams([
    ...[
      ["from", body.from],
      ["to", body.to],
      ["limit", String(MAX_ROWS)],
      ["format", "csv"],
    ],
    ...body.filters.map((/** @type {string} */ one) => {
      const at = one.indexOf("=");
      return [one.slice(0, at), one.slice(at + 1)];
    }),
  ]);
  const href = `/api/account/websites/${card.website.id}/events?${query}`;
  const words = found.events > MAX_ROWS ? t("download_newest", { count: MAX_ROWS }) : t("download");
  return h("p", null, h("a", { class: "csv", href, download: "events.csv" }, words));
}

/**
 * @param {EventDeletionCard} card
 * @param {any} found
 */
function confirmation(card, found) {
  const typed = field({
    ...{ label: t("repeat", { count: found.events }), name: "events", inputmode: "numeric", autocomplete: "off" },
    missing: t("repeat_missing", { number: number(found.events) }),
    check: (/** @type {string} */ text) =>
      text.replace(/\D/g, "") === String(found.events) ? null : t("repeat_missing", { number: number(found.events) }),
  });
  return form({
    fields: [typed],
    action: t("delete"),
    busy: t("deleting"),
    danger: true,
    submit: async () => {
      const answer = await send("POST", card.path, { preview: found.id, events: found.events });
      if (!answer.ok) return answer;
      fill(card.preview);
      draw(card, answer.data);
      return null;
    },
  }).element;
}

/**
 * Loads the deletions, and again while one runs and the card is on the page.
 *
 * @param {EventDeletionCard} card
 */
async function load(card) {
  const answer = await get(card.path);
  if (answer.ok) {
    draw(card, answer.data);
    return;
  }
  fill(
    card.list,
    failureNotice(t("failed"), answer.error, () => load(card)),
  );
}

/**
 * @param {EventDeletionCard} card
 * @param {any[]} deletions
 */
function draw(card, deletions) {
  clearTimeout(card.timer);
  const rows = deletions.map((one) => row(card, one));
  refill(card.list, rows.length ? h("ul", { class: "stack", "aria-label": t("list") }, rows) : null);
  if (!deletions.some(({ state }) => state === "running")) return;
  card.timer = setTimeout(() => {
    if (card.element?.isConnected) load(card);
  }, POLL_MS);
}

/**
 * @param {EventDeletionCard} card
 * @param {any} one
 */
function row(card, one) {
  const zone = displayZone(card.website.time_zone);
  const words = valuesByKey(one.filters.map(readFilter)).map(([key, values]) => filterText(key, values));
  const share = one.events ? Math.min(one.deleted / one.events, 1) : 1;
  const isRunning = one.state === "running";
  const stop = async () => {
    const agreed = await confirmDialog({
      title: t("stop_question"),
      words: t("stop_effect"),
      action: t("stop"),
      danger: true,
    });
    if (!agreed) return;
    const answer = await send("DELETE", `${card.path}/${one.number}`);
    if (!answer.ok) notify(answer.error.message);
    await load(card);
  };
  return h(
    "li",
    { class: "row apart" },
    h(
      "div",
      { class: "grow wrap" },
      h("strong", { class: "breakable" }, words.join(" · ") || t("all_events")),
      h("p", { class: "soft small-text" }, `${dateTime(one.from, zone)} – ${dateTime(one.to, zone)}`),
      h(
        "p",
        { class: "soft small-text" },
        [STATES[one.state], t("deleted_events", { count: one.deleted })].join(" · "),
      ),
      isRunning
        ? h(
            "p",
            { class: "row" },
            h("progress", { max: 1, value: share, "aria-label": STATES.running }),
            wholePercent(share * 100),
          )
        : null,
      isRunning ? h("p", { class: "soft small-text" }, t("in_between")) : null,
    ),
    isRunning
      ? h(
          "button",
          { class: "button small", type: "button", "data-key": `stop-${one.number}`, onclick: stop },
          t("stop"),
        )
      : null,
  );
}

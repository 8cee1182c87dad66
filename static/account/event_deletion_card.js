// The deletion of events by filter in the settings of a website: days and filters, which the address may name, a preview,
// and what event_changes.js has.

import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { PROPERTY_FILTERS, filterParameter, filterText } from "../shared/filter_words.js";
import { filtersField } from "../shared/filters_field.js";
import { displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { readView, spanOf } from "../shared/view_state.js";
import { sectionCard } from "./card.js";
import { dayFields, drawPreview, eventChangeCard, load } from "./event_changes.js";

const t = await texts("deletions");
const shared = await texts("shared");
const MAX_ROWS = 1000;

/**
 * Returns the card; the deletions and the segments are loaded into it.
 *
 * @param {Website} website
 */
export function eventDeletionCard(website) {
  const query = new URLSearchParams(location.search);
  const view = readView(query, displayZone(website.time_zone));
  const isNamed = query.has("from") || query.has("period") || view.filters.length > 0;
  const card = eventChangeCard(website, "delete", `/api/account/websites/${website.id}/deletions`);
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
 * @param {EventChangeCard} card
 * @param {{ from: string, to: string }} span
 * @param {string[]} filters
 */
async function loadSegments(card, span, filters) {
  const answer = await get(`/api/account/websites/${card.website.id}/segments`);
  if (answer.ok && answer.data.length) drawChoice(card, span, filters, answer.data);
}

/**
 * @param {EventChangeCard} card
 * @param {{ from: string, to: string }} span
 * @param {string[]} filters
 * @param {Segment[]} segments
 */
function drawChoice(card, span, filters, segments) {
  const days = dayFields(span);
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
      show(card, answer.data, body);
      return null;
    },
  });
  fill(card.choice, made.element);
}

/**
 * @param {EventChangeCard} card
 * @param {any} found
 * @param {{ from: any, to: any, filters: any }} body
 */
function show(card, found, body) {
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
  drawPreview(card, found, {
    facts,
    samples: { title: t("samples"), rows: samples },
    isEmpty: !found.events && !(found.imported_sums_days && !found.filters.length),
    before: download(card, found, body),
  });
}

/**
 * Returns the link to the events as CSV: the newest ones, as the list of events has them.
 *
 * @param {EventChangeCard} card
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

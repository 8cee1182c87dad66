// What the deletion of events and the rewriting of their paths have in common in the settings of a website: days, what a
// preview says, the number of events repeated, the list with progress and stop.

import { confirmDialog, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { filterText, readFilter, valuesByKey } from "../shared/filter_words.js";
import { dateTime, displayZone, number, wholePercent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";

const t = await texts("deletions");
const POLL_MS = 1000;
/** @type {Record<string, string>} */
const STATES = { running: t("running"), done: t("done"), stopped: t("stopped") };
/** @type {Record<string, string>} */
const NOT_COVERED = {
  sources: t("not_sources"),
  heatmaps: t("not_heatmaps"),
  crawlers: t("not_crawlers"),
  imported_sums: t("not_imported_sums"),
  expired_days: t("not_expired_days"),
  other_values: t("not_other_values"),
};
/** @type {Record<string, EventChangeWords>} */
const WORDS = {
  delete: {
    preview: t("preview_title"),
    not_covered: t("not_covered"),
    repeat: (count) => t("repeat", { count }),
    action: t("delete"),
    list: t("list"),
    failed: t("failed"),
    changed: (count) => t("deleted_events", { count }),
    stop: t("stop_question"),
    stop_effect: t("stop_effect"),
  },
  rewrite: {
    preview: t("rewrite_preview_title"),
    not_covered: t("rewrite_not_covered"),
    repeat: (count) => t("rewrite_repeat", { count }),
    action: t("rewrite"),
    list: t("rewrite_list"),
    failed: t("rewrite_failed"),
    changed: (count) => t("rewritten_events", { count }),
    stop: t("rewrite_stop_question"),
    stop_effect: t("rewrite_stop_effect"),
  },
};

/**
 * Returns an empty card of a kind; `path` begins the change.
 *
 * @param {Website} website
 * @param {"delete" | "rewrite"} kind
 * @param {string} path
 * @returns {EventChangeCard}
 */
export function eventChangeCard(website, kind, path) {
  return {
    ...{ website, kind, path },
    choice: h("div", { class: "stack" }),
    preview: h("div", { class: "stack", "aria-live": "polite" }),
    list: h("div"),
  };
}

/**
 * Returns the fields of the first and the last day.
 *
 * @param {{ from: string, to: string }} span
 */
export function dayFields(span) {
  return [
    field({ label: t("from"), name: "from", type: "date", value: span.from, missing: t("choose_day") }),
    field({ label: t("to"), name: "to", type: "date", value: span.to, missing: t("choose_day") }),
  ];
}

/**
 * @param {EventChangeCard} card
 * @param {any} found
 * @param {{ facts: (string | null)[], samples: { title: string, rows: HTMLElement[] }, isEmpty: boolean, before?: Node }} more
 */
export function drawPreview(card, found, { facts, samples, isEmpty, before }) {
  const words = WORDS[card.kind];
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
  fill(
    card.preview,
    h("h3", null, words.preview),
    h(
      "ul",
      null,
      facts.map((one) => one && h("li", null, one)),
    ),
    samples.rows.length ? [h("p", { class: "soft small-text" }, samples.title), h("ul", null, samples.rows)] : null,
    h("p", { class: "soft small-text" }, words.not_covered),
    h(
      "ul",
      null,
      remaining.map((one) => h("li", null, one)),
    ),
    found.backups.length ? backups : null,
    isEmpty ? h("p", { class: "notice" }, t("nothing_matches")) : [before || null, confirmation(card, found)],
  );
}

/**
 * @param {EventChangeCard} card
 * @param {any} found
 */
function confirmation(card, found) {
  const words = WORDS[card.kind];
  const typed = field({
    ...{ label: words.repeat(found.events), name: "events", inputmode: "numeric", autocomplete: "off" },
    missing: t("repeat_missing", { number: number(found.events) }),
    check: (/** @type {string} */ text) =>
      text.replace(/\D/g, "") === String(found.events) ? null : t("repeat_missing", { number: number(found.events) }),
  });
  return form({
    fields: [typed],
    action: words.action,
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

/** @param {EventChangeCard} card */
function listPath(card) {
  return `/api/account/websites/${card.website.id}/deletions`;
}

/**
 * Loads the deletions or the rewritings, and again while one runs and the card is on the page.
 *
 * @param {EventChangeCard} card
 */
export async function load(card) {
  const answer = await get(listPath(card));
  if (answer.ok) {
    draw(card, answer.data);
    return;
  }
  fill(
    card.list,
    failureNotice(WORDS[card.kind].failed, answer.error, () => load(card)),
  );
}

/**
 * @param {EventChangeCard} card
 * @param {any[]} changes
 */
function draw(card, changes) {
  clearTimeout(card.timer);
  const shown = changes.filter(({ kind }) => kind === card.kind);
  const rows = shown.map((one) => row(card, one));
  refill(card.list, rows.length ? h("ul", { class: "stack", "aria-label": WORDS[card.kind].list }, rows) : null);
  if (!shown.some(({ state }) => state === "running")) return;
  card.timer = setTimeout(() => {
    if (card.element?.isConnected) load(card);
  }, POLL_MS);
}

/** @param {any} one */
function title(one) {
  if (one.kind === "rewrite") return one.rule ? `${one.rule.pattern} → ${one.rule.replacement}` : t("rewritten_paths");
  const words = valuesByKey(one.filters.map(readFilter)).map(([key, values]) => filterText(key, values));
  return words.join(" · ") || t("all_events");
}

/**
 * @param {EventChangeCard} card
 * @param {any} one
 */
function row(card, one) {
  const words = WORDS[card.kind];
  const zone = displayZone(card.website.time_zone);
  const share = one.events ? Math.min(one.changed / one.events, 1) : 1;
  const isRunning = one.state === "running";
  const stop = async () => {
    const agreed = await confirmDialog({
      title: words.stop,
      words: words.stop_effect,
      action: t("stop"),
      danger: true,
    });
    if (!agreed) return;
    const answer = await send("DELETE", `${listPath(card)}/${one.number}`);
    if (!answer.ok) notify(answer.error.message);
    await load(card);
  };
  return h(
    "li",
    { class: "row apart" },
    h(
      "div",
      { class: "grow wrap" },
      h("strong", { class: "breakable" }, title(one)),
      h("p", { class: "soft small-text" }, `${dateTime(one.from, zone)} – ${dateTime(one.to, zone)}`),
      h("p", { class: "soft small-text" }, [STATES[one.state], words.changed(one.changed)].join(" · ")),
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

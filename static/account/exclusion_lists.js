// The lists of a website's exclusions: a table of entries each, and a dialog that adds some.

import { notify, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { valueText } from "../shared/fields.js";
import { fixedValues } from "../shared/fixed_values.js";
import { field, form, linesField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { readableHost, readablePath } from "../shared/readable.js";
import { actionTable } from "./card.js";
import { filtersOf } from "./exclusion_filters.js";
import { runOnce } from "./run_once.js";

const t = await texts("account");
const shared = await texts("shared");
const MAX_NOTE = 50;
// Typing goes on for as long before the server is asked.
const PAUSE_MS = 400;
const asIs = (/** @type {string} */ text) => text;

/** @type {Record<ExclusionKind, { title: string, hint: string, shown: (value: string) => string, separator?: string }>} */
const LISTS = {
  addresses: {
    title: t("excluded_addresses"),
    hint: t("excluded_addresses_hint", { examples: "203.0.113.7, 203.0.113.0/24, 2001:db8::/48" }),
    shown: asIs,
  },
  countries: { title: t("excluded_countries"), hint: "", shown: (code) => valueText("country", code) },
  pages: {
    title: t("excluded_pages"),
    hint: t("excluded_pages_hint", { examples: "/admin/*, *.pdf" }),
    shown: readablePath,
    separator: "\n",
  },
  hostnames: {
    title: t("counted_hosts"),
    hint: t("counted_hosts_hint", { examples: "www.example.com, *.example.com" }),
    shown: readableHost,
  },
  referrers: {
    title: t("excluded_referrers"),
    hint: t("referrers_hint", { examples: "spam.example" }),
    shown: readableHost,
  },
  not_spam: {
    title: t("referrers_to_count"),
    hint: t("referrers_hint", { examples: "spam.example" }),
    shown: readableHost,
  },
};

/**
 * Returns the lists. `path`: of the exclusions; `hasPeople`: whether others may have added entries.
 *
 * @param {{ website: Website, path: string, data: Exclusions, hasPeople: boolean }} options
 */
export function exclusionLists({ website, path, data, hasPeople }) {
  const kinds = /** @type {ExclusionKind[]} */ (Object.keys(LISTS));
  return kinds.map((kind) => {
    const body = h("div", { class: "stack" });
    /** @type {ExclusionList} */
    const list = { website, kind, path, body, entries: data[kind], address: data.your_address, hasPeople, data };
    draw(list);
    return h("section", { "aria-label": titleOf(list) }, body);
  });
}

/**
 * @param {ExclusionList} list
 */
function titleOf({ kind, data }) {
  return kind === "countries" && data.only_countries ? t("counted_countries") : LISTS[kind].title;
}

/**
 * @param {ExclusionList} list
 */
function draw(list) {
  const { kind, entries, address } = list;
  const add = h("button", { class: "button small", type: "button" }, t("add_entry"));
  add.setAttribute("aria-label", t("add_to_list", { list: titleOf(list) }));
  add.addEventListener("click", () => addDialog(list));
  const own = h("button", { class: "button small", type: "button" }, t("add_own_address", { address }));
  own.addEventListener("click", () => runOnce(own, () => save(list, [...entries, address])));
  const isKnown = entries.some(({ value }) => value === address);
  const rows = entries.map((entry) => row(list, entry));
  fill(
    list.body,
    h("h3", null, titleOf(list)),
    rows.length ? actionTable([t("entry"), t("note")], rows) : h("p", { class: "soft" }, t("no_entries")),
    h("div", { class: "row" }, add, kind === "addresses" && !isKnown ? own : null),
  );
}

/**
 * @param {ExclusionList} list
 * @param {ExclusionEntry} entry
 */
function row(list, entry) {
  const value = LISTS[list.kind].shown(entry.value);
  const remove = h(
    "button",
    { class: "button small", type: "button", "aria-label": t("remove_entry", { entry: value }) },
    t("remove"),
  );
  const rest = list.entries.filter((other) => other !== entry);
  remove.addEventListener("click", () => runOnce(remove, () => save(list, rest)));
  const by = list.hasPeople && entry.added_by ? t("added_by", { person: entry.added_by }) : null;
  return h(
    "tr",
    null,
    h("th", { scope: "row", class: "key-name" }, value),
    h("td", { dataset: { head: t("note") } }, entry.note, by ? h("div", { class: "soft" }, by) : null),
    h("td", { class: "num" }, remove),
  );
}

/**
 * Replaces the entries of a list; returns the answer where it failed.
 *
 * @param {ExclusionList} list
 * @param {(ExclusionEntry | string)[]} entries
 */
async function save(list, entries) {
  const answer = await send("PATCH", list.path, { [list.kind]: entries });
  if (!answer.ok) {
    notify(answer.error.message);
    return answer;
  }
  list.entries = answer.data[list.kind];
  draw(list);
  list.body.querySelector("button")?.focus();
  notify(t("exclusions_saved"));
  return null;
}

/**
 * @param {ExclusionList} list
 */
function addDialog(list) {
  const { kind } = list;
  const label = titleOf(list);
  const { hint, separator } = LISTS[kind];
  const values =
    kind === "countries"
      ? countryField(list)
      : linesField({ label, name: kind, lines: [], separator, hint, missing: t("entry_missing") });
  const note = field({ label: t("note"), name: "note", maxlength: MAX_NOTE, hint: t("note_hint") });
  const matches = h("p", { class: "soft", role: "status" });
  countMatches(list, values, matches);
  const made = form({
    fields: [values, note, matches],
    action: t("add_entry"),
    busy: shared("saving"),
    submit: async () => {
      const added = values.value().map((/** @type {string} */ value) => ({ value, note: note.value() }));
      // The entry that is there keeps its note.
      const answer = await send("PATCH", list.path, { [kind]: [...added, ...list.entries] });
      if (!answer.ok) return answer;
      list.entries = answer.data[kind];
      dialog.close();
      draw(list);
      list.body.querySelector("button")?.focus();
      notify(t("exclusions_saved"));
      return null;
    },
  });
  const dialog = openDialog({ title: t("add_to_list", { list: label }), body: made.element });
  made.focus();
}

/**
 * @param {ExclusionList} list
 */
function countryField({ entries }) {
  const known = entries.map(({ value }) => value);
  const codes = (fixedValues("country") || []).filter((code) => !known.includes(code));
  const named = codes.map((code) => ({ code, words: valueText("country", code) }));
  named.sort((one, other) => one.words.localeCompare(other.words));
  const options = named.map(({ code, words }) => h("option", { value: code }, words));
  const input = h("select", { autocomplete: "off" }, h("option", { value: "" }, t("no_country_chosen")), options);
  const made = field({ label: t("choose_country"), name: "countries", input, missing: t("entry_missing") });
  return { ...made, value: () => [input.value].filter(Boolean) };
}

/**
 * Shows how many of the last events match, while one entry is typed whose field is stored.
 *
 * @param {ExclusionList} list
 * @param {any} values
 * @param {HTMLElement} place
 */
function countMatches(list, values, place) {
  let timer = 0;
  let asked = 0;
  values.input.addEventListener("input", () => {
    clearTimeout(timer);
    const mine = ++asked;
    place.textContent = "";
    const typed = values.value();
    const found = typed.length === 1 ? filtersOf(list.kind, typed[0].trim()) : null;
    if (!found) return;
    timer = window.setTimeout(async () => {
      const base = `/api/account/websites/${list.website.id}/stats?period=7d`;
      const answers = await Promise.all(found.queries.map((query) => get(`${base}${query}`)));
      if (mine !== asked || answers.some((answer) => !answer.ok)) return;
      const count = answers.reduce((sum, { data }) => sum + data.pageviews + data.events, 0);
      place.textContent = found.isExact ? t("entry_matches", { count }) : t("entry_matches_most", { count });
    }, PAUSE_MS);
  });
}

// The search over everything (Ctrl K, ⌘ K), loaded at its first use: pages, websites, ranges, filters, segments, goals and
// settings. On a page that can be filtered, the words that are typed are looked up among the values of all its fields:
// "germany mobile google" is three filters, which are shown as such before they are applied.

import { SETTINGS, sectionsFor, settingsPath } from "../account/settings_sections.js";
import { openDialog } from "./dialog.js";
import { fill, h, loadStylesheet, visuallyHidden } from "./dom.js";
import { get } from "./api.js";
import { fieldName, valueText } from "./fields.js";
import { capital, filterText, valuesByKey } from "./filter_words.js";
import { filterDialog } from "./filters.js";
import { fixedValues } from "./fixed_values.js";
import { texts } from "./messages.js";
import { pagesOf } from "./navigation.js";
import { accountPages } from "./account_pages.js";
import { isAdmin, roleFor } from "./roles.js";
import { loadRegions } from "./regions.js";
import { takesSaved } from "./saved_filters.js";
import { matching, understood } from "./suggestions.js";
import { PERIODS, hasFilter, reportQuery, withGoal, withPeriod, withoutFilters, writeView } from "./view_state.js";

await loadStylesheet("/assets/shared/palette.css");
const t = await texts("palette");
const shared = await texts("shared");

const SHOWN = 6;
// Values of each field that words can mean.
const VALUES = 300;
// Fields without a list of values.
const NO_LIST = ["type", "goal", "prop."];

/**
 * A line of the search: its group, its text, what it is found by beside, what is shown in place of the text, and what it
 * does.
 *
 * @typedef {{ group: string, text: string, value: string, label?: Child, act: () => void }} Entry
 */

/**
 * Opens the search. `board`: that of the page, where it has one; `visit` opens a page with the range of the present one.
 *
 * @param {{ session: Session, id: string | null, board: Board | null, visit: (path: string) => Promise<any> | void }} place
 */
export function openPalette({ session, id, board, visit }) {
  const website = session.websites.find((one) => one.id === id) || null;
  const input = h("input", {
    ...{ type: "text", class: "palette-input", role: "combobox", placeholder: t("placeholder") },
    ...{ "aria-label": t("title"), "aria-autocomplete": "list", "aria-expanded": "true" },
    ...{ "aria-controls": "palette-list", autocomplete: "off", spellcheck: "false", autocapitalize: "none" },
  });
  const list = h("div", { id: "palette-list", role: "listbox", "aria-label": t("title"), class: "palette-list" });
  const note = h("p", { class: "soft small-text", role: "status" });
  const dialog = openDialog({ title: t("title"), body: [input, list, note], wide: true });
  dialog.element.classList.add("palette");

  /** @type {Entry[]} */
  let shown = [];
  let active = 0;
  /** @type {FieldValue[]} */
  let values = [];
  /** @type {Promise<void> | null} */
  let reading = null;
  const isFilterable = board !== null && board.fields.length > 0;

  function draw() {
    const typed = input.value.trim();
    const meant = typed && board ? understood(typed, values) : [];
    const filters = board ? filtersOf(meant, board) : [];
    const entries = grouped(
      [
        ...(website ? pageEntries(website, session.account, visit) : []),
        ...(board ? entriesOf(board, visit) : []),
        ...accountEntries(session, visit),
        ...(website ? settingEntries(website, session.account, visit) : []),
      ],
      typed,
    );
    const missing = meant.filter((part) => !part.values.length).map((part) => part.words);
    // Of a text that begins the name of a page, or that values explain in part only, filters are less likely meant.
    const isLess = missing.length || entries.some(({ text }) => text.toLowerCase().startsWith(typed.toLowerCase()));
    shown = isLess ? [...entries, ...filters] : [...filters, ...entries];
    fill(list, groupNodes(shown, choose));
    const isPart = missing.length && missing.length < meant.length;
    fill(
      note,
      isPart ? t("not_understood", { words: missing.join(", ") }) : "",
      shown.length ? visuallyHidden(t("results", { count: shown.length })) : t("nothing"),
    );
    mark(0);
  }

  function mark(/** @type {number} */ place) {
    active = place;
    for (const [i, option] of [...list.querySelectorAll("[role=option]")].entries()) {
      option.setAttribute("aria-selected", String(i === active));
      if (i === active) option.scrollIntoView({ block: "nearest" });
    }
    if (shown.length) input.setAttribute("aria-activedescendant", `palette-${active}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function choose(/** @type {Entry} */ entry) {
    dialog.close();
    entry.act();
  }

  input.addEventListener("input", () => {
    if (isFilterable && input.value.trim()) reading ||= valuesOf(board).then((found) => ((values = found), draw()));
    draw();
  });
  input.addEventListener("keydown", async (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.isComposing || (!step && event.key !== "Enter")) return;
    event.preventDefault();
    if (step && shown.length) mark((active + step + shown.length) % shown.length);
    if (step) return;
    // What a quick typist means may not have been loaded.
    await reading;
    if (dialog.element.open && shown[active]) choose(shown[active]);
  });
  draw();
  input.focus();
  if (board && takesSaved(board)) void board.loadSaved().then(() => dialog.element.open && draw());
}

/**
 * Returns the values of the fields of a page in its range, whatever its filters, and those that fields can have beside.
 *
 * @param {Board} board
 * @returns {Promise<FieldValue[]>}
 */
async function valuesOf(board) {
  const fields = board.fields.filter((field) => field !== "event_name" && !NO_LIST.includes(field));
  const query = reportQuery(withoutFilters(board.view()), board.span(), { limit: VALUES });
  const [lists, names] = await Promise.all([
    get(`${board.base}/top?fields=${fields.join(",")}&${query}`),
    board.fields.includes("event_name") ? get(`${board.base}/event-names?${query}`) : null,
    fields.includes("region") ? loadRegions() : null,
  ]);
  const counted = [...(lists.ok ? lists.data : []), ...(names?.ok ? [{ field: "event_name", data: names.data }] : [])];
  return counted.flatMap(({ field, data }) => {
    const known = new Map(data.map((/** @type {TopRow} */ row) => [row.value, row.visitors]));
    for (const value of fixedValues(field) || []) if (!known.has(value)) known.set(value, 0);
    return [...known].map(([value, count]) => ({ field, value, text: valueText(field, value), count }));
  });
}

/**
 * Returns what the words mean as filters: what is most likely, then with another meaning of one of them.
 *
 * @param {{ words: string, values: FieldValue[] }[]} meant
 * @param {Board} board
 * @returns {Entry[]}
 */
function filtersOf(meant, board) {
  const parts = meant.filter(({ values }) => values.length);
  if (!parts.length) return [];
  const first = parts.map(({ values }) => values[0]);
  const others = parts.flatMap(({ values }, place) => values.slice(1).map((value) => first.with(place, value)));
  return [first, ...others].slice(0, SHOWN).map((chosen) => {
    const filters = chosen.map(({ field, value }) => /** @type {Filter} */ ([field, value]));
    const words = valuesByKey(filters).map(([key, values]) => filterText(key, values));
    return {
      ...{ group: shared("filters"), text: words.join(", "), value: "" },
      label: words.map((one) => h("span", { class: "chip palette-filter" }, h("bdi", null, one))),
      act: () => {
        const view = board.view();
        const added = filters.filter(([field, value]) => !hasFilter(view, field, value));
        void board.go({ ...view, filters: [...view.filters, ...added] });
      },
    };
  });
}

/**
 * Returns what can be done with the page of a board.
 *
 * @param {Board} board
 * @param {(path: string) => void} visit
 * @returns {Entry[]}
 */
function entriesOf(board, visit) {
  const { segments, goals } = board.saved();
  const view = board.view();
  const convert = (/** @type {string} */ goal) =>
    view.goal === undefined
      ? visit(`/websites/${board.website.id}?${writeView(view)}&goal=${goal}`)
      : void board.go(withGoal(view, goal));
  const ranges = PERIODS.map(({ name, short, long }) => ({
    ...{ group: t("ranges"), text: capital(long), value: short },
    act: () => void board.go(withPeriod(board.view(), name)),
  }));
  const fields = board.fields
    .filter((field) => !NO_LIST.includes(field))
    .map((field) => ({
      ...{ group: t("filter_by"), text: t("filter_by_field", { field: fieldName(field) }), value: field },
      act: () => void filterDialog(board, null, field),
    }));
  const own = takesSaved(board)
    ? [
        ...segments.map(({ id, name }) => ({
          ...{ group: shared("segments"), text: name, value: id },
          act: () => void board.go({ ...board.view(), segment: id }),
        })),
        ...Object.entries(goals).map(([id, name]) => ({
          ...{ group: shared("goals"), text: shared("conversions_of", { goal: name }), value: id },
          act: () => void convert(id),
        })),
      ]
    : [];
  return [...own, ...ranges, ...fields];
}

/**
 * @param {Website} website
 * @param {Account} of
 * @param {(path: string) => void} visit
 * @returns {Entry[]}
 */
function pageEntries(website, of, visit) {
  const group = shared("pages_of", { website: website.name || website.domain });
  return pagesOf(website, of).map(([path, text]) => ({ group, text, value: path, act: () => visit(path) }));
}

/**
 * @param {Session} session
 * @param {(path: string) => void} visit
 * @returns {Entry[]}
 */
function accountEntries({ account, websites }, visit) {
  const link = (/** @type {string} */ group, /** @type {string} */ path, /** @type {string} */ text, value = "") => ({
    ...{ group, text, value, act: () => visit(path) },
  });
  const all = websites.map(({ id, name, domain }) => link(t("websites"), `/websites/${id}`, name || domain, domain));
  return [
    ...all,
    link(t("websites"), "/", shared("all_websites")),
    ...(isAdmin(account) ? [link(t("websites"), "/#add", shared("add_website"))] : []),
    ...accountPages(account).map(([path, text]) => link(t("account"), path, text)),
  ];
}

/**
 * @param {Website} website
 * @param {Account} account
 * @param {(path: string) => void} visit
 * @returns {Entry[]}
 */
function settingEntries(website, account, visit) {
  return sectionsFor(roleFor(account, website)).map((section) => {
    const [text, value] = SETTINGS[section];
    return { group: shared("nav_settings"), text, value, act: () => visit(settingsPath(website, section)) };
  });
}

/**
 * Returns the entries that have all words, some of each group.
 *
 * @param {Entry[]} entries
 * @param {string} typed
 */
function grouped(entries, typed) {
  const hits = typed.split(/\s+/).reduce((rows, word) => matching(rows, word), entries);
  const groups = [...new Set(hits.map(({ group }) => group))];
  return groups.flatMap((name) => hits.filter(({ group }) => group === name).slice(0, SHOWN));
}

/**
 * @param {Entry[]} entries
 * @param {(entry: Entry) => void} choose
 */
function groupNodes(entries, choose) {
  const numbered = entries.map((entry, place) => ({ entry, place }));
  return [...new Set(entries.map(({ group }) => group))].map((name) =>
    h(
      "div",
      { role: "group", "aria-label": name },
      h("p", { class: "soft small-text palette-group", "aria-hidden": "true" }, name),
      numbered
        .filter(({ entry }) => entry.group === name)
        .map(({ entry, place }) =>
          h(
            "div",
            { id: `palette-${place}`, role: "option", class: "palette-option", onclick: () => choose(entry) },
            entry.label || h("bdi", null, entry.text),
          ),
        ),
    ),
  );
}

// The cards with top lists: tabs for the lists of a card, ten rows that filter, and a button that opens all rows in a dialog
// (all_values.js).

import { goalOf, hasFilter, isFiltered, reportQuery, withoutFilters } from "../shared/view_state.js";
import { h, refill, visuallyHidden } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldName, valueNode, valueText } from "../shared/fields.js";
import { decimal, duration, number, percent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { emptyList } from "../shared/website_page.js";
import { pageLink } from "../shared/page_link.js";
import { loadRegions } from "../shared/regions.js";
import { addTooltip } from "../shared/tooltip.js";
import { UNITS, asideFigure, barList } from "../shared/bar_list.js";
import { createPanel } from "../shared/panel.js";
import { conversionCount, withConversions } from "./conversions.js";
import {
  beforeWords,
  changeNode,
  changeOf,
  comparedUntil,
  isNotable,
  requestCompared,
  withHiddenText,
} from "./key_figures.js";
import { listNamed } from "./list_cards.js";
import { drawSparks, sparkPlace } from "./sparklines.js";

const t = await texts("dashboard");
const shared = await texts("shared");
const SHOWN = 10;
// The read API's maximum of `limit`.
export const MAX_ROWS = 1000;
const valueOrNone = (/** @type {string | null} */ sum) => sum ?? "–";
/** @typedef {[string, ((value: any) => string) | null, string, (value: any) => string]} Column */
/** @type {Column[]} */
const OF_TRAFFIC = [
  ["visitors", (/** @type {number} */ count) => shared("count_visitors", { count }), shared("figure_visitors"), number],
  [
    "pageviews",
    (/** @type {number} */ count) => shared("count_pageviews", { count }),
    shared("figure_pageviews"),
    number,
  ],
  ["events", (/** @type {number} */ count) => shared("count_events", { count }), shared("figure_events"), number],
  ["visits", (/** @type {number} */ count) => shared("count_visits", { count }), shared("figure_visits"), number],
  [
    "bounce_rate",
    (/** @type {number} */ share) => t("bounce_rate_of", { rate: percent(share) }),
    t("bounce_rate"),
    percent,
  ],
  [
    "visit_duration",
    (/** @type {number | null} */ seconds) => t("visit_duration_of", { duration: duration(seconds) }),
    t("visit_duration"),
    duration,
  ],
];
/** @type {(field: string) => Column[]} */
const ofConversions = (field) => [
  [
    "conversions",
    (/** @type {number} */ count) => shared("count_conversions", { count }),
    shared("figure_conversions"),
    number,
  ],
  [
    "conversion_rate",
    (/** @type {number | null} */ share) => rateTexts(field).hint(percent(share)),
    rateTexts(field).title,
    percent,
  ],
  [
    "conversion_value",
    (/** @type {string | null} */ sum) => (sum === null ? "" : t("value_of", { sum })),
    shared("value"),
    valueOrNone,
  ],
];
// The figures of a value in a list of a field: [name, text in a row's tooltip, table column, format in the table].
/** @type {Record<string, (field: string) => Column[]>} */
export const COLUMNS = {
  visitors: (field) => [...OF_TRAFFIC, ...ofConversions(field)],
  // With a goal.
  conversions: (field) => [...ofConversions(field), ...OF_TRAFFIC],
  visits: () => [
    ["visits", null, shared("figure_visits"), number],
    [
      "bounce_rate",
      (/** @type {number} */ share) => t("bounce_rate_of", { rate: percent(share) }),
      t("bounce_rate"),
      percent,
    ],
    [
      "views_per_visit",
      (/** @type {any} */ views) => t("pageviews_per_visit", { views: decimal(views) }),
      t("pages_per_visit"),
      decimal,
    ],
    [
      "visit_duration",
      (/** @type {number | null} */ seconds) => t("visit_duration_of", { duration: duration(seconds) }),
      t("visit_duration"),
      duration,
    ],
  ],
};
// What a row shows beside its figures.
/** @type {Record<string, (row: BarRow) => Partial<BarRow>>} */
const ASIDE = {
  pathname: ({ more }) => ({ more: [sparkPlace(), more] }),
  event_name: (/** @type {BarRow} */ row) => ({
    more: asideFigure(row.events, UNITS.events),
    share: null,
  }),
};
// The texts of a row in the lists of entry and exit pages: its visits, and the action of a click.
/** @type {Record<string, { visits: (count: number) => string, click: string }>} */
export const VISIT_EDGES = {
  entry: { visits: (count) => t("visits_began_here", { count }), click: t("click_for_entry") },
  exit: { visits: (count) => t("visits_ended_here", { count }), click: t("click_for_exit") },
};

/**
 * Returns a card of lists: { element, load(options), openAll(), has(name), end() }. `beside(name, rows)` returns what is
 * drawn next to a list, or null; `has`: whether an optional list has values.
 *
 * @param {ListCard} card
 * @param {import("./dashboard.js").DashboardBoard} board
 * @param {any} [beside]
 */
export function listCard(card, board, beside = null) {
  const body = h("div", {
    class: "card-body",
    id: `card-${card.name}`,
    role: card.fields.length > 1 ? "tabpanel" : null,
  });
  const foot = h("div", { class: "card-foot no-print" });
  const head = h("div", { class: "card-head" });
  const element = h(
    "section",
    { class: `card list-card card-${card.name}`, "aria-label": card.title },
    head,
    body,
    foot,
  );
  let endSparks = () => {};
  // Where the view names no list: the first one with values.
  let usual = card.fields[0];
  const open = () => board.view().tabs[card.name] || usual;
  const shown = () => listOf(open(), board);
  const all = () => void board.go({ ...board.view(), all: shown().name, sort: "" });
  const optional = optionalLists(card, board);
  const isShown = (/** @type {string} */ name) =>
    name === open() || !card.optional?.includes(name) || optional.has(name);

  function drawHead() {
    refill(
      head,
      card.fields.length > 1
        ? tabs(card, open(), card.fields.filter(isShown), board)
        : h("h2", { class: "card-title" }, card.title),
      columns(shown()),
    );
    if (card.fields.length > 1) body.setAttribute("aria-label", shown().title);
  }

  async function fetchShown(/** @type {AbortSignal} */ signal) {
    const list = shown();
    const limit = beside && list.name === card.fields[0] ? MAX_ROWS : SHOWN + 1;
    const answer = await requestCompared(board, (compared) => {
      const query = listQuery(board, list, { limit, compared });
      return list.path === `top/${list.field}`
        ? board.top(list.field, query, signal)
        : get(`${board.base}/${list.path}?${query}`, { signal });
    });
    if (list.field === "region") await loadRegions();
    // Shares are relative to the visitors or visits of the key figures.
    await board.figuresLoaded();
    return { ...answer, list };
  }

  const load = createPanel(body, {
    what: () => t("list_failed", { list: shown().title }),
    request: async (signal) => {
      const drawn = usual;
      [usual] = card.fields;
      let answer = await fetchShown(signal);
      if (answer.ok && !answer.data.length && !board.view().tabs[card.name]) {
        usual = await firstWithValues(card, board, signal);
        if (usual !== card.fields[0]) answer = await fetchShown(signal);
      }
      if (usual !== drawn) drawHead();
      return answer;
    },
    draw: ({ data, meta, list }) => {
      const rows = rowsOf(list, data, meta, board);
      const most = rows.slice(0, SHOWN).map((row) => ({ ...row, ...ASIDE[list.name]?.(row) }));
      const bars = most.length
        ? barList(most, { choose: (row) => board.choose(list.field, row.value), unit: UNITS[list.counts] })
        : emptyList(list.none, board);
      const aside = beside?.(list.name, data);
      const note = withoutPageview(list, meta.unset) || aboutRates(list);
      refill(body, aside ? [aside, bars] : [bars, note]);
      body.classList.toggle("beside", Boolean(aside));
      endSparks();
      endSparks = () => {};
      if (list.name === "pathname") endSparks = drawSparks(body, most, list.field, board);
      for (const [i, button] of [...body.querySelectorAll(".bar")].entries()) {
        addTooltip(button, () => rowHint(rows[i], list, comparedUntil(board.span(), meta.previous_to)));
      }
      refill(
        foot,
        data.length > 0
          ? h("button", { class: "button small", type: "button", onclick: all, dataset: { key: "all" } }, list.all)
          : null,
      );
      hasEnough = !card.mayHide || rows.length >= card.mayHide.least || isFiltered(board.view());
    },
  });
  let hasEnough = true;
  return {
    element,
    openAll: all,
    has: optional.has,
    end: () => endSparks(),
    async load(/** @type {LoadOptions} */ options = {}) {
      drawHead();
      const [isLoaded] = await Promise.all([load(options), optional.load(drawHead)]);
      const isEmpty = isLoaded && !hasEnough && !card.optional?.some(isShown) && open() === card.fields[0];
      // Names of events have no conversions; those of goals are above the lists.
      element.hidden = isEmpty || Boolean(board.view().goal && !isTop(shown()));
      return isLoaded;
    },
  };
}

/**
 * Returns the first list of dimensions of a card that has values; the first of the card where none has.
 *
 * @param {ListCard} card
 * @param {import("./dashboard.js").DashboardBoard} board
 * @param {AbortSignal} signal
 */
async function firstWithValues({ fields }, board, signal) {
  const names = fields.filter((name) => isTop(listNamed(name)));
  const query = reportQuery(board.view(), board.span(), { limit: 1, ...goalOf(board.view()) });
  const answers = await Promise.all(names.map((name) => board.top(name, query, signal)));
  return names.find((_name, i) => answers[i].ok && answers[i].data.length) || fields[0];
}

/**
 * Returns which optional lists of a card have values in the days of the view, whatever its filters: { has(name),
 * load(changed) }.
 *
 * @param {ListCard} card
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function optionalLists({ optional = [] }, board) {
  /** @type {Set<string>} */
  const found = new Set();
  let known = "";
  async function load(/** @type {() => void} */ changed) {
    const query = reportQuery(withoutFilters(board.view()), board.span(), { limit: 1 });
    if (known === query) return;
    known = query;
    const answers = await Promise.all(optional.map((name) => board.top(name, query, board.signal)));
    if (known !== query) return;
    found.clear();
    for (const [i, name] of optional.entries()) if (answers[i].ok && answers[i].data.length) found.add(name);
    changed();
  }
  return { has: (/** @type {string} */ name) => found.has(name), load };
}

/**
 * Returns a list as the view shows it: with a goal, of conversions.
 *
 * @param {string} name
 * @param {import("./dashboard.js").DashboardBoard} board
 * @returns {TopList}
 */
export function listOf(name, board) {
  const list = listNamed(name);
  if (!board.view().goal || name === "event_name") return list;
  return { ...list, path: `top/${list.field}`, counts: "conversions" };
}

/**
 * Returns the query of a list; of a top list in the order of the conversions of a goal that is chosen, and with the
 * parameters of a comparison.
 *
 * @param {import("./dashboard.js").DashboardBoard} board
 * @param {{ path: string }} list
 * @param {Record<string, any>} more
 */
export function listQuery(board, { path }, { compared = {}, ...more }) {
  const { goal } = board.view();
  const ofTop = goal && isTop({ path }) ? { goal, sort: "conversions" } : {};
  return reportQuery(board.view(), board.span(), { ...more, ...compared, ...ofTop });
}

/**
 * Returns whether a list is a top list: its report takes a goal.
 *
 * @param {{ path: string }} list
 */
export function isTop({ path }) {
  return path.startsWith("top/");
}

/**
 * @param {TopList} list
 */
function columns({ name, field, counts }) {
  const [[, , words]] = COLUMNS[counts](field);
  return h(
    "span",
    { class: "soft small-text columns" },
    name === "event_name" ? h("span", null, shared("figure_events")) : null,
    counts === "conversions" ? h("span", null, rateTexts(field).head) : null,
    h("span", null, words),
  );
}

/**
 * Returns the tabs of a card; a menu for its lists that share one.
 *
 * @param {ListCard} card
 * @param {string} open
 * @param {string[]} shown
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function tabs(card, open, shown, board) {
  const inMenu = card.menu?.fields || [];
  const inTabs = shown.filter((field) => !inMenu.includes(field));
  const reached = inTabs.includes(open) ? open : inTabs[0];
  const buttons = inTabs.map((field) =>
    h(
      "button",
      {
        class: "tab",
        type: "button",
        role: "tab",
        id: `tab-${card.name}-${field}`,
        "aria-selected": String(field === open),
        "aria-controls": `card-${card.name}`,
        tabindex: field === reached ? "0" : "-1",
        dataset: { key: `tab-${field}` },
        onclick: () => board.openTab(card.name, field),
      },
      listNamed(field).title,
    ),
  );
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": card.title }, buttons);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const to =
      buttons[
        (buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement)) + step + buttons.length) %
          buttons.length
      ];
    to.focus();
    to.click();
  });
  return h("div", { class: "card-tabs" }, list, card.menu ? tabMenu(card, card.menu, open, board) : null);
}

/**
 * @param {ListCard} card
 * @param {{ title: string, fields: string[] }} menu
 * @param {string} open
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function tabMenu({ name }, { title, fields }, open, board) {
  const isOpen = fields.includes(open);
  const select = h(
    "select",
    {
      class: isOpen ? "tab tab-menu chosen" : "tab tab-menu",
      "aria-label": title,
      "aria-controls": `card-${name}`,
      value: isOpen ? open : "",
      dataset: { key: "tab-menu" },
    },
    h("option", { value: "", hidden: true }, title),
    fields.map((field) => h("option", { value: field }, listNamed(field).title)),
  );
  select.addEventListener("change", () => board.openTab(name, select.value));
  return select;
}

/**
 * Returns rows for shared/bar_list.js. The unset value comes last.
 *
 * @param {TopList} list
 * @param {TopRow[]} data
 * @param {{ unset?: any, previous_to?: string }} meta
 * @param {import("./dashboard.js").DashboardBoard} board
 */
export function rowsOf({ name, field, path, counts }, data, { unset, previous_to: until }, board) {
  const count = isTop({ path }) ? conversionCount(board.view(), board.saved().segments, data) : null;
  const total = board.total(counts);
  const span = comparedUntil(board.span(), until);
  const most = Math.max(1, ...data.map((row) => row[counts]));
  const hasUnset = unset && unset.visitors && !data.some((row) => row.value === "");
  const changed = (/** @type {TopRow} */ row) => changeOf(row[counts], row.previous?.[counts]);
  return (hasUnset ? [...data, { value: "", ...unset }] : data).map((row) => ({
    ...withConversions(row, count),
    key: `${name}=${row.value}`,
    label: row.title
      ? [valueNode(field, row.value), h("bdi", { class: "bar-title" }, row.title)]
      : valueNode(field, row.value),
    text: valueText(field, row.value),
    count: row[counts],
    share: total ? row[counts] / total : null,
    change: changed(row),
    // A place of its own where a row has no change, so that those of all rows are below each other.
    changed: row.previous ? h("span", { class: "bar-change" }, rowChange(counts, row, changed(row), span)) : null,
    // With a goal, its rate stands in place of the share.
    ...(row.conversion_rate === undefined ? null : { more: rateNode(field, row.conversion_rate), share: null }),
    bar: row.value === "" ? 0 : row[counts] / most,
    pressed: hasFilter(board.view(), field, row.value),
    link: pageLink(field, row.value, board.site.domain),
  }));
}

/**
 * Returns a row's change in percent as text, coloured as that of a key figure; null where there is none.
 *
 * @param {string} counts
 * @param {TopRow} row
 * @param {number | null} change
 * @param {Span} span
 */
function rowChange(counts, row, change, span) {
  if (change === null || !Math.round(10 * change)) return null;
  const isColoured = isNotable({ name: counts, inSeries: true }, change, row, row.previous);
  return changeNode({ up: 1 }, change, span, isColoured);
}

/**
 * Returns the texts about conversion rates in a list: { head, rich (of a row), hint (in a tooltip), title (in a table) }.
 * A visit has many pages and one value of most other fields, and a conversion counts for the page of its own event, so
 * the texts about pages say so.
 *
 * @param {string} field
 */
function rateTexts(field) {
  return field === "pathname"
    ? {
        head: t("converted_here"),
        rich: (/** @type {Node} */ rate) => t.rich("rate_converted_here", { rate }),
        hint: (/** @type {string} */ rate) => t("conversion_rate_here_of", { rate }),
        title: t("conversion_rate_here"),
      }
    : {
        head: t("converted"),
        rich: (/** @type {Node} */ rate) => t.rich("rate_converted", { rate }),
        hint: (/** @type {string} */ rate) => t("conversion_rate_of", { rate }),
        title: t("conversion_rate"),
      };
}

/**
 * Returns what the conversion rates of pages count, where the list shows them.
 *
 * @param {TopList} list
 */
function aboutRates({ field, counts }) {
  if (counts !== "conversions" || field !== "pathname") return null;
  return h("p", { class: "soft small-text list-note" }, t("converted_here_means"));
}

/**
 * @param {string} field
 * @param {number | null} rate
 */
function rateNode(field, rate) {
  return h(
    "span",
    { class: "bar-aside" },
    withHiddenText(rateTexts(field).rich(h("span", null, percent(rate)))),
    visuallyHidden(", "),
  );
}

/**
 * Returns the number of visits without a pageview: they have no entry and exit page.
 *
 * @param {TopList} list
 * @param {any} unset
 */
function withoutPageview({ counts }, unset) {
  if (counts !== "visits" || !unset?.visits) return null;
  return h("p", { class: "soft small-text list-note" }, t("visits_without_pageviews", { count: unset.visits }));
}

/**
 * @param {BarRow} row
 * @param {any} list
 * @param {Span} span
 */
function rowHint(row, list, span) {
  const [, ...others] = COLUMNS[list.counts](list.field);
  const isOfVisits = list.counts === "visits";
  const first = isOfVisits
    ? VISIT_EDGES[list.name].visits(row.visits)
    : COLUMNS[list.counts](list.field)[0][1]?.(row[list.counts]);
  const figures = others
    .filter((/** @type {any[]} */ [what]) => row[what] !== undefined)
    .map((/** @type {any[]} */ [what, format]) => format(row[what]))
    .filter(Boolean);
  const share = percent(100 * (row.share || 0));
  return [
    h("strong", { class: "wrap" }, row.text),
    row.title ? h("p", { class: "wrap" }, row.title) : null,
    h("p", null, [first, ...figures].join(" · ")),
    row.previous
      ? h(
          "p",
          { class: "soft" },
          t("value_in_range", { value: number(row.previous[list.counts]), range: beforeWords(span) }),
        )
      : null,
    row.share === null
      ? null
      : h("p", { class: "soft" }, isOfVisits ? t("share_of_visits", { share }) : t("share_of_visitors", { share })),
    h("p", { class: "soft" }, pressWords(row, list)),
  ];
}

/**
 * @param {BarRow} row
 * @param {TopList} list
 */
function pressWords(row, { name, field }) {
  if (row.pressed) return t("click_to_remove");
  return VISIT_EDGES[name]?.click ?? t("click_to_filter", { field: fieldName(field) });
}

// The cards with top lists: tabs for the fields of a card, ten rows that filter, and all of them in a dialog.

import { hasFilter, reportQuery } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { h, refill, visuallyHidden } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldName, valueNode, valueText } from "../shared/fields.js";
import { plural, decimal, duration, number, percent } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";
import { barList, listDialog, numbersHead } from "../shared/bar_list.js";
import { createPanel } from "../shared/panel.js";
import { listNamed } from "./list_cards.js";
import { drawSparks, sparkPlace } from "./sparklines.js";

const SHOWN = 10;
// CONTRACT: limit is at most 1000.
const MAX_ROWS = 1000;
// What a list tells of each value: [what, how it is said in a row's hint, the column of a table, a figure's text].
const COLUMNS = {
  visitors: [
    ["visitors", (count) => plural(count, "visitor"), "Visitors", number],
    ["pageviews", (count) => plural(count, "view"), "Views", number],
    ["events", (count) => plural(count, "event"), "Events", number],
  ],
  visits: [
    ["visits", null, "Visits", number],
    ["bounce_rate", (share) => `${percent(share)} bounced`, "Bounced", percent],
    ["views_per_visit", (views) => `${decimal(views)} views a visit`, "Views a visit", decimal],
    ["visit_duration", (seconds) => `${duration(seconds)} a visit`, "Time a visit", duration],
  ],
};
// What stands beside a row's figures.
const ASIDE = {
  pathname: () => ({ more: sparkPlace() }),
  event_name: (row) => ({
    more: h("span", { class: "bar-aside" }, number(row.events), visuallyHidden(" events, ")),
    share: null,
  }),
};
const VISIT_EDGE_WORDS = { entry: "began here", exit: "ended here" };

/**
 * A card of lists. `board` is what the page shares: base, view(), span(), total(counts), figures(), toggle(field, value),
 * openTab(card, field). `beside(rows)` may draw something next to the first field's list. Gives { element, load(), openAll() }.
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
  const open = () => board.view().tabs[card.name] || card.fields[0];
  const shown = () => listNamed(open());
  const all = () => allDialog(shown(), board);

  const load = createPanel(body, {
    what: () => `${shown().title} cannot be shown.`,
    ask: async (signal) => {
      const list = shown();
      const limit = beside && list.name === card.fields[0] ? MAX_ROWS : SHOWN + 1;
      const answer = await get(`${board.base}/${list.path}?${reportQuery(board.view(), board.span(), { limit })}`, {
        signal,
      });
      // Shares are of the key figures' visitors, or visits.
      await board.figures();
      return { ...answer, list };
    },
    draw: ({ data, meta, list }) => {
      const rows = rowsOf(list, data, meta.unset, board);
      const most = rows.slice(0, SHOWN).map((row) => ({ ...row, ...(ASIDE[list.name]?.(row) || null) }));
      const bars = most.length
        ? barList(most, { choose: (row) => board.toggle(list.field, row.value), unit: list.counts })
        : h("p", { class: "nothing soft" }, list.none);
      const aside = beside && list.name === card.fields[0] ? beside(data, rows) : null;
      refill(body, aside ? [aside, bars] : [bars, withoutView(list, meta.unset)]);
      body.classList.toggle("beside", Boolean(aside));
      endSparks();
      if (list.name === "pathname") endSparks = drawSparks(body, most, list.field, board);
      for (const [i, button] of [...body.querySelectorAll(".bar")].entries())
        addTooltip(button, () => rowHint(rows[i], list));
      refill(foot, footOf(list, data.length > SHOWN, all, board));
    },
  });
  return {
    element,
    openAll: all,
    end: () => endSparks(),
    load(options) {
      refill(
        head,
        card.fields.length > 1 ? tabs(card, open(), board) : h("h2", { class: "card-title" }, card.title),
        columns(shown()),
      );
      if (card.fields.length > 1) body.setAttribute("aria-labelledby", `tab-${card.name}-${open()}`);
      return load(options);
    },
  };
}

function columns({ name, counts }) {
  const count = h("span", null, counts === "visits" ? "Visits" : "Visitors");
  return h(
    "span",
    { class: "soft small-text columns" },
    name === "event_name" ? h("span", null, "Events") : null,
    count,
  );
}

function tabs(card, open, board) {
  const buttons = card.fields.map((field) =>
    h(
      "button",
      {
        class: "tab",
        type: "button",
        role: "tab",
        id: `tab-${card.name}-${field}`,
        "aria-selected": String(field === open),
        "aria-controls": `card-${card.name}`,
        tabindex: field === open ? "0" : "-1",
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
    const to = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
    to.focus();
    to.click();
  });
  return list;
}

/** Rows as shared/bar_list.js takes them. What is unset comes last, as it is no value. */
function rowsOf({ name, field, counts }, data, unset, board) {
  const total = board.total(counts);
  const most = Math.max(1, ...data.map((row) => row[counts]));
  const hasUnset = unset && unset.visitors && !data.some((row) => row.value === "");
  return (hasUnset ? [...data, { value: "", ...unset }] : data).map((row) => ({
    ...row,
    key: `${name}=${row.value}`,
    label: valueNode(field, row.value),
    text: valueText(field, row.value),
    count: row[counts],
    share: total ? row[counts] / total : null,
    bar: row.value === "" ? 0 : row[counts] / most,
    pressed: hasFilter(board.view(), field, row.value),
  }));
}

/** Visits of custom events alone began and ended on no page. */
function withoutView({ counts }, unset) {
  if (counts !== "visits" || !unset?.visits) return null;
  return h("p", { class: "soft small-text without-view" }, `And ${plural(unset.visits, "visit")} without a view`);
}

function rowHint(row, list) {
  const [, ...others] = COLUMNS[list.counts];
  const first = VISIT_EDGE_WORDS[list.name]
    ? [`${plural(row.visits, "visit")} ${VISIT_EDGE_WORDS[list.name]}`]
    : [plural(row.visitors, "visitor")];
  const told = others.filter(([what]) => row[what] !== undefined).map(([what, say]) => say(row[what]));
  return [
    h("strong", { class: "wrap" }, row.text),
    h("p", null, [...first, ...told].join(" · ")),
    row.share === null
      ? null
      : h("p", { class: "soft" }, `${percent(100 * row.share)} of all ${list.counts} of this range`),
    h("p", { class: "soft" }, pressWords(row, list)),
  ];
}

function pressWords(row, { name, field }) {
  if (row.pressed) return "Press to take this filter away";
  if (VISIT_EDGE_WORDS[name]) return "Press to see all of this page, wherever in a visit it was";
  return `Press to see this ${fieldName(field)} alone`;
}

function footOf({ name, path, title, all: words }, hasMore, all, board) {
  const csv = `${board.base}/${path}?${reportQuery(board.view(), board.span(), { limit: MAX_ROWS, format: "csv" })}`;
  return [
    hasMore
      ? h("button", { class: "button small", type: "button", onclick: all, dataset: { key: "all" } }, `All ${words}`)
      : h("span"),
    h("a", { class: "csv", href: csv, download: `${name}.csv`, "aria-label": `CSV of ${title}` }, "CSV"),
  ];
}

/** All values of a list, searchable. */
export function allDialog(list, board) {
  const { field, path, title, all } = list;
  const dialog = listDialog({
    title: VISIT_EDGE_WORDS[list.name] ? all.replace(/^./, (first) => first.toUpperCase()) : title,
    load: async () => {
      const answer = await get(`${board.base}/${path}?${reportQuery(board.view(), board.span(), { limit: MAX_ROWS })}`);
      if (!answer.ok) return { error: answer.error };
      const rows = rowsOf(list, answer.data, answer.meta.unset, board);
      return { rows, note: answer.data.length === MAX_ROWS ? ": the first thousand" : "" };
    },
    matches: (row, text) => row.text.toLowerCase().includes(text) || row.value.toLowerCase().includes(text),
    draw: (rows) =>
      allTable(list, rows, (row) => {
        dialog.close();
        board.toggle(field, row.value);
      }),
    failed: (error, again) => failureNotice(`${title} cannot be shown.`, error, again),
  });
  return dialog;
}

function allTable({ counts, title }, rows, choose) {
  const told = COLUMNS[counts].filter(([what]) => rows[0][what] !== undefined);
  const body = rows.map((row) =>
    h(
      "tr",
      null,
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          { class: "link-button wrap", type: "button", onclick: () => choose(row) },
          h("bdi", null, row.label),
        ),
      ),
      told.map(([what, , , say]) => h("td", { class: "num" }, say(row[what]))),
      h("td", { class: "num soft" }, row.share === null ? "" : percent(100 * row.share, 1, 1)),
    ),
  );
  const head = [title, ...told.map(([, , words]) => words), "Share"];
  return h("table", { class: "table all-table" }, numbersHead(head), h("tbody", null, body));
}

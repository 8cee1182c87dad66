// The cards with top lists: tabs for the fields of a card, ten rows that filter, and all of them in a dialog.

import { isFiltered, questionOf } from "../shared/asking.js";
import { failureNotice } from "../shared/dialog.js";
import { h, refill } from "../shared/dom.js";
import { get } from "../shared/fetching.js";
import { fieldName, fieldTitle, valueNode, valueText } from "../shared/fields.js";
import { counted, number, percent } from "../shared/formats.js";
import { hint } from "../shared/hint.js";
import { barList, listDialog } from "../shared/list.js";
import { part } from "../shared/part.js";
import { drawSparks, sparkPlace } from "./sparks.js";

const SHOWN = 10;
// CONTRACT: limit is at most 1000.
const MOST = 1000;

/**
 * A card of lists. `board` is what the page shares: base, view(), span(), total(), figures(), toggle(field, value), openTab(card,
 * field). `beside(rows)` may draw something next to the first field's list. Gives { element, load(), openAll() }.
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
  const hasSparks = card.fields[0] === "pathname";
  let endSparks = () => {};
  const open = () => board.view().tabs[card.name] || card.fields[0];
  const all = () => allDialog(open(), board);

  const load = part(body, {
    what: () => `${fieldTitle(open())} cannot be shown.`,
    ask: async (signal) => {
      const limit = beside && open() === card.fields[0] ? MOST : SHOWN + 1;
      const answer = await get(`${board.base}/top/${open()}?${questionOf(board.view(), board.span(), { limit })}`, {
        signal,
      });
      // Shares are of the key figures' visitors.
      await board.figures();
      return answer;
    },
    draw: ({ data, meta }) => {
      const rows = rowsOf(meta.field, data, meta.unset, board);
      const most = rows.slice(0, SHOWN).map((row) => (hasSparks ? { ...row, more: sparkPlace() } : row));
      const list = most.length
        ? barList(most, { choose: (row) => board.toggle(meta.field, row.value), unit: "visitors" })
        : nothing(meta.field);
      const aside = beside && meta.field === card.fields[0] ? beside(data, rows) : null;
      refill(body, aside ? [aside, list] : list);
      body.classList.toggle("beside", Boolean(aside));
      endSparks();
      if (hasSparks) endSparks = drawSparks(body, most, meta.field, board);
      for (const [i, button] of [...body.querySelectorAll(".bar")].entries())
        hint(button, () => rowHint(most[i], meta.field));
      refill(foot, footOf(meta.field, data.length > SHOWN, all, board));
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
        h("span", { class: "soft small-text" }, "Visitors"),
      );
      if (card.fields.length > 1) body.setAttribute("aria-labelledby", `tab-${card.name}-${open()}`);
      return load(options);
    },
  };
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
      fieldTitle(field),
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

/** Rows as shared/list.js takes them. What is unset comes last, as it is no value. */
function rowsOf(field, data, unset, board) {
  const total = board.total();
  const most = Math.max(1, ...data.map((row) => row.visitors));
  const whole =
    unset && unset.visitors && !data.some((row) => row.value === "") ? [...data, { value: "", ...unset }] : data;
  return whole.map((row) => ({
    ...row,
    key: `${field}=${row.value}`,
    label: valueNode(field, row.value),
    text: valueText(field, row.value),
    count: row.visitors,
    share: total ? row.visitors / total : null,
    bar: row.value === "" ? 0 : row.visitors / most,
    pressed: isFiltered(board.view(), field, row.value),
  }));
}

function rowHint(row, field) {
  return [
    h("strong", { class: "wrap" }, row.text),
    h(
      "p",
      null,
      [counted(row.visitors, "visitor"), counted(row.pageviews, "view"), counted(row.events, "event")].join(" · "),
    ),
    row.share === null ? null : h("p", { class: "soft" }, `${percent(100 * row.share)} of all visitors of this range`),
    h(
      "p",
      { class: "soft" },
      row.pressed ? "Press to take this filter away" : `Press to see this ${fieldName(field)} alone`,
    ),
  ];
}

function nothing(field) {
  return h("p", { class: "nothing soft" }, `No ${fieldName(field)} was seen in this range.`);
}

function footOf(field, hasMore, all, board) {
  const csv = `${board.base}/top/${field}?${questionOf(board.view(), board.span(), { limit: MOST, format: "csv" })}`;
  return [
    hasMore
      ? h(
          "button",
          { class: "button small", type: "button", onclick: all, dataset: { key: "all" } },
          `All ${fieldTitle(field).replace(/^[A-Z](?=[a-z])/, (first) => first.toLowerCase())}`,
        )
      : h("span"),
    h("a", { class: "csv", href: csv, download: `${field}.csv`, "aria-label": `CSV of ${fieldTitle(field)}` }, "CSV"),
  ];
}

/** All values of a field, searchable. */
export function allDialog(field, board) {
  const dialog = listDialog({
    title: fieldTitle(field),
    load: async () => {
      const answer = await get(`${board.base}/top/${field}?${questionOf(board.view(), board.span(), { limit: MOST })}`);
      if (!answer.ok) return { error: answer.error };
      const rows = rowsOf(field, answer.data, answer.meta.unset, board);
      return { rows, note: answer.data.length === MOST ? ": the first thousand" : "" };
    },
    matches: (row, text) => row.text.toLowerCase().includes(text) || row.value.toLowerCase().includes(text),
    draw: (rows) =>
      allTable(field, rows, (row) => {
        dialog.close();
        board.toggle(field, row.value);
      }),
    failed: (error, again) => failureNotice(`${fieldTitle(field)} cannot be shown.`, error, again),
  });
  return dialog;
}

function allTable(field, rows, choose) {
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
      [row.visitors, row.pageviews, row.events].map((count) => h("td", { class: "num" }, number(count))),
      h("td", { class: "num soft" }, row.share === null ? "" : percent(100 * row.share, 1, 1)),
    ),
  );
  const head = [fieldTitle(field), "Visitors", "Views", "Events", "Share"];
  return h(
    "table",
    { class: "table all-table" },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        head.map((name, i) => h("th", { scope: "col", class: i ? "num" : null }, name)),
      ),
    ),
    h("tbody", null, body),
  );
}

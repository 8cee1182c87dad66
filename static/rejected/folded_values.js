// Values that were stored as (other) because a field reached its daily limit of new values: field, day and number of
// events. Pure, except for the nodes it creates.

import { h } from "../shared/dom.js";
import { FILTERS, fieldName } from "../shared/fields.js";
import { number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";

const t = await texts("rejected");

// Fields by which nothing is filtered.
/** @type {Record<string, string>} */
const OTHERS = {
  experiment: t("experiment"),
  variant: t("variant"),
  goal: t("goal"),
  property: t("property"),
  query: t("query"),
  event_data: t("event_data"),
  title: t("page_title"),
  url: t("url"),
};

/**
 * Returns the name of a field, as the first word of a cell.
 *
 * @param {string} field
 */
export function fieldTitle(field) {
  if (!FILTERS.includes(field)) return OTHERS[field] || field;
  const name = fieldName(field);
  return name[0].toUpperCase() + name.slice(1);
}

/**
 * Returns the section; null without rows. `rows`: `folded` of the read API's answer.
 *
 * @param {FoldedValues[]} rows
 */
export function foldedSection(rows) {
  if (!rows.length) return null;
  const heads = [
    [t("day"), null],
    [t("field"), null],
    [t("new_values"), "num"],
    [t("as_other"), "num"],
  ];
  const row = (
    /** @type {{ day: string, field: string, new_values: any, events: number }} */ {
      day,
      field,
      new_values: values,
      events,
    },
  ) =>
    h(
      "tr",
      { dataset: { field } },
      h("td", null, h("time", { datetime: day }, day)),
      h("td", null, fieldTitle(field)),
      h("td", { class: "num" }, number(values)),
      h("td", { class: "num" }, h("strong", null, number(events))),
    );
  return h(
    "section",
    { class: "card folded", "aria-labelledby": "folded" },
    h("div", { class: "card-head" }, h("h2", { id: "folded", class: "card-title" }, t("folded"))),
    h("p", null, t.rich("folded_means", { other: h("code", null, "(other)") })),
    h(
      "p",
      { class: "soft" },
      t.rich("folded_todo", {
        values: h("code", null, "--max-new-values"),
        names: h("code", null, "--max-new-names"),
      }),
    ),
    h(
      "div",
      { class: "folded-table" },
      h(
        "table",
        { class: "table" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            heads.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)),
          ),
        ),
        h("tbody", null, rows.map(row)),
      ),
    ),
  );
}

// Values that were stored as (other) because a field reached its daily limit of new values: field, day and number of
// events. Pure, except for the nodes it creates.

import { h } from "../shared/dom.js";
import { number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";

const t = await texts("rejected");

/** @type {Record<string, string>} */
const NAMES = {
  pathname: t("page"),
  referrer: t("referrer"),
  country: t("country"),
  browser: t("browser"),
  os: t("os"),
  device: t("device"),
  language: t("language"),
  hostname: t("hostname"),
  utm_source: t("utm_source"),
  utm_medium: t("utm_medium"),
  utm_campaign: t("utm_campaign"),
  utm_content: t("utm_content"),
  utm_term: t("utm_term"),
  platform: t("platform"),
  app_version: t("app_version"),
  os_version: t("os_version"),
  browser_version: t("browser_version"),
  region: t("region"),
  city: t("city"),
  event_name: t("event_name"),
  experiment: t("experiment"),
  variant: t("variant"),
  goal: t("goal"),
  property: t("property"),
  query: t("query"),
  url: t("url"),
};

/**
 * Returns the title of a field as the pages show it.
 *
 * @param {string} field
 */
export const fieldTitle = (field) => NAMES[field] || field;

/**
 * Returns the section; null without rows. `rows`: `folded` of the read API's answer.
 *
 * @param {FoldedValues[]} rows
 */
export function foldedSection(rows) {
  if (!rows.length) return null;
  const heads = [
    [t("day_utc"), null],
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

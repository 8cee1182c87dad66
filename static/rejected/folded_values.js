// Values that were stored as (other) because a field reached its daily limit of new values: field, day and number of
// events. Pure, except for the nodes it creates.

import { h } from "../shared/dom.js";
import { number } from "../shared/formats.js";

/** @type {Record<string, string>} */
const NAMES = {
  pathname: "Page",
  referrer: "Referrer",
  country: "Country",
  browser: "Browser",
  os: "Operating system",
  device: "Device",
  language: "Language",
  hostname: "Hostname",
  utm_source: "UTM source",
  utm_medium: "UTM medium",
  utm_campaign: "UTM campaign",
  platform: "Platform",
  app_version: "App version",
  os_version: "OS version",
  event_name: "Event name",
  experiment: "Experiment",
  variant: "Variant",
  goal: "Goal",
  property: "Property name",
};

/**
 * Returns the section; null without rows. `rows`: `folded` of the read API's answer.
 *
 * @param {FoldedValues[]} rows
 */
export function foldedSection(rows) {
  if (!rows.length) return null;
  const heads = [
    ["Day (UTC)", null],
    ["Field", null],
    ["New values", "num"],
    ["As (other)", "num"],
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
      h("td", null, NAMES[field] || field),
      h("td", { class: "num" }, number(values)),
      h("td", { class: "num" }, h("strong", null, number(events))),
    );
  return h(
    "section",
    { class: "card folded", "aria-labelledby": "folded" },
    h("div", { class: "card-head" }, h("h2", { id: "folded", class: "card-title" }, "Values stored as (other)")),
    h(
      "p",
      null,
      "These events are counted. On these days a field received more new values than the daily limit of a website;",
      " further new values are stored as ",
      h("code", null, "(other)"),
      ". Values seen before are not affected.",
    ),
    h(
      "p",
      { class: "soft" },
      "To do: check the top lists for values that are not yours; a client may have sent random values. If they are",
      " yours, raise ",
      h("code", null, "--max-new-values"),
      " or ",
      h("code", null, "--max-new-names"),
      ", or remove ids from paths and campaign names.",
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

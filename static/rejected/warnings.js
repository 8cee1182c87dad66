// Events that were stored without a field that broke its rule, or with one that was cut. Pure, except for the nodes it
// creates.

import { h } from "../shared/dom.js";
import { number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { fieldTitle } from "./folded_values.js";
import { recentDetails } from "./reasons.js";

const t = await texts("rejected");
const WITHOUT = "without_";

/**
 * Returns what the events of a warning are stored without.
 *
 * @param {string} code
 */
export function warningTitle(code) {
  if (code === "value_cut") return t("value_cut");
  return t("without", { field: fieldTitle(code.slice(WITHOUT.length)) });
}

/**
 * Returns the section; null without rows. `rows`: `warnings` of the read API's answer.
 *
 * @param {RejectedEvents} answer
 */
export function warningsSection({ warnings: rows, samples }) {
  if (!rows.length) return null;
  const row = (/** @type {{ code: string, events: number }} */ { code, events }) => {
    const fields = code === "value_cut" ? recentDetails(samples, code) : [];
    return h(
      "tr",
      { dataset: { code } },
      h(
        "td",
        null,
        warningTitle(code),
        fields.length
          ? h("span", { class: "soft" }, " ", fields.map((field) => fieldTitle(field || "")).join(", "))
          : null,
      ),
      h("td", { class: "num" }, h("strong", null, number(events))),
    );
  };
  const heads = [h("th", { scope: "col" }, t("reason")), h("th", { scope: "col", class: "num" }, t("events"))];
  return h(
    "section",
    { class: "card folded", "aria-labelledby": "warnings" },
    h("div", { class: "card-head" }, h("h2", { id: "warnings", class: "card-title" }, t("warnings"))),
    h("p", null, t("warnings_means")),
    h("p", { class: "soft" }, t("warnings_todo")),
    rows.some(({ code }) => code === "without_event_data")
      ? h("p", { class: "soft" }, t.rich("event_data_limit", { setting: h("code", null, "--max-event-data") }))
      : null,
    h(
      "div",
      { class: "folded-table" },
      h("table", { class: "table" }, h("thead", null, h("tr", null, heads)), h("tbody", null, rows.map(row))),
    ),
  );
}

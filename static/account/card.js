// A card of the account pages and of a website's settings.

import { h, visuallyHidden } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");

/**
 * Returns a section with a heading.
 *
 * @param {string} title
 * @param {...Child} content
 */
export function sectionCard(title, ...content) {
  return h("section", { class: "card roomy" }, h("h2", null, title), content);
}

/**
 * Returns a table whose rows end with a cell of buttons.
 *
 * @param {string[]} heads
 * @param {HTMLElement[]} rows
 */
export function actionTable(heads, rows) {
  const head = heads.map((words) => h("th", { scope: "col" }, words));
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      { class: "table key-table" },
      h("thead", null, h("tr", null, head, h("th", { scope: "col" }, visuallyHidden(t("actions"))))),
      h("tbody", null, rows),
    ),
  );
}

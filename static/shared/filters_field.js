// A field of a form whose value is a list of filters: chips in words, and the dialog of filters, with the values of the
// last 30 days to choose from.

import { h, loadStylesheet } from "./dom.js";
import { drawFilters } from "./filters.js";
import { filterParameter, readFilter, splitKey } from "./filter_words.js";
import { FILTERS } from "./fields.js";
import { displayZone } from "./formats.js";
import { loadRegions } from "./regions.js";
import { readView, spanOf } from "./view_state.js";

const PERIOD = "period=30d";

/**
 * Returns a board of the last 30 days of a website, with filters but without a page: what the dialog of filters and
 * suggestions read. `changed(view)` is called where the dialog changes the filters.
 *
 * @param {Website} website
 * @param {{ filters?: Filter[], fields?: string[], changed?: (view: View) => void }} [options]
 * @returns {any}
 */
export function recentBoard(website, { filters = [], fields = FILTERS, changed = () => {} } = {}) {
  const range = readView(new URLSearchParams(PERIOD), displayZone(website.time_zone));
  let view = { ...range, filters };
  return {
    ...{ website, fields, base: `/api/account/websites/${website.id}`, site: { website } },
    ...{ view: () => view, span: () => spanOf(view), saved: () => ({ segments: [], goals: {}, isLoaded: true }) },
    go: (/** @type {View} */ next) => changed((view = next)),
  };
}

/**
 * Returns the field; its value is a list such as ["filter_country=DE"]. `fields`: those to filter by.
 *
 * @param {{ website: Website, label: string, soft?: string, hint?: string, name: string, filters: string[], fields?: string[] }} options
 */
export function filtersField({ website, label, soft, hint, name, filters, fields }) {
  void loadStylesheet("/assets/shared/website_page.css");
  const chips = h("div", { class: "chips", role: "group", "aria-label": label });
  const error = h("p", { class: "field-error", role: "alert", hidden: true });
  const settle = () => void (error.hidden = true);
  const own = filters.map(readFilter);
  const board = recentBoard(website, { filters: own, fields, changed: () => (settle(), draw()) });
  const draw = () => drawFilters(chips, board);
  draw();
  if (own.some(([key]) => splitKey(key).field === "region")) void loadRegions().then(draw);
  return {
    element: h(
      "div",
      { class: "field" },
      h("span", { class: "field-label" }, label, soft ? h("span", { class: "field-soft" }, ` ${soft}`) : null),
      chips,
      error,
      hint ? h("p", { class: "field-hint" }, hint) : null,
    ),
    // What the form focuses where the field has an error.
    input: /** @type {any} */ ({
      focus: () => /** @type {HTMLElement | null} */ (chips.querySelector("[data-key=add-filter]"))?.focus(),
    }),
    name,
    value: () => board.view().filters.map(filterParameter),
    fault: () => null,
    settle,
    fail(/** @type {string} */ words) {
      error.textContent = words;
      error.hidden = false;
    },
  };
}

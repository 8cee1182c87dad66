// The dashboard's own part of the address: the figure on the chart, and
//   tabs      { card: list } of the tabs that were opened; else the first one with values is
//   goal      the id of the goal whose conversions are shown and order the lists; "". Share links have none
//   all       the list whose table of all values is open; ""
//   sort      the column that the table is sorted by, after "-" in descending order; ""
// Pure.

import { CARDS, isList } from "./list_cards.js";
import { figuresOf } from "./key_figures.js";

/** The part of a view without a table of all values. */
export const NO_TABLE = { all: "", sort: "" };

/** @type {ViewState} */
export const DASHBOARD_STATE = {
  read(/** @type {URLSearchParams} */ query, /** @type {string[]} */ filterable) {
    const id = query.get("goal") || "";
    const goal = filterable.includes("goal") && /^[0-9a-f]{16}$/.test(id) ? id : "";
    const figures = figuresOf(goal && "conversions");
    const figure = figures.find(({ inSeries, name }) => inSeries && name === query.get("figure")) || figures[0];
    /** @type {Record<string, string>} */
    const tabs = {};
    for (const { name, fields } of CARDS) {
      const open = query.get(`tab_${name}`) || "";
      if (fields.includes(open)) tabs[name] = open;
    }
    const all = query.get("all") || "";
    const table = isList(all) ? { all, sort: query.get("sort") || "" } : NO_TABLE;
    return {
      ...{ figure: figure.name, tabs, goal },
      ...table,
    };
  },
  write: ({ figure, tabs, goal = "", all, sort }) => [
    ...(all ? [["all", all]] : []),
    ...(all && sort ? [["sort", sort]] : []),
    ...(goal ? [["goal", goal]] : []),
    ...(figure && figure !== figuresOf(goal && "conversions")[0].name ? [["figure", figure]] : []),
    ...Object.entries(tabs).map(([card, field]) => [`tab_${card}`, field]),
  ],
};

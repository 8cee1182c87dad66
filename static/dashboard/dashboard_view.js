// The dashboard's own part of the address: the figure on the chart, and
//   tabs      { card: list } where another tab than the first is open
//   recent    "all" where recent events of all types are shown; ""
//   goal      the id of the goal whose figures are in the lists; ""
//   all       the list whose table of all values is open; ""
//   sort      the column that the table is sorted by, after "-" in descending order; ""
// Pure.

import { CARDS, isList } from "./list_cards.js";
import { FIGURES } from "./key_figures.js";

const FIRST = "visitors";
/** The part of a view without a table of all values. */
export const NO_TABLE = { all: "", sort: "" };

/** @type {ViewState} */
export const DASHBOARD_STATE = {
  read(/** @type {URLSearchParams} */ query) {
    const figure = FIGURES.find(({ inSeries, name }) => inSeries && name === query.get("figure"));
    /** @type {Record<string, string>} */
    const tabs = {};
    for (const { name, fields } of CARDS) {
      const open = query.get(`tab_${name}`) || "";
      if (fields.includes(open) && open !== fields[0]) tabs[name] = open;
    }
    const goal = query.get("goal") || "";
    const recent = query.get("recent") === "all" ? "all" : "";
    const all = query.get("all") || "";
    const table = isList(all) ? { all, sort: query.get("sort") || "" } : NO_TABLE;
    return {
      ...{ recent, figure: figure ? figure.name : FIRST, tabs, goal: /^[0-9a-f]{16}$/.test(goal) ? goal : "" },
      ...table,
    };
  },
  write: ({ figure, tabs, goal, recent, all, sort }) => [
    ...(all ? [["all", all]] : []),
    ...(all && sort ? [["sort", sort]] : []),
    ...(recent ? [["recent", recent]] : []),
    ...(goal ? [["goal", goal]] : []),
    ...(figure === FIRST ? [] : [["figure", figure]]),
    ...Object.entries(tabs).map(([card, field]) => [`tab_${card}`, field]),
  ],
};

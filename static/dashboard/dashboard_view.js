// The dashboard's own part of the address: the figure on the chart, and
//   tabs      { card: list } where another tab than the first is open
//   recent    "all" where recent events of all types are shown; ""
//   goal      the id of the goal whose figures are in the lists; ""
// Pure.

import { CARDS } from "./list_cards.js";
import { FIGURES } from "./key_figures.js";

const FIRST = "visitors";

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
    return { recent, figure: figure ? figure.name : FIRST, tabs, goal: /^[0-9a-f]{16}$/.test(goal) ? goal : "" };
  },
  write: ({ figure, tabs, goal, recent }) => [
    ...(recent ? [["recent", recent]] : []),
    ...(goal ? [["goal", goal]] : []),
    ...(figure === FIRST ? [] : [["figure", figure]]),
    ...Object.entries(tabs).map(([card, field]) => [`tab_${card}`, field]),
  ],
};

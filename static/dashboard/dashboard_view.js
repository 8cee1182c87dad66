// The dashboard's own part of the address: the figure on the chart, and
//   tabs      { card: list } where another tab than the first is open
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
    return { figure: figure ? figure.name : FIRST, tabs };
  },
  write: ({ figure, tabs }) => [
    ...(figure === FIRST ? [] : [["figure", figure]]),
    ...Object.entries(tabs).map(([card, field]) => [`tab_${card}`, field]),
  ],
};

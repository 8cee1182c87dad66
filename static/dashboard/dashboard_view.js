// What the dashboard alone has in its address, beside the days, the zone and the filters: the figure on the chart, and
//   tabs      { card: field } where another tab than the first is open
// Pure.

import { CARDS } from "./list_cards.js";
import { FIGURES } from "./key_figures.js";

const FIRST = "visitors";

export const DASHBOARD_STATE = {
  read(query) {
    const figure = FIGURES.find(({ inSeries, name }) => inSeries && name === query.get("figure"));
    const tabs = {};
    for (const { name, fields } of CARDS) {
      const open = query.get(`tab_${name}`);
      if (fields.includes(open) && open !== fields[0]) tabs[name] = open;
    }
    return { figure: figure ? figure.name : FIRST, tabs };
  },
  write: ({ figure, tabs }) => [
    ...(figure === FIRST ? [] : [["figure", figure]]),
    ...Object.entries(tabs).map(([card, field]) => [`tab_${card}`, field]),
  ],
};

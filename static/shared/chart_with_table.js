// A chart and the table behind it, for who reads rather than looks; where the chart cannot be drawn, the table is there.

import { chart } from "./chart.js";
import { failureNotice } from "./dialog.js";
import { fill, h } from "./dom.js";

/**
 * Gives { nodes, draw(data, table), end() }. `data()` makes what chart.js draws, `table()` the table, asked for only
 * while it is open; `what` is called what is drawn.
 */
export function chartWithTable(what = "chart") {
  const host = h("div", { class: "chart-host" });
  const behind = h("div", {
    class: "table-scroll series-scroll",
    tabindex: "0",
    role: "region",
    "aria-label": `Table of the ${what}`,
  });
  const details = h("details", { class: "series-table" }, h("summary", null, `Table of this ${what}`), behind);
  const plot = chart(host);
  let table = null;
  const drawTable = () => details.open && table && fill(behind, table());
  details.addEventListener("toggle", drawTable);
  return {
    nodes: [host, details],
    async draw(data, newTable) {
      table = newTable;
      drawTable();
      try {
        await plot.draw(data());
      } catch (failure) {
        const message = `The table below has its figures: ${failure.message}.`;
        fill(host, failureNotice(`The ${what} cannot be drawn.`, { message }));
      }
    },
    end: () => plot.end(),
  };
}

// A chart with a table of the same figures below it. Where the chart cannot be drawn, the table still can.

import { chart } from "./chart.js";
import { failureNotice } from "./dialog.js";
import { fill, h } from "./dom.js";

/**
 * Returns { nodes, draw(data, table), end() }. `data()` returns what chart.js draws; `table()` returns the table, called
 * only while the table is open. `what` names the drawing in labels.
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
  /** @type {(() => Node) | null} */
  let table = null;
  const drawTable = () => details.open && table && fill(behind, table());
  details.addEventListener("toggle", drawTable);
  return {
    nodes: [host, details],
    async draw(/** @type {() => ChartData} */ data, /** @type {() => Node} */ newTable) {
      table = newTable;
      drawTable();
      try {
        await plot.draw(data());
      } catch (failure) {
        const message = `The table below has the same figures (${/** @type {Error} */ (failure).message}).`;
        fill(host, failureNotice(`The ${what} cannot be drawn.`, { message }));
      }
    },
    end: () => plot.end(),
  };
}

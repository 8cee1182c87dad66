// A chart with a table of the same figures below it. Where the chart cannot be drawn, the table still can.

import { chart } from "./chart.js";
import { failureNotice } from "./dialog.js";
import { fill, h } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("shared");

const WORDS = {
  chart: { region: t("chart_table"), open: t("show_chart_table"), failed: t("chart_failed") },
  curve: { region: t("curve_table"), open: t("show_curve_table"), failed: t("curve_failed") },
};

/**
 * Returns { nodes, draw(data, table), end() }. `data()` returns what chart.js draws; `table()` returns the table, called
 * only while the table is open. `what` names the drawing in labels.
 *
 * @param {keyof typeof WORDS} [what]
 */
export function chartWithTable(what = "chart") {
  const words = WORDS[what];
  const host = h("div", { class: "chart-host" });
  const behind = h("div", {
    class: "table-scroll series-scroll",
    tabindex: "0",
    role: "region",
    "aria-label": words.region,
  });
  const details = h("details", { class: "series-table" }, h("summary", null, words.open), behind);
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
        const message = t("table_has_figures", { reason: /** @type {Error} */ (failure).message });
        fill(host, failureNotice(words.failed, { message }));
      }
    },
    end: () => plot.end(),
  };
}

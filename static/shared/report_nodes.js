// The elements of a page with one report: its sum, figures and chart in a card, and further parts below it.

import { h } from "./dom.js";

/**
 * @param {string} label  names the card
 */
export function reportNodes(label) {
  /** @type {Record<string, HTMLElement>} */
  const nodes = {
    answer: h("div", { class: "answer" }),
    sum: h("p", { class: "sum" }),
    figures: h("div", { class: "figures-place" }),
    chart: h("div", { class: "chart-host" }),
    parts: h("div", { class: "parts" }),
  };
  nodes.chartPlace = h("div", { class: "chart-place" }, nodes.chart);
  const parts = [nodes.sum, nodes.figures, nodes.chartPlace];
  nodes.main = h("section", { class: "card main-card", "aria-label": label }, parts);
  return nodes;
}

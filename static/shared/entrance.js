// The frame of pages without navigation (login, setup, invitation, second factor, password of a share link): the brand,
// and below it a card.

import { h, logo } from "./dom.js";

/**
 * Returns the frame; `before` stands between the brand and the card, `after` below it.
 *
 * @param {Child} card
 * @param {{ isBroad?: boolean, before?: Child, after?: Child }} [options]
 */
export function entrance(card, { isBroad = false, before = null, after = null } = {}) {
  const brand = h("div", { class: "entrance-brand" }, logo(), "Tally");
  return h(
    "div",
    { class: "middle" },
    h("div", { class: isBroad ? "entrance broad" : "entrance" }, brand, before, card, after),
  );
}

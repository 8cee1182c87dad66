// Instructions for sending events: in a page's HTML, in its scripts, with data.

import { copyButton } from "../shared/dialog.js";
import { h } from "../shared/dom.js";

const HTML = '<button data-track="signup" data-track-plan="pro">Sign up</button>';
const SCRIPT = 'tally.track("signup", { plan: "pro" });';

/** Returns the lines that send an event, each with a copy button. */
export function sendInstructions() {
  return [
    instruction("In HTML", "A click sends an event with this name; data-track-plan becomes its data.", HTML),
    instruction("In JavaScript", "The name and, optionally, flat data: strings, numbers, true and false.", SCRIPT),
  ];
}

/**
 * Returns the line that sends data with an event.
 *
 * @param {string} name
 */
export function dataInstructions(name) {
  const line = `tally.track(${JSON.stringify(name)}, { plan: "pro" });`;
  return instruction(
    "Send data with it",
    "Each property has a card here with its values and a summary of its numbers.",
    line,
  );
}

/**
 * @param {string} title
 * @param {string} words
 * @param {string} code
 */
function instruction(title, words, code) {
  return h(
    "section",
    { class: "way" },
    h("h3", null, title),
    h("p", { class: "soft" }, words),
    h(
      "div",
      { class: "row" },
      h("pre", { class: "code-block grow", tabindex: "0", "aria-label": title }, code),
      copyButton(code),
    ),
  );
}

// How events are sent, for who has none yet: in a page's HTML, in its scripts, with data.

import { copyButton } from "../shared/dialog.js";
import { h } from "../shared/dom.js";

const HTML = '<button data-track="signup" data-track-plan="pro">Sign up</button>';
const SCRIPT = 'tally.track("signup", { plan: "pro" });';

/** The lines that send one, each with a button that copies it. */
export function sendInstructions() {
  return [
    instruction(
      "In a page's HTML",
      "A click on it counts an event of that name; data-track-plan becomes its data.",
      HTML,
    ),
    instruction("In its scripts", "The name, and flat data if you like: texts, numbers, true and false.", SCRIPT),
  ];
}

/** The same for an event that comes without data: its own name stands in the line. */
export function dataInstructions(name) {
  const line = `tally.track(${JSON.stringify(name)}, { plan: "pro" });`;
  return instruction(
    "Send data with it",
    "Each property gets a card here: its values, and what its numbers come to.",
    line,
  );
}

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

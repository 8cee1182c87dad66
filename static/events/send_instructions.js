// Instructions for sending events: in a page's HTML, in its scripts, with data.

import { copyButton } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("events");

const HTML = '<button data-track="signup" data-track-plan="pro">Sign up</button>';
const SCRIPT = 'tally.track("signup", { plan: "pro" });';

/** Returns the lines that send an event, each with a copy button. */
export function sendInstructions() {
  return [
    instruction(t("in_html"), t("in_html_means"), HTML),
    instruction(t("in_javascript"), t("in_javascript_means"), SCRIPT),
  ];
}

/**
 * Returns the line that sends data with an event.
 *
 * @param {string} name
 */
export function dataInstructions(name) {
  const line = `tally.track(${JSON.stringify(name)}, { plan: "pro" });`;
  return instruction(t("send_data"), t("send_data_means"), line);
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

// The page to which a program sends the browser of a person whose figures it wants to read by the Model Context Protocol
// (docs/mcp.md): what it asks for, and the person's answer, which the browser takes back to it.

import { websiteBoxes } from "../account/key_options.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet } from "../shared/dom.js";
import { entrance } from "../shared/entrance.js";
import { get, send } from "../shared/api.js";
import { form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title(t("connect_assistant"));
  const [answer] = await Promise.all([
    get(`/api/account/authorization${location.search}`, { signal: context.signal }),
    loadStylesheet("/assets/account/account.css"),
  ]);
  if (context.signal.aborted || answer.error?.code === "not_logged_in") return;
  const content = answer.ok
    ? asked(context, answer.data)
    : answer.status === 400
      ? malformed(answer.error)
      : failureNotice(t("connect_failed"), answer.error, () => show(root, context));
  fill(root, entrance(h("div", { class: "card roomy" }, content)));
}

/**
 * @param {Context} context
 * @param {{ name: string, place: string, account: string, websites: { id: string, name: string }[] }} asked
 */
function asked(context, { name, place, account, websites }) {
  const boxes = websiteBoxes(websites);
  const answered = async (/** @type {boolean} */ allow) => {
    const sent = { ...Object.fromEntries(context.query), websites: boxes.chosen(), allow };
    const answer = await send("POST", "/api/account/authorization", sent);
    if (answer.ok) location.assign(answer.data.redirect);
    return answer;
  };
  const refuse = h("button", { class: "button", type: "button" }, t("do_not_connect"));
  refuse.addEventListener("click", () => answered(false));
  const made = form({
    fields: websites.length > 1 ? [boxes] : [],
    action: t("assistant_connect"),
    busy: t("connecting"),
    beside: refuse,
    submit: () => answered(true),
  });
  const bold = h("strong", null, h("bdi", null, place));
  return [
    h("h1", null, t("connect_named", { name })),
    h("p", { class: "lead" }, t("assistant_lead", { account })),
    h("div", { class: "notice warn" }, icon("warning"), h("p", null, t.rich("connect_place", { place: bold }))),
    h("p", { class: "soft" }, t("connect_effect")),
    made.element,
  ];
}

/**
 * Says that the program asks for what it cannot get. The browser is not sent back: nobody has answered yet.
 *
 * @param {ApiError} error
 */
function malformed(error) {
  return [
    h("h1", null, t("connect_failed")),
    h("p", null, t("connect_malformed")),
    h("p", { class: "soft", lang: "en" }, error.message),
  ];
}

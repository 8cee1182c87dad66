// The assistants that the person has connected (pages/authorize.js), each with a button that disconnects it. Nothing is
// shown to a person without any.

import { failureNotice, notify } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { date, displayZone, relativeTime } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { actionTable, sectionCard } from "./card.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function connectedAssistants(root, context) {
  const answer = await get("/api/account/assistants", { signal: context.signal });
  if (context.signal.aborted) return;
  const redraw = () => connectedAssistants(root, context);
  if (!answer.ok) return void fill(root, failureNotice(t("account_failed"), answer.error, redraw));
  if (!answer.data.length) return void fill(root);
  const heads = [shared("name"), t("created"), t("last_used")];
  const rows = answer.data.map((/** @type {ApiKey} */ one) => row(context, one, redraw));
  const words = h("p", { class: "soft" }, t("connect_effect"));
  fill(root, sectionCard(t("connected_assistants"), words, actionTable(heads, rows)));
}

/**
 * @param {Context} context
 * @param {ApiKey} assistant
 * @param {() => any} redraw
 */
function row(context, { id, name, created_at: created, last_used_at: used }, redraw) {
  const label = t("disconnect_named", { name });
  const button = h("button", { class: "button small", type: "button", "aria-label": label }, t("assistant_disconnect"));
  button.addEventListener("click", async () => {
    const answer = await send("DELETE", `/api/account/assistants/${id}`);
    if (!answer.ok && answer.status !== 404) return notify(answer.error.message);
    notify(t("assistant_disconnected", { name }));
    return redraw();
  });
  const zone = displayZone(context.account.time_zone);
  return h(
    "tr",
    null,
    h("th", { scope: "row", class: "key-name" }, name),
    h("td", { dataset: { head: t("created") } }, date(created, zone)),
    h(
      "td",
      { dataset: { head: t("last_used") } },
      used ? relativeTime(used) : h("span", { class: "soft" }, t("never")),
    ),
    h("td", { class: "num" }, button),
  );
}

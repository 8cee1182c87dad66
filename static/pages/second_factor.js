// The page of a person who has no second factor, while an account requires one: its setup, and logging out.

import { addPasskey, whyNot } from "../account/passkeys_card.js";
import { setUpFactor } from "../account/second_factor.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, loadStylesheet } from "../shared/dom.js";
import { entrance } from "../shared/entrance.js";
import { get } from "../shared/api.js";
import { logOut } from "../shared/log_out.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title(t("second_factor"));
  const [answer, keys] = await Promise.all([
    get("/api/account/second-factor", { signal: context.signal }),
    get("/api/account/passkeys", { signal: context.signal }),
    loadStylesheet("/assets/account/account.css"),
  ]);
  if (context.signal.aborted) return;
  const home = () => context.go("/", { replace: true });
  if (answer.ok && !answer.data.due_for.length) return void home();
  const logOutButton = h("button", { class: "button", type: "button" }, shared("log_out"));
  logOutButton.addEventListener("click", () => logOut(context));
  const content = answer.ok
    ? [
        h("h1", null, t("second_factor")),
        h("p", { class: "lead" }, t("factor_due", { account: answer.data.due_for.join(", ") })),
        setup(answer.data.email, !whyNot(keys.data?.unavailable), home),
        h("div", { class: "aside" }, logOutButton),
      ]
    : failureNotice(t("account_failed"), answer.error, () => show(root, context));
  fill(root, entrance(h("div", { class: "card roomy" }, content)));
}

/**
 * @param {string} email
 * @param {boolean} hasPasskeys
 * @param {() => any} done
 */
function setup(email, hasPasskeys, done) {
  const body = h("div", { class: "stack" });
  setUpFactor(body, { email, isSet: false, done });
  if (!hasPasskeys) return body;
  const instead = h("button", { class: "button quiet", type: "button" }, t("use_passkey_instead"));
  instead.addEventListener("click", () => {
    instead.remove();
    addPasskey(body, { email, hasCodes: false, done }).focus();
  });
  return h("div", { class: "stack" }, body, instead);
}

// The section Sign-in: single sign-on, the second factor of the person, its recovery codes, passkeys, sign-ins that a wrong
// code has refused, and connected assistants.

import { confirmDialog, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { form } from "../shared/forms.js";
import { dateTime, displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { withPasskey } from "../shared/passkeys.js";
import { sectionCard } from "./card.js";
import { connectedAssistants } from "./assistants.js";
import { problemNotice, providerAction } from "./sign_in_problems.js";
import { passkeysCard } from "./passkeys_card.js";
import { explained, proofFields, setUpFactor, showCodes } from "./second_factor.js";

const t = await texts("account");
const shared = await texts("shared");

const FEW_CODES = 3;

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {Context} context
 */
export async function signInSection(parts, context) {
  const provider = context.account.single_sign_on;
  const [answer, identity] = await Promise.all([
    get("/api/account/second-factor", { signal: context.signal }),
    provider ? get("/api/account/oidc", { signal: context.signal }) : null,
  ]);
  if (context.signal.aborted) return;
  const redraw = () => signInSection(parts, context);
  const error = answer.error || identity?.error;
  if (error) return void fill(parts, failureNotice(t("account_failed"), error, redraw));
  const { is_set: isSet, recovery_codes: left, refused } = answer.data;
  const keys = await passkeysCard(context, isSet);
  if (context.signal.aborted) return;
  const body = h("div", { class: "stack" });
  const card = sectionCard(t("second_factor"), body);
  const state = () => fill(body, isSet ? present(body, context, left, redraw, state) : absent(body, context, redraw));
  state();
  const assistants = h("div");
  fill(
    parts,
    problemNotice(context),
    refused.length ? refusals(context, refused) : null,
    provider && identity
      ? sectionCard(t("single_sign_on"), connection(context, provider, identity.data, redraw))
      : null,
    card,
    keys,
    assistants,
  );
  await connectedAssistants(assistants, context);
}

/**
 * Returns whether the person is connected with the provider, and the button that changes it.
 *
 * @param {Context} context
 * @param {{ name: string }} provider
 * @param {{ is_connected: boolean, can_disconnect: boolean }} identity
 * @param {() => any} redraw
 */
function connection(context, provider, { is_connected: isConnected, can_disconnect: canDisconnect }, redraw) {
  if (!isConnected) {
    const connect = h("button", { class: "button primary", type: "button" }, t("connect"));
    connect.addEventListener("click", async () => {
      const begun = await send("POST", "/api/account/oidc");
      if (!begun.ok) return notify(begun.error.message);
      location.assign(begun.data.location);
    });
    const words = h("p", { class: "soft" }, t("connect_lead", { action: providerAction(provider) }));
    // A proxy signs the person in at each request.
    const isPossible = context.account.signed_in_by !== "header";
    return h("div", { class: "stack" }, words, isPossible ? h("div", { class: "row" }, connect) : null);
  }
  const disconnect = h("button", { class: "button warning", type: "button" }, t("disconnect"));
  disconnect.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: t("disconnect_question"),
      words: t("disconnect_effect"),
      action: t("disconnect"),
    });
    if (!agreed) return;
    const answer = await send("DELETE", "/api/account/oidc");
    if (!answer.ok) return notify(answer.error.message);
    notify(t("disconnected"));
    await redraw();
  });
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "notice good" }, icon("check"), h("strong", null, t("connected"))),
    canDisconnect ? h("div", { class: "row" }, disconnect) : h("p", { class: "soft" }, t("only_single_sign_on")),
  );
}

/**
 * @param {HTMLElement} body
 * @param {Context} context
 * @param {() => any} redraw
 */
function absent(body, context, redraw) {
  const begin = h("button", { class: "button primary", type: "button" }, t("set_up_factor"));
  begin.addEventListener("click", () => {
    const { email } = context.account;
    setUpFactor(body, { email, isSet: false, beside: cancelButton(redraw), done: redraw }).focus();
  });
  return [h("p", { class: "soft" }, t("factor_lead")), h("div", { class: "row" }, begin)];
}

/**
 * @param {HTMLElement} body
 * @param {Context} context
 * @param {number} left
 * @param {() => any} redraw
 * @param {() => any} state
 */
function present(body, context, left, redraw, state) {
  const { email } = context.account;
  const few = left <= FEW_CODES;
  const words = h("div", null, h("strong", null, t("factor_on")), h("p", null, t("codes_left", { count: left })));
  const ask = (/** @type {any} */ options) => {
    const made = changeForm({ ...options, email, cancel: state });
    fill(body, h("p", null, options.effect), made.element);
    made.focus();
  };
  const codes = h("button", { class: "button", type: "button" }, t("new_recovery_codes"));
  codes.addEventListener("click", () =>
    ask({
      ...{ effect: t("new_codes_effect"), action: t("new_recovery_codes"), method: "POST", path: "/codes" },
      done: (/** @type {{ codes: string[] }} */ data) => showCodes(body, data.codes, redraw),
    }),
  );
  const other = h("button", { class: "button", type: "button" }, t("other_app"));
  other.addEventListener("click", () =>
    setUpFactor(body, { email, isSet: true, beside: cancelButton(state), done: redraw }).focus(),
  );
  const remove = h("button", { class: "button warning", type: "button" }, t("remove_factor"));
  remove.addEventListener("click", () =>
    ask({
      ...{ effect: t("remove_factor_effect"), action: t("remove_factor"), method: "DELETE", path: "", danger: true },
      done: async () => {
        notify(t("factor_removed"));
        await redraw();
      },
    }),
  );
  return [
    h("div", { class: `notice ${few ? "warn" : "good"}` }, icon(few ? "warning" : "check"), words),
    h("div", { class: "row" }, codes, other, remove),
  ];
}

/**
 * @param {{ action: string, method: string, path: string, danger?: boolean, email: string, cancel: () => any, done: (data: any) => any }} options
 */
function changeForm({ action, method, path, danger = false, email, cancel, done }) {
  return form({
    fields: proofFields(email, true),
    action,
    danger,
    busy: shared("saving"),
    beside: cancelButton(cancel),
    submit: async (values) => {
      const answer = await withPasskey((sent) => send(method, `/api/account/second-factor${path}`, sent), values);
      if (!answer.ok) return explained(answer);
      await done(answer.data);
      return null;
    },
  });
}

/**
 * @param {() => any} call
 */
function cancelButton(call) {
  return h("button", { class: "button", type: "button", onclick: () => call() }, shared("cancel"));
}

/**
 * Returns the notice of sign-ins with the right password and a wrong code.
 *
 * @param {Context} context
 * @param {string[]} refused
 */
function refusals(context, refused) {
  const zone = displayZone(context.account.time_zone);
  const times = refused.map((at) => h("li", null, dateTime(Date.parse(at), zone)));
  return h(
    "div",
    { class: "notice warn" },
    icon("warning"),
    h(
      "div",
      null,
      h("strong", null, t("refused_sign_ins", { count: refused.length })),
      h("p", null, t("refused_sign_ins_why")),
      h("ul", { class: "plain-list" }, times),
    ),
  );
}

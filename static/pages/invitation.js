// The invitation page, opened by a link whose token is in the hash: a new person chooses a password or single sign-on, one
// who is signed in with the invited address joins, and any other is asked to sign in.

import { ROLES } from "../account/roles.js";
import { providerAction } from "../account/sign_in_problems.js";
import { failureNotice, notify } from "../shared/dialog.js";
import { fill, h, loadStylesheet } from "../shared/dom.js";
import { entrance } from "../shared/entrance.js";
import { get, send } from "../shared/api.js";
import { form, passwordField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title(t("invitation"));
  const headers = { "Invitation-Token": encodeURIComponent(context.hash.slice(1)) };
  const [answer, state] = await Promise.all([
    get("/api/account/invitation", { headers, signal: context.signal }),
    get("/api/account/state", { signal: context.signal }),
    loadStylesheet("/assets/account/account.css"),
  ]);
  if (context.signal.aborted) return;
  if (answer.ok) draw(root, offered(context, answer.data, state.data, headers));
  else if (answer.status === 404) draw(root, [h("h1", null, t("invitation_invalid")), h("p", null, t("ask_for_link"))]);
  else draw(root, [failureNotice(t("invitation_failed"), answer.error, () => show(root, context))]);
  // Another link in the same tab changes only the hash.
  return { update: () => show(root, context) };
}

/**
 * @param {HTMLElement} root
 * @param {Child[]} content
 */
function draw(root, content) {
  fill(root, entrance(h("div", { class: "card roomy" }, content)));
}

/**
 * @param {Context} context
 * @param {{ account: string, email: string, role: string, has_person: boolean, signed_in_as: string | null }} offer
 * @param {{ single_sign_on: { name: string } | null, password_login: boolean } | null} state
 * @param {Record<string, string>} headers
 */
function offered(context, { account, email, role, has_person: hasPerson, signed_in_as: signedIn }, state, headers) {
  const title = h("h1", null, t("invitation"));
  const lead = h("p", { class: "lead" }, t("invitation_lead", { account, role: ROLES[role], email }));
  const accept = async (/** @type {object} */ sent) => {
    const answer = await send("POST", "/api/account/invitation", sent, { headers });
    if (!answer.ok) return answer;
    return context.go("/", { replace: true });
  };
  if (signedIn && signedIn.toLowerCase() !== email.toLowerCase()) {
    return [title, lead, h("p", null, t("invitation_of_other", { email, other: signedIn }))];
  }
  if (signedIn) {
    const made = form({ fields: [], action: t("join"), busy: t("joining"), wide: true, submit: () => accept({}) });
    return [title, lead, made.element];
  }
  const provider = state?.single_sign_on ? [providerForm(state.single_sign_on, headers)] : [];
  if (provider.length && !state?.password_login) return [title, lead, ...provider];
  if (hasPerson) {
    const next = encodeURIComponent(`/invitation${location.hash}`);
    const link = h("a", { class: "button primary wide", href: `/login#next=${next}` }, t("log_in"));
    return [title, lead, h("p", null, t("log_in_first", { email })), link, ...provider];
  }
  const password = passwordField({
    label: t("password"),
    name: "password",
    autocomplete: "new-password",
    missing: t("enter_password"),
    email: () => email,
    hint: t("passphrase_hint"),
  });
  const made = form({ fields: [password], action: t("join"), busy: t("joining"), wide: true, submit: accept });
  return [title, lead, made.element, ...provider];
}

/**
 * Returns the button with which the person of the link joins by single sign-on.
 *
 * @param {{ name: string }} provider
 * @param {Record<string, string>} headers
 */
function providerForm(provider, headers) {
  const button = h("button", { class: "button wide", type: "button" }, providerAction(provider));
  button.addEventListener("click", async () => {
    const begun = await send("POST", "/api/account/invitation/oidc", {}, { headers });
    if (!begun.ok) return notify(begun.error.message);
    location.assign(begun.data.location);
  });
  return button;
}

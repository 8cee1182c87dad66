// Why single sign-on did not work, as the login page and the section Sign-in say it.

import { h } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");

/** By the code in the address of the page, which the server's redirects have. @type {Record<string, string>} */
const PROBLEMS = {
  provider: t("oidc_provider"),
  token: t("oidc_token"),
  expired: t("oidc_expired"),
  refused: t("oidc_refused"),
  busy: t("oidc_busy"),
  no_email: t("oidc_no_email"),
  unverified: t("oidc_unverified"),
  has_person: t("oidc_has_person"),
  not_invited: t("oidc_not_invited"),
  no_group: t("oidc_no_group"),
  invitation: t("invitation_invalid"),
  other_person: t("oidc_other_person"),
  taken: t("oidc_taken"),
};

/**
 * Returns the notice of the problem that the address of the page names; null for none.
 *
 * @param {Context} context
 */
export function problemNotice(context) {
  const words = PROBLEMS[context.query.get("problem") || ""];
  return words ? h("p", { class: "notice bad", role: "alert" }, words) : null;
}

/**
 * Returns the text of the button that leads to the provider.
 *
 * @param {{ name: string }} provider
 */
export function providerAction({ name }) {
  return name ? t("log_in_with", { name }) : t("single_sign_on");
}

// The pages of an account.

import { isAdmin } from "./roles.js";
import { texts } from "./messages.js";

const t = await texts("shared");

/**
 * Returns the path, the label and the icon of each page of the account that is shown to the person.
 *
 * @param {Account} account
 */
export function accountPages(account) {
  const [admin, several] = [isAdmin(account), account.people > 1];
  return [
    ...(admin ? [["/account/keys", t("nav_keys"), "key"]] : []),
    ...(admin ? [["/account/people", t("nav_people"), "user"]] : []),
    ...(admin ? [["/account/notifications", t("nav_notifications"), "event"]] : []),
    ...(admin && several ? [["/account/activity", t("nav_activity"), "event"]] : []),
    ["/account/plan", usageTitle(account), "check"],
    ["/account/sign-in", t("nav_sign_in"), "key"],
    ["/account", t("nav_account"), "user"],
  ];
}

/**
 * Returns the title of the page of usage: on one's own server there is no plan to change.
 *
 * @param {Account} account
 */
export function usageTitle(account) {
  return account.plan === "business" ? t("nav_usage") : t("nav_plan");
}

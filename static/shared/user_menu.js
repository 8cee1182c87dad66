// The items of the user menu: the account, its pages, the theme, the language, and logging out.

import { chooseAccount } from "./account_choice.js";
import { accountPages } from "./account_pages.js";
import { h, icon } from "./dom.js";
import { LANGUAGES, chooseLanguage, chosenLanguage } from "./language.js";
import { canLogOut, logOut } from "./log_out.js";
import { texts } from "./messages.js";
import { themePicker } from "./theme_picker.js";

const t = await texts("shared");

/**
 * Returns the items.
 *
 * @param {Context} context
 * @param {Account} account
 * @param {string} path  of the current page
 */
export function userMenuItems(context, account, path) {
  const leave = h("button", { class: "nav-item", type: "button" }, icon("leave"), t("log_out"));
  leave.addEventListener("click", () => logOut(context, account));
  return [
    account.accounts.length > 1 ? accountPicker(account) : null,
    ...accountPages(account).map(([href, words, sign]) =>
      h("a", { class: "nav-item", href, "aria-current": href === path ? "page" : null }, icon(sign), words),
    ),
    themePicker(),
    languagePicker(),
    canLogOut(account) ? leave : null,
  ];
}

/**
 * Returns the choice of the account that the pages of the account concern.
 *
 * @param {Account} account
 */
function accountPicker({ id, accounts }) {
  const choices = accounts.map((one) => h("option", { value: one.id, selected: one.id === id }, one.name));
  const change = () => {
    chooseAccount(select.value);
    location.reload();
  };
  const select = h("select", { id: "account", class: "small-text", onchange: change }, choices);
  const label = h("label", { class: "soft small-text", for: select.id }, t("nav_account"));
  return h("div", { class: "language-picker" }, label, select);
}

function languagePicker() {
  const choices = Object.entries(LANGUAGES).map(([code, name]) => h("option", { value: code, lang: code }, name));
  const select = h(
    "select",
    { id: "language", class: "small-text", value: chosenLanguage(), onchange: () => chooseLanguage(select.value) },
    h("option", { value: "" }, t("language_of_browser")),
    choices,
  );
  return h(
    "div",
    { class: "language-picker" },
    h("label", { class: "soft small-text", for: select.id }, t("language")),
    select,
  );
}

// A field of a form whose value is a list of countries, chosen by name.

import { fill, h, icon, refill } from "../shared/dom.js";
import { valueNode, valueText } from "../shared/fields.js";
import { fixedValues } from "../shared/fixed_values.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");

/**
 * Returns the field; its value is a list such as ["DE", "US"], which `show(codes)` sets.
 *
 * @param {{ label: string, name: string, countries: string[] }} options
 */
export function countriesField({ label, name, countries }) {
  let codes = countries;
  const chips = h("div", { class: "chips" });
  const choice = h("select", { "aria-label": t("choose_country"), autocomplete: "off" });
  const add = h("button", { class: "button", type: "button" });
  add.addEventListener("click", () => {
    // Until one is chosen, there is nothing to add.
    if (choice.value) show([...codes, choice.value]);
    else choice.focus();
  });
  const error = h("p", { class: "field-error", role: "alert", hidden: true });
  const settle = () => void (error.hidden = true);
  const nameOf = (/** @type {string} */ code) => valueText("country", code);
  add.append(icon("plus"), t("exclude_country"));

  function show(/** @type {string[]} */ now) {
    settle();
    codes = [...new Set(now)].sort((one, other) => nameOf(one).localeCompare(nameOf(other)));
    refill(chips, codes.length ? codes.map(chip) : h("span", { class: "soft" }, t("no_excluded_countries")));
    const others = (fixedValues("country") || []).filter((code) => !codes.includes(code));
    const named = others.map((code) => ({ code, words: nameOf(code) }));
    named.sort((one, other) => one.words.localeCompare(other.words));
    const options = named.map(({ code, words }) => h("option", { value: code }, words));
    fill(choice, h("option", { value: "" }, t("no_country_chosen")), options);
  }

  function chip(/** @type {string} */ code) {
    const remove = () => show(codes.filter((one) => one !== code));
    const words = {
      class: "chip-remove",
      type: "button",
      "aria-label": t("remove_country", { country: nameOf(code) }),
    };
    return h(
      "span",
      { class: "chip" },
      h("span", { class: "chip-text row" }, valueNode("country", code)),
      h("button", { ...words, dataset: { key: code }, onclick: remove }, icon("close")),
    );
  }

  show(codes);
  return {
    element: h(
      "div",
      { class: "field", role: "group", "aria-label": label },
      h("span", { class: "field-label" }, label),
      chips,
      h("div", { class: "row" }, h("div", { class: "grow" }, choice), add),
      error,
    ),
    input: choice,
    name,
    value: () => codes,
    fault: () => null,
    settle,
    show,
    fail(/** @type {string} */ words) {
      error.textContent = words;
      error.hidden = false;
    },
  };
}

// The website switcher of the sidebar: the current website, and a menu of all of them with a search.

import { fill, h, icon } from "./dom.js";
import { menu } from "./menu.js";
import { initials } from "./initials.js";
import { texts } from "./messages.js";
import { searchInput } from "./search_input.js";

const t = await texts("shared");

/**
 * Returns the websites whose name or domain contains a text, in any case.
 *
 * @template {{ name: string | null, domain: string }} T
 * @param {T[]} websites
 * @param {string} text
 */
export function matchingWebsites(websites, text) {
  const wanted = text.trim().toLowerCase();
  return websites.filter(({ name, domain }) => `${name || ""} ${domain}`.toLowerCase().includes(wanted));
}

/** Returns { element, mark(websites, id) }: `id` is the current website's, or null. */
export function websiteSwitcher() {
  /** @type {Website[]} */
  let websites = [];
  /** @type {string | null} */
  let current = null;
  const label = h("span", { class: "switcher-label" });
  const { element: searchRow, input: search } = searchInput(t("search_websites"));
  const list = h("ul", { class: "nav-list switcher-list" });
  const { element } = menu({
    kind: "switcher",
    label: [label, icon("updown")],
    items: [
      searchRow,
      list,
      h("a", { class: "nav-item", href: "/" }, icon("grid"), t("all_websites")),
      h("a", { class: "nav-item for-admins", href: "/#add" }, icon("plus"), t("add_website")),
    ],
    opened() {
      search.value = "";
      draw();
      search.focus();
    },
  });

  function draw() {
    const found = matchingWebsites(websites, search.value);
    fill(
      list,
      found.map((website) => h("li", null, link(website, website.id === current))),
      found.length ? null : h("li", { class: "soft switcher-none" }, t("no_matches")),
    );
  }

  const links = () => /** @type {HTMLElement[]} */ ([...element.querySelectorAll(".menu-items a")]);
  search.addEventListener("input", draw);
  element.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && event.target === search) links()[0].click();
    else if (step && element.open) {
      const stops = [search, ...links()];
      const at = stops.indexOf(/** @type {HTMLElement} */ (document.activeElement));
      stops[(at + step + stops.length) % stops.length].focus();
    } else return;
    event.preventDefault();
  });
  return {
    element,
    mark(/** @type {Website[]} */ all, /** @type {string | null} */ id) {
      [websites, current] = [all, id];
      const website = all.find((one) => one.id === id);
      fill(label, website ? named(website) : [icon("grid"), h("span", { class: "nav-label" }, t("all_websites"))]);
    },
  };
}

/**
 * @param {Website} website
 * @param {boolean} isCurrent
 */
function link(website, isCurrent) {
  return h(
    "a",
    { class: "nav-item", href: `/websites/${website.id}`, "aria-current": isCurrent ? "true" : null },
    named(website),
  );
}

/**
 * @param {Website} website
 */
function named({ name, domain }) {
  const text = name || domain;
  return [initials(text), h("span", { class: "nav-label", title: text }, text)];
}

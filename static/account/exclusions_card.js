// The exclusions of a website in its settings: which events are not counted, by address, country, page, host
// and referrer.

import { failureNotice, notify } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { date, number } from "../shared/formats.js";
import { checkbox, form, linesField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { readableHost, readablePath } from "../shared/readable.js";
import { sectionCard } from "./card.js";
import { countriesField } from "./countries_field.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * Returns the card; the lists are loaded into it.
 *
 * @param {Website} website
 */
export function exclusionsCard(website) {
  const path = `/api/account/websites/${website.id}/exclusions`;
  const body = h("div");
  load(path, body);
  const link = h("a", { href: `/websites/${website.id}/rejected` }, shared("nav_rejected"));
  return sectionCard(t("exclusions"), h("p", { class: "soft" }, t.rich("exclusions_lead", { link })), body);
}

/**
 * @param {string} path
 * @param {HTMLElement} body
 */
async function load(path, body) {
  const answer = await get(path);
  const again = () => load(path, body);
  fill(body, answer.ok ? listsForm(path, answer.data) : failureNotice(t("exclusions_failed"), answer.error, again));
}

/**
 * @param {string} path
 * @param {Exclusions} data
 */
function listsForm(path, data) {
  const addresses = linesField({
    label: t("excluded_addresses"),
    name: "addresses",
    lines: data.addresses,
    hint: t("excluded_addresses_hint", {
      examples: "203.0.113.7, 203.0.113.0/24, 2001:db8::/48",
    }),
  });
  const countries = countriesField({
    label: t("excluded_countries"),
    name: "countries",
    countries: data.countries,
  });
  const pages = linesField({
    label: t("excluded_pages"),
    name: "pages",
    lines: data.pages.map(readablePath),
    separator: "\n",
    hint: t("excluded_pages_hint", { examples: "/admin/*, *.pdf" }),
  });
  const hostnames = linesField({
    label: t("counted_hosts"),
    name: "hostnames",
    lines: data.hostnames.map(readableHost),
    hint: t("counted_hosts_hint", {
      examples: "www.example.com, *.example.com",
    }),
  });
  const spam = checkbox({
    label: t("exclude_referrer_spam"),
    name: "referrer_spam",
    hint: t("exclude_referrer_spam_hint"),
  });
  spam.input.checked = data.referrer_spam;
  const referrers = hostsField("referrers", t("excluded_referrers"), data.referrers);
  const notSpam = hostsField("not_spam", t("referrers_to_count"), data.not_spam);
  const crawlers = checkbox({ label: t("count_crawlers"), name: "crawlers", hint: t("count_crawlers_hint") });
  crawlers.input.checked = data.crawlers === "count";
  const datacenters = checkbox({
    label: t("exclude_datacenters"),
    name: "datacenters",
    hint: t("exclude_datacenters_hint"),
  });
  datacenters.input.checked = Boolean(data.datacenters);
  const ofServer = data.datacenters === undefined ? [] : [datacenters];
  const lists = { addresses, countries, pages, hostnames, referrers, not_spam: notSpam };
  const own = h("button", { class: "button small", type: "button" });
  fill(own, t("add_own_address", { address: data.your_address }));
  own.addEventListener("click", () => {
    if (!addresses.value().includes(data.your_address)) addresses.show([...addresses.value(), data.your_address]);
    addresses.settle();
    addresses.input.focus();
  });
  addresses.element.append(h("div", null, own));
  const made = form({
    fields: [addresses, countries, pages, hostnames, spam, referrers, notSpam, crawlers, ...ofServer],
    action: t("save_exclusions"),
    busy: shared("saving"),
    submit: async (values) => {
      const answer = await send("PATCH", path, { ...values, crawlers: values.crawlers ? "count" : "reject" });
      if (!answer.ok) return answer;
      // As they are stored: in one form, sorted, each once.
      const shown = { ...answer.data, pages: answer.data.pages.map(readablePath) };
      for (const name of ["hostnames", "referrers", "not_spam"]) shown[name] = shown[name].map(readableHost);
      for (const one of Object.values(lists)) one.show(shown[one.name]);
      notify(t("exclusions_saved"));
      return null;
    },
  });
  return h("div", null, made.element, listsTable(data.lists));
}

/**
 * Returns a table of the lists that are files of the server or old. Nothing is to be known of the others.
 *
 * @param {ServerList[]} lists
 */
function listsTable(lists) {
  const shown = lists.filter((one) => one.source === "file" || one.is_old);
  if (!shown.length) return null;
  const heads = [t("list"), t("list_source"), t("list_date"), t("list_entries")];
  const table = h(
    "table",
    { class: "table", "aria-label": t("server_lists") },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        heads.map((words) => h("th", { scope: "col" }, words)),
      ),
    ),
    h("tbody", null, shown.map(listRow)),
  );
  return [h("h3", null, t("server_lists")), h("div", { class: "table-scroll" }, table)];
}

/** @type {Record<ServerList["name"], string>} */
const LIST_NAMES = {
  crawlers: t("list_crawlers"),
  referrer_spam: t("list_referrer_spam"),
  datacenters: t("list_datacenters"),
};

/**
 * @param {ServerList} list
 */
function listRow({ name, source, date: made, entries, is_old: isOld }) {
  return h(
    "tr",
    null,
    h("td", null, LIST_NAMES[name]),
    h("td", null, source === "file" ? t("list_of_server") : t("list_bundled")),
    h("td", null, date(Date.parse(made), "UTC"), isOld ? h("div", { class: "soft" }, t("list_is_old")) : null),
    h("td", null, number(entries)),
  );
}

/**
 * Returns a field for hosts of referrers.
 *
 * @param {string} name
 * @param {string} label
 * @param {string[]} hosts
 */
function hostsField(name, label, hosts) {
  const hint = t("referrers_hint", { examples: "spam.example" });
  return linesField({ label, name, lines: hosts.map(readableHost), hint });
}

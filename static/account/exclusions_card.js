// The exclusions of a website in its settings: which events are not counted, by lists and by switches.

import { failureNotice, notify } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { date, number } from "../shared/formats.js";
import { checkbox, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { sectionCard } from "./card.js";
import { exclusionLists } from "./exclusion_lists.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * Returns the card; the lists are loaded into it.
 *
 * @param {Website} website
 * @param {Account} account
 */
export function exclusionsCard(website, account) {
  const path = `/api/account/websites/${website.id}/exclusions`;
  const body = h("div", { class: "exclusions" });
  load({ path, website, body, hasPeople: account.people > 1 });
  const link = h("a", { href: `/websites/${website.id}/rejected` }, shared("nav_rejected"));
  return sectionCard(t("exclusions"), h("p", { class: "soft" }, t.rich("exclusions_lead", { link })), body);
}

/** @typedef {{ path: string, website: Website, body: HTMLElement, hasPeople: boolean }} Card */

/**
 * @param {Card} card
 */
async function load(card) {
  const answer = await get(card.path);
  if (answer.ok) return draw(card, answer.data);
  const again = () => load(card);
  fill(card.body, failureNotice(t("exclusions_failed"), answer.error, again));
}

/**
 * @param {Card} card
 * @param {Exclusions} data
 */
function draw(card, data) {
  fill(card.body, exclusionLists({ ...card, data }), switchesForm(card, data), listsTable(data.lists));
}

/**
 * @param {Card} card
 * @param {Exclusions} data
 */
function switchesForm(card, data) {
  const only = checkbox({ label: t("only_countries"), name: "only_countries", hint: t("only_countries_hint") });
  only.input.checked = data.only_countries;
  const spam = checkbox({
    label: t("exclude_referrer_spam"),
    name: "referrer_spam",
    hint: t("exclude_referrer_spam_hint"),
  });
  spam.input.checked = data.referrer_spam;
  const crawlers = checkbox({ label: t("count_crawlers"), name: "crawlers", hint: t("count_crawlers_hint") });
  crawlers.input.checked = data.crawlers === "count";
  const datacenters = checkbox({
    label: t("exclude_datacenters"),
    name: "datacenters",
    hint: t("exclude_datacenters_hint"),
  });
  datacenters.input.checked = Boolean(data.datacenters);
  const ofServer = data.datacenters === undefined ? [] : [datacenters];
  return form({
    fields: [only, spam, crawlers, ...ofServer],
    action: t("save_exclusions"),
    busy: shared("saving"),
    submit: async (values) => {
      const answer = await send("PATCH", card.path, { ...values, crawlers: values.crawlers ? "count" : "reject" });
      if (!answer.ok) return answer;
      draw(card, answer.data);
      notify(t("exclusions_saved"));
      return null;
    },
  }).element;
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
  return h("section", null, h("h3", null, t("server_lists")), h("div", { class: "table-scroll" }, table));
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

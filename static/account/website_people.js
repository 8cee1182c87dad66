// The card of a website's settings that shows who sees the website; none while an account has one person.

import { failureNotice } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { texts } from "../shared/messages.js";
import { sectionCard } from "./card.js";
import { ROLES } from "./roles.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * Returns the card, which loads its list; null where the person is alone.
 *
 * @param {Website} website
 * @param {Context} context
 */
export function websitePeople(website, { account, websites, signal }) {
  // The answers to changes of a website do not name its account.
  const of = websites.find((/** @type {Website} */ { id }) => id === website.id)?.account;
  if (of === account.id && account.people < 2) return null;
  const list = h("ul", { class: "plain-list stack" });
  const page = h("a", { href: "/account/people" }, shared("nav_people"));
  const load = async () => {
    const answer = await get(`/api/account/people?account=${of}`, { signal });
    if (signal.aborted) return;
    if (!answer.ok) return void fill(list, h("li", null, failureNotice(t("people_failed"), answer.error, load)));
    const seeing = answer.data.filter((/** @type {Person} */ one) => one.websites?.includes(website.id) ?? true);
    fill(
      list,
      seeing.map((/** @type {Person} */ { email, role }) =>
        h("li", null, h("bdi", { class: "wrap" }, email), " ", h("span", { class: "soft" }, ROLES[role])),
      ),
    );
    card.hidden = answer.data.length < 2;
  };
  const card = sectionCard(
    t("website_people"),
    h("p", { class: "soft" }, t.rich("website_people_lead", { page })),
    list,
  );
  card.hidden = true;
  void load();
  return card;
}

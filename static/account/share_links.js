// The share links of a website: a list, and in its place the form that creates or changes one. In the settings, and in the
// dialog of the dashboard.

import { confirmDialog, copyButton, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { filterText, readFilter, valuesByKey } from "../shared/filter_words.js";
import { texts } from "../shared/messages.js";
import { at } from "../shared/paths.js";
import { embedCode } from "./embed_code.js";
import { linkForm } from "./share_link_form.js";

const t = await texts("sharing");

/**
 * Returns the element. `query`: the range and filters with which the addresses open the dashboard; `changed` is called
 * with the links after each change.
 *
 * @param {{ website: Website, query?: string, changed: (links: ShareLink[]) => any }} options
 */
export function shareLinks({ website, query = "", changed }) {
  const path = `/api/account/websites/${website.id}/share-links`;
  const element = h("div", { class: "stack" });
  const problem = h("div", { role: "alert" });
  let links = website.share_links;

  /** Draws the list; the focus goes to the button of that key, which was there before or is near. */
  function list(/** @type {string} */ focused = "") {
    const create = h("button", { class: "button", type: "button", dataset: { key: "create" } }, t("create_link"));
    create.addEventListener("click", () => edit(null));
    fill(problem);
    fill(
      element,
      h("p", { class: "soft" }, t("lead")),
      h("p", { class: "soft" }, t("annotations_public")),
      links.length ? h("ul", { class: "share-links" }, links.map(row)) : h("p", null, t("no_links")),
      problem,
      h("div", { class: "row" }, create),
    );
    if (!focused) return;
    const buttons = /** @type {HTMLElement[]} */ ([...element.querySelectorAll("[data-key]")]);
    (buttons.find(({ dataset }) => dataset.key === focused) || create).focus();
  }

  function edit(/** @type {ShareLink | null} */ link) {
    const made = linkForm({
      ...{ website, link, cancel: () => list(link ? `edit-${link.id}` : "create") },
      async save(body) {
        const answer = await send(link ? "PATCH" : "POST", link ? `${path}/${link.id}` : path, body);
        if (!answer.ok) return answer;
        await took(
          link ? replaced(answer.data) : [...links, answer.data],
          link ? t("link_saved") : t("link_created"),
          `edit-${answer.data.id}`,
        );
        return null;
      },
    });
    fill(element, h("h3", null, link ? t("edit_link") : t("new_link")), made.element);
    made.focus();
  }

  const replaced = (/** @type {ShareLink} */ changedLink) =>
    links.map((one) => (one.id === changedLink.id ? changedLink : one));

  async function took(/** @type {ShareLink[]} */ now, /** @type {string} */ message, /** @type {string} */ focused) {
    links = now;
    await changed(links);
    notify(message);
    list(focused);
  }

  async function replace(/** @type {ShareLink} */ link) {
    const { name } = link;
    const question = { title: t("replace_question", { name }), words: t("replace_effect"), action: t("replace") };
    if (!(await confirmDialog({ ...question, danger: true }))) return;
    const answer = await send("PATCH", `${path}/${link.id}`, { new_address: true });
    if (!answer.ok) return void fill(problem, failureNotice(t("share_failed"), answer.error));
    await took(replaced(answer.data), t("link_replaced"), `replace-${link.id}`);
  }

  async function revoke(/** @type {ShareLink} */ link) {
    const { name } = link;
    const question = { title: t("revoke_question", { name }), words: t("revoke_effect"), action: t("revoke") };
    if (!(await confirmDialog({ ...question, danger: true }))) return;
    const answer = await send("DELETE", `${path}/${link.id}`);
    if (!answer.ok && answer.status !== 404) return void fill(problem, failureNotice(t("share_failed"), answer.error));
    await took(
      links.filter((one) => one !== link),
      t("link_revoked"),
      "create",
    );
  }

  function row(/** @type {ShareLink} */ link) {
    const { id, name } = link;
    const address = location.origin + at(link.path);
    const shown = h("input", {
      ...{ type: "text", readonly: true, value: address + query, class: "mono" },
      "aria-label": t("address_of", { name }),
    });
    shown.addEventListener("focus", () => shown.select());
    const button = (
      /** @type {string} */ key,
      /** @type {string} */ words,
      /** @type {string} */ label,
      /** @type {(link: ShareLink) => any} */ act,
    ) =>
      h(
        "button",
        {
          ...{ class: "button small", type: "button", "aria-label": label },
          ...{ dataset: { key: `${key}-${id}` }, onclick: () => act(link) },
        },
        words,
      );
    return h(
      "li",
      { class: "stack" },
      h("div", null, h("strong", null, h("bdi", null, name)), h("p", { class: "soft small-text" }, optionWords(link))),
      h(
        "div",
        { class: "row copy-row" },
        h("div", { class: "grow" }, shown),
        copyButton(address + query, t("copy_link")),
      ),
      h(
        "div",
        { class: "row" },
        h(
          "a",
          {
            ...{ class: "button small", href: link.path + query, target: "_blank", rel: "noopener" },
            "aria-label": t("open_named", { name }),
          },
          icon("open"),
          t("open"),
        ),
        button("edit", t("edit"), t("edit_named", { name }), edit),
        button("replace", t("replace"), t("replace_named", { name }), replace),
        button("revoke", t("revoke"), t("revoke_named", { name }), revoke),
      ),
      embedCode(website, link, address),
    );
  }

  list();
  return element;
}

/**
 * Returns what a link shows and asks for.
 *
 * @param {ShareLink} link
 */
function optionWords({ has_password, hide_events, badges, origins, filters }) {
  const words = [
    has_password ? t("with_password") : t("without_password"),
    hide_events ? "" : t("with_events"),
    badges ? t("with_badges") : "",
    origins.length ? t("in_frames") : "",
    ...valuesByKey(filters.map(readFilter)).map(([key, values]) => filterText(key, values)),
  ].filter(Boolean);
  return words.join(" · ");
}

// The deletion of a website, in its settings: its domain is typed to confirm.

import { runOnce } from "./run_once.js";
import { notify, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { readableHost } from "../shared/readable.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * @param {Settings} settings
 */
export function deletionCard(settings) {
  const { website } = settings;
  const button = h("button", { class: "button danger", type: "button" }, deletionWords(website));
  button.addEventListener("click", () =>
    runOnce(button, async () => {
      // Events may have arrived since the page was opened.
      const words = await wordsNow(website);
      fill(button, words);
      deletionDialog(settings, words, "");
    }),
  );
  return h(
    "section",
    { class: "card roomy ending" },
    h("h2", null, t("delete_website")),
    h("p", { class: "soft" }, t("deletion_effect")),
    h("div", { class: "row" }, button),
  );
}

/**
 * @param {Website} website
 */
function deletionWords(website) {
  if (!website.events) return t("delete_website");
  return website.events_exact ? t("delete_with_events", { count: website.events }) : t("delete_with_all_events");
}

/**
 * Returns the words for the events that the website has now.
 *
 * @param {Website} website
 */
async function wordsNow(website) {
  const fresh = await get(`/api/account/websites/${website.id}`);
  return deletionWords(fresh.ok ? fresh.data : website);
}

/**
 * Opens the dialog. Events that arrive while it is open are said before they are deleted: once, as others may arrive at any
 * time.
 *
 * @param {Settings} settings
 * @param {string} words
 * @param {string} confirmed  the domain where it has been typed before
 */
function deletionDialog(settings, words, confirmed) {
  const { website, context } = settings;
  const domain = readableHost(website.domain);
  const typed = field({
    label: t("type_to_confirm", { domain }),
    name: "domain",
    value: confirmed,
    autocomplete: "off",
    missing: t("type_here", { domain }),
    check: (text) =>
      [website.domain, domain].includes(text.trim().toLowerCase()) ? null : t("not_the_domain", { domain }),
  });
  const made = form({
    fields: [typed],
    action: words,
    busy: t("deleting"),
    danger: true,
    beside: h("button", { class: "button", type: "button", onclick: () => dialog.close() }, shared("cancel")),
    submit: async (values) => {
      const now = confirmed ? words : await wordsNow(website);
      if (now !== words) {
        dialog.close();
        return deletionDialog(settings, now, values.domain);
      }
      const answer = await send("DELETE", `/api/account/websites/${website.id}`, { domain: website.domain });
      if (!answer.ok) return answer;
      dialog.close();
      await context.refresh();
      await context.go("/", { replace: true });
      notify(t("website_deleted", { name: website.name || website.domain }));
    },
  });
  const dialog = openDialog({
    title: t("delete_question", { name: website.name || website.domain }),
    body: [
      h("p", null, t("deletion_means")),
      confirmed ? h("p", { role: "alert" }, h("strong", null, t("events_arrived"))) : null,
      made.element,
    ],
  });
  made.focus();
}

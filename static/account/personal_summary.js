// The card of the summary that a person gets by mail, in the section Account; nothing where the server sends no mail.

import { notify } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { language } from "../shared/language.js";
import { texts } from "../shared/messages.js";
import { sectionCard } from "./card.js";

const t = await texts("account");
const shared = await texts("shared");

const PATH = "/api/account/summary";

/**
 * Returns the card, which is hidden until it has loaded.
 *
 * @param {Context} context
 */
export function personalSummary(context) {
  const card = sectionCard(t("personal_summary"));
  card.hidden = true;
  load(card, context);
  return card;
}

/**
 * @param {HTMLElement} card
 * @param {Context} context
 */
async function load(card, context) {
  const answer = await get(PATH, { signal: context.signal });
  if (context.signal.aborted || !answer.ok || !answer.meta.mail) return;
  const periods = [
    ["", t("summary_off")],
    ["day", t("report_day")],
    ["week", t("report_week")],
    ["month", t("report_month")],
  ];
  const select = h(
    "select",
    { autocomplete: "off" },
    periods.map(([value, words]) => h("option", { value }, words)),
  );
  select.value = answer.data.period || "";
  const { hour, websites } = answer.data;
  const made = form({
    fields: [field({ label: t("report_period"), name: "period", input: select })],
    action: t("save_websites"),
    busy: shared("saving"),
    submit: async (values) => {
      const saved = await send("PATCH", PATH, { period: values.period || null, hour, websites, language });
      if (!saved.ok) return saved;
      notify(t("summary_saved"));
      return null;
    },
  });
  const lead = t("personal_summary_lead", { email: context.account.email });
  card.append(h("p", { class: "soft" }, lead), made.element);
  card.hidden = false;
}

// The rewriting of stored paths by a rule in the settings of a website: days and a rule, a preview, and what
// event_changes.js has.

import { fill, h } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { sectionCard } from "./card.js";
import { dayFields, drawPreview, eventChangeCard, load } from "./event_changes.js";

const t = await texts("deletions");
const EMAIL_ADDRESSES = { pattern: "*@*.*", replacement: "*" };
const EXAMPLE = "/item/*";

/**
 * Returns the card; the rewritings are loaded into it.
 *
 * @param {Website} website
 */
export function pathRewritingCard(website) {
  const card = eventChangeCard(website, "rewrite", `/api/account/websites/${website.id}/rewrites`);
  drawChoice(card, { from: "", to: "" }, { pattern: "", replacement: "" });
  void load(card);
  card.element = sectionCard(
    t("rewrite_title"),
    h("p", { class: "soft" }, t("rewrite_lead")),
    h("div", { class: "stack" }, card.choice, card.preview, card.list),
  );
  card.element.id = "rewrite-paths";
  return card.element;
}

/**
 * @param {EventChangeCard} card
 * @param {{ from: string, to: string }} span
 * @param {{ pattern: string, replacement: string }} rule
 */
function drawChoice(card, span, rule) {
  const days = dayFields(span);
  const parts = [
    field({
      ...{ label: t("pattern"), name: "pattern", value: rule.pattern, placeholder: EXAMPLE },
      hint: t("pattern_hint"),
      missing: t("pattern_missing"),
    }),
    field({
      ...{ label: t("replacement"), name: "replacement", value: rule.replacement, placeholder: EXAMPLE },
      hint: t("replacement_hint"),
      missing: t("replacement_missing"),
    }),
  ];
  const forAddresses = h("button", { class: "button small", type: "button" }, t("email_addresses"));
  forAddresses.addEventListener("click", () => {
    const [from, to] = days.map((one) => String(one.value()));
    drawChoice(card, { from, to }, EMAIL_ADDRESSES);
    // The button that was pressed has been replaced.
    /** @type {HTMLElement | null} */ (card.choice.querySelector("[name=pattern]"))?.focus();
  });
  const made = form({
    fields: [
      h("div", { class: "row" }, days[0].element, days[1].element),
      h("div", { class: "field" }, h("div", {}, forAddresses)),
      ...parts,
    ],
    action: t("preview"),
    busy: t("previewing"),
    submit: async () => {
      if (!days.every((one) => one.value())) return { error: { code: "", field: "", message: t("choose_day") } };
      const body = Object.fromEntries([...days, ...parts].map((one) => [one.name, String(one.value())]));
      const answer = await send("POST", `${card.path}/preview`, body);
      if (!answer.ok) return answer;
      show(card, answer.data);
      return null;
    },
  });
  fill(card.choice, made.element);
}

/**
 * @param {EventChangeCard} card
 * @param {any} found
 */
function show(card, found) {
  drawPreview(card, found, {
    facts: [
      t("fact_events", { count: found.events }),
      t("fact_days", { count: found.days }),
      t("fact_paths", { count: found.paths }),
    ],
    samples: {
      title: t("rewrite_samples"),
      rows: found.samples.map((/** @type {{ old: string, new: string }} */ one) =>
        h("li", { class: "mono small-text breakable" }, `${one.old} → ${one.new}`),
      ),
    },
    isEmpty: !found.paths,
  });
}

// The rules for the paths of events that arrive, in the settings of a website.

import { h } from "../shared/dom.js";
import { form, linesField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { sectionCard } from "./card.js";

const t = await texts("deletions");
const shared = await texts("shared");

/**
 * @param {Settings} settings
 */
export function pathRulesCard(settings) {
  const rules = linesField({
    label: t("path_rules"),
    name: "path_rules",
    lines: settings.website.path_rules.map(({ pattern, replacement }) => `${pattern} ${replacement}`),
    separator: "\n",
    hint: t("path_rules_hint", { examples: "/item/* /item/*, *@*.* *" }),
  });
  const made = form({
    fields: [rules],
    action: t("save_path_rules"),
    busy: shared("saving"),
    submit: (values) => {
      const sent = values.path_rules.map((/** @type {string} */ line) => {
        const [pattern, ...rest] = line.trim().split(/\s+/);
        return { pattern, replacement: rest.join(" ") };
      });
      return settings.change({ path_rules: sent }, t("path_rules_saved"));
    },
  });
  const card = sectionCard(t("path_rules_title"), h("p", { class: "soft" }, t("path_rules_lead")), made.element);
  card.id = "path-rules";
  return card;
}

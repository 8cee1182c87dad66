// How events reach a website, in its settings: the snippet, and other origins whose pages may send events.

import { sectionCard } from "./card.js";
import { fill, h } from "../shared/dom.js";
import { form, linesField } from "../shared/forms.js";
import { date, displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * @param {Settings} settings
 */
export function snippetCard(settings) {
  const { website, context } = settings;
  const check = h("button", { class: "button", type: "button" }, t("check_for_events"));
  const place = h("div", { class: "stack" }, h("div", { class: "row" }, check));
  check.addEventListener("click", () => fill(place, eventMonitor(website)));
  return sectionCard(
    t("snippet"),
    snippetBox(website, context.account.base_url),
    place,
    h(
      "p",
      { class: "soft small-text" },
      t.rich("website_id", {
        id: h("code", { class: "breakable" }, website.id),
        date: date(website.created_at, displayZone(context.account.time_zone)),
      }),
    ),
  );
}

/**
 * @param {Settings} settings
 */
export function originsCard(settings) {
  const origins = linesField({
    label: t("origins"),
    name: "origins",
    lines: settings.website.origins,
    hint: t("origins_hint", { examples: "https://partner.example, capacitor://localhost, http://localhost:5173" }),
  });
  const made = form({
    fields: [origins],
    action: t("save_origins"),
    busy: shared("saving"),
    submit: (values) => settings.change(values, t("origins_saved")),
  });
  return sectionCard(t("allowed_origins"), h("p", { class: "soft" }, t("allowed_origins_lead")), made.element);
}

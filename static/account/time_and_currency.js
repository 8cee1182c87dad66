// The time zone, the first day of the week and the currency of a website, in its settings.

import { dateTime, displayZone } from "../shared/formats.js";
import { h } from "../shared/dom.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { zoneLabel } from "../shared/time_zones.js";
import { sectionCard } from "./card.js";
import { zoneOptions } from "./zone_options.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * Returns the card. `save(body)` sends the changes and returns the answer where it failed, else null.
 *
 * @param {Website} website
 * @param {string | null} accountZone
 * @param {(body: Record<string, any>) => Promise<any>} save
 */
export function timeAndCurrency(website, accountZone, save) {
  const zone = h(
    "select",
    { autocomplete: "off" },
    h("option", { value: "" }, t("zone_not_set", { zone: zoneLabel(displayZone(accountZone)) })),
    zoneOptions(website.time_zone),
  );
  zone.value = website.time_zone || "";
  const clock = h("span");
  const drawClock = () => {
    const now = dateTime(Date.now(), displayZone(zone.value || accountZone));
    clock.textContent = t("zone_hint", { time: now });
  };
  drawClock();
  zone.addEventListener("input", drawClock);
  const week = h(
    "select",
    { autocomplete: "off" },
    h("option", { value: "monday" }, t("monday")),
    h("option", { value: "sunday" }, t("sunday")),
  );
  week.value = website.week_start;
  const made = form({
    fields: [
      field({ label: t("time_zone"), name: "time_zone", input: zone, hint: clock }),
      field({ label: t("weeks_begin"), name: "week_start", input: week }),
      field({
        ...{ label: t("currency"), name: "currency", soft: t("optional"), value: website.currency || "", maxlength: 3 },
        ...{ autocomplete: "off", hint: t("currency_hint") },
      }),
    ],
    action: t("save_time"),
    busy: shared("saving"),
    submit: ({ time_zone, week_start, currency }) =>
      save({
        ...{ time_zone: time_zone || null, week_start },
        currency: currency.trim().toUpperCase() || null,
      }),
  });
  return sectionCard(t("time_and_currency"), made.element);
}

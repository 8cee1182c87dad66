// What a website is called and how its reports are shown, in its settings: name, domain, time zone, first day of the week
// and currency, saved together.

import { CLOCK, dateFormat, dateTime, displayZone } from "../shared/formats.js";
import { fill, h } from "../shared/dom.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { readableHost } from "../shared/readable.js";
import { offsetLabel, zoneLabel, zoneOffsets } from "../shared/time_zones.js";
import { sectionCard } from "./card.js";
import { zoneOptions } from "./zone_options.js";

const t = await texts("account");
const shared = await texts("shared");
const MINUTE_MS = 60_000;

/**
 * @param {Settings} settings
 */
export function generalCard({ website, context, change }) {
  const made = form({
    fields: [...nameFields(website), ...reportFields(website, context.account.time_zone)],
    action: t("save_general"),
    busy: shared("saving"),
    submit: ({ name, domain, time_zone, week_start, currency }) =>
      change(
        {
          ...{ name: name.trim(), domain: domain.trim(), time_zone: time_zone || null, week_start },
          currency: currency.trim().toUpperCase() || null,
        },
        t("general_saved"),
      ),
  });
  return sectionCard(t("general"), made.element);
}

/**
 * @param {Website} website
 */
function nameFields(website) {
  return [
    field({
      ...{ label: shared("name"), name: "name", value: website.name || readableHost(website.domain) },
      ...{ autocomplete: "off", autocapitalize: "sentences", missing: shared("enter_name"), maxlength: 100 },
    }),
    field({
      ...{ label: t("domain"), name: "domain", value: readableHost(website.domain), inputmode: "url" },
      ...{ autocomplete: "off", missing: t("enter_domain"), hint: t("domain_hint") },
    }),
  ];
}

/**
 * @param {Website} website
 * @param {string | null} accountZone
 */
function reportFields(website, accountZone) {
  const zone = h(
    "select",
    { autocomplete: "off" },
    h("option", { value: "" }, t("zone_not_set", { zone: zoneLabel(displayZone(accountZone)) })),
    zoneOptions(website.time_zone),
  );
  zone.value = website.time_zone || "";
  const hint = h("span");
  const drawHint = () => {
    const chosen = displayZone(zone.value || accountZone);
    const now = dateTime(Date.now(), chosen);
    fill(hint, t("zone_hint", { time: now }), h("br"), dayHint(website, chosen));
  };
  drawHint();
  zone.addEventListener("input", drawHint);
  const week = h(
    "select",
    { autocomplete: "off" },
    h("option", { value: "monday" }, t("monday")),
    h("option", { value: "sunday" }, t("sunday")),
  );
  week.value = website.week_start;
  return [
    field({ label: t("time_zone"), name: "time_zone", input: zone, hint }),
    field({ label: t("weeks_begin"), name: "week_start", input: week }),
    field({
      ...{ label: t("currency"), name: "currency", soft: t("optional"), value: website.currency || "", maxlength: 3 },
      ...{ autocomplete: "off", hint: t("currency_hint") },
    }),
  ];
}

/**
 * Returns when the website's days begin, also by the clock of a time zone, and why that cannot be changed.
 *
 * @param {Website} website
 * @param {string} zone
 */
function dayHint({ day_offset_minutes: offset, events }, zone) {
  const clocks = zoneOffsets(zone).map((minutes) => (minutes - offset) * MINUTE_MS);
  const [time, summer] = clocks.map((moment) => dateFormat("UTC", CLOCK).format(moment));
  const values = { offset: offsetLabel(offset), time, summer };
  const [isThere, hasSummer] = [clocks[0] === 0, time !== summer];
  const begin = isThere
    ? hasSummer
      ? t("days_begin_summer", values)
      : t("days_begin", values)
    : hasSummer
      ? t("days_begin_elsewhere_summer", values)
      : t("days_begin_elsewhere", values);
  return `${begin} ${events ? t("days_fixed") : t("days_follow")}`;
}

// The options of a time zone.

import { h } from "../shared/dom.js";
import { texts } from "../shared/messages.js";
import { allZones, zoneLabel } from "../shared/time_zones.js";

const t = await texts("account");

/**
 * Returns all zones by region, and `present` where this browser does not list it.
 *
 * @param {string | null} present
 */
export function zoneOptions(present) {
  const regions = new Map();
  for (const zone of allZones(present)) {
    const name = region(zone);
    regions.set(name, [...(regions.get(name) || []), h("option", { value: zone }, zoneLabel(zone))]);
  }
  return [...regions].map(([name, options]) => h("optgroup", { label: name }, options));
}

/**
 * @param {string} zone
 */
function region(zone) {
  return zone.includes("/") ? zone.split("/")[0] : t("other_zones");
}

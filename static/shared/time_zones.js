// Time zones to choose from, by their current names in the tz database. Browsers list some under older names
// (Asia/Calcutta). Both names are valid everywhere; only the current one is shown.

/** @type {Record<string, string>} */
const CURRENT_NAMES = {
  "Africa/Asmera": "Africa/Asmara",
  "America/Buenos_Aires": "America/Argentina/Buenos_Aires",
  "America/Catamarca": "America/Argentina/Catamarca",
  "America/Coral_Harbour": "America/Atikokan",
  "America/Cordoba": "America/Argentina/Cordoba",
  "America/Godthab": "America/Nuuk",
  "America/Indianapolis": "America/Indiana/Indianapolis",
  "America/Jujuy": "America/Argentina/Jujuy",
  "America/Louisville": "America/Kentucky/Louisville",
  "America/Mendoza": "America/Argentina/Mendoza",
  "Asia/Calcutta": "Asia/Kolkata",
  "Asia/Katmandu": "Asia/Kathmandu",
  "Asia/Rangoon": "Asia/Yangon",
  "Asia/Saigon": "Asia/Ho_Chi_Minh",
  "Atlantic/Faeroe": "Atlantic/Faroe",
  "Europe/Kiev": "Europe/Kyiv",
  "Pacific/Enderbury": "Pacific/Kanton",
  "Pacific/Ponape": "Pacific/Pohnpei",
  "Pacific/Truk": "Pacific/Chuuk",
};

/**
 * Returns every zone that the browser supports, and `more`, sorted.
 *
 * @param {...any} more
 */
export function allZones(...more) {
  const known = (Intl.supportedValuesOf?.("timeZone") || []).map((zone) => CURRENT_NAMES[zone] || zone);
  return [...new Set([...known, "UTC", ...more.filter(Boolean)])].sort();
}

/**
 * Returns a zone's name for display: America/New York
 *
 * @param {string} zone
 */
export function zoneLabel(zone) {
  return (CURRENT_NAMES[zone] || zone).replaceAll("_", " ");
}

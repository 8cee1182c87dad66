// Time zones to choose from, by the names the tz database has for them now. Browsers still list some under the names
// they had long ago (Asia/Calcutta); both are understood everywhere, but nobody looks for Kolkata under C.

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

/** Every zone the browser knows, and `more`, sorted. */
export function allZones(...more) {
  const known = (Intl.supportedValuesOf?.("timeZone") || []).map((zone) => CURRENT_NAMES[zone] || zone);
  return [...new Set([...known, "UTC", ...more.filter(Boolean)])].sort();
}

/** A zone as people read it: America/New York */
export function zoneLabel(zone) {
  return (CURRENT_NAMES[zone] || zone).replaceAll("_", " ");
}

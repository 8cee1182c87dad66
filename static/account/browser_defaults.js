// The first day of the week and the currency of a browser's region, for the first website. Pure.
//
// Regions by the currency of ISO 4217 that is legal tender there, as of 2026; others have none, and the website none then.

const CURRENCIES = {
  EUR: "AD AT BE BG CY DE EE ES FI FR GR HR IE IT LT LU LV MC MT NL PT SI SK SM VA",
  USD: "US PR EC SV PA",
  GBP: "GB GG IM JE",
  CHF: "CH LI",
  ...{ AUD: "AU", BRL: "BR", CAD: "CA", CLP: "CL", CNY: "CN", COP: "CO", CZK: "CZ", DKK: "DK FO GL" },
  ...{ HKD: "HK", HUF: "HU", IDR: "ID", ILS: "IL", INR: "IN", ISK: "IS", JPY: "JP", KRW: "KR", MXN: "MX" },
  ...{ MYR: "MY", NOK: "NO SJ", NZD: "NZ", PEN: "PE", PHP: "PH", PLN: "PL", RON: "RO", SEK: "SE", SGD: "SG" },
  ...{ THB: "TH", TRY: "TR", TWD: "TW", UAH: "UA", VND: "VN", ZAR: "ZA" },
};
const SUNDAY = 7;

/**
 * Returns { week_start, currency } for language tags; those of the first tag with a region, else of the first.
 *
 * @param {readonly string[]} tags
 * @returns {{ week_start: "monday" | "sunday", currency: string | null }}
 */
export function defaultsOf(tags) {
  const found = tags.map((tag) => new Intl.Locale(tag));
  const own = found.find(({ region }) => region) ?? found[0]?.maximize();
  const week = /** @type {any} */ (own);
  const first = (week?.getWeekInfo?.() ?? week?.weekInfo)?.firstDay;
  const region = own?.region || "";
  const currency = Object.entries(CURRENCIES).find(([, regions]) => region && regions.split(" ").includes(region));
  return { week_start: first === SUNDAY ? "sunday" : "monday", currency: currency?.[0] ?? null };
}

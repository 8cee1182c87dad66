// How numbers, times, places and names are said. Numbers and times follow the viewer's language (Intl); what is said
// in words is English. Pure: nothing here touches the page.
//
// The one module that reads the browser's languages and time zone. Both may be values that Intl rejects: a browser
// started under LANG=C reports "C" or "en-US@posix", and one without a known zone reports "Etc/Unknown".

const locale = usableLocales(navigator.languages?.length ? navigator.languages : [navigator.language]);
const whole = numberFormat({ maximumFractionDigits: 0 });
const short = numberFormat({ notation: "compact", maximumFractionDigits: 1 });
const english = ["en"];

/** The language tags that Intl accepts, in order; empty means the browser's default. POSIX names are converted. */
function usableLocales(tags) {
  return tags.flatMap((tag) => {
    try {
      // de_DE.UTF-8@euro -> de-DE
      return Intl.NumberFormat.supportedLocalesOf(
        String(tag)
          .replace(/[.@].*/, "")
          .replaceAll("_", "-"),
      );
    } catch {
      return [];
    }
  });
}

/** The browser's language where Intl accepts it, else the first accepted of its languages, else en. */
export function validLanguage() {
  return usableLocales([navigator.language]).includes(navigator.language) ? navigator.language : locale[0] || "en";
}

/** An Intl.NumberFormat in the viewer's language. */
export function numberFormat(options) {
  return new Intl.NumberFormat(locale, options);
}

/** 12,480 */
export function number(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** 12.5K, where space forces it; the exact number belongs in a hint. */
export function shortNumber(value) {
  return value === null || value === undefined
    ? "–"
    : Math.abs(value) < 10_000
      ? whole.format(value)
      : short.format(value);
}

/** 43.1% of a figure that is in percent already; with so many decimals, or at most so many. */
export function percent(value, decimals = 1, least = 0) {
  if (value === null || value === undefined) return "–";
  const digits = { style: "percent", minimumFractionDigits: least, maximumFractionDigits: decimals };
  return numberFormat(digits).format(value / 100);
}

/** 2.31 */
export function decimal(value, decimals = 2) {
  if (value === null || value === undefined) return "–";
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return numberFormat(digits).format(value);
}

/** 1 m 52 s */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const rest = Math.round(seconds);
  const [hours, minutes, left] = [Math.floor(rest / 3600), Math.floor((rest % 3600) / 60), rest % 60];
  if (hours) return `${whole.format(hours)} h ${minutes} m`;
  return minutes ? `${minutes} m ${left} s` : `${left} s`;
}

/** "1 visitor", "2 visitors"; `many` where it is not the one with an s. */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

const formats = new Map();

/** An Intl.DateTimeFormat, kept: making one is dear. */
export function dateFormat(zone, options) {
  const key = `${zone} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale, { timeZone: zone, ...options }));
  return formats.get(key);
}

/** A time of day with seconds, in the browser's own zone: 17:04:31 */
export function clockTime(moment) {
  return dateFormat(browserZone(), { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(moment);
}

/** A moment with its time in a zone: 21 Nov, 17:04 */
export function dateTime(moment, zone) {
  const options = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return dateFormat(zone, options).format(new Date(moment));
}

/** A moment's day: 21 Nov 2026 */
export function date(moment, zone) {
  return dateFormat(zone, { day: "numeric", month: "short", year: "numeric" }).format(new Date(moment));
}

/** Days written as 2026-11-15 and 2026-11-21: 15 – 21 Nov 2026 */
export function dayRange(from, to) {
  const [first, last] = [new Date(`${from}T12:00:00Z`), new Date(`${to}T12:00:00Z`)];
  const format = dateFormat("UTC", { day: "numeric", month: "short", year: "numeric" });
  return from === to
    ? dateFormat("UTC", { weekday: "short", day: "numeric", month: "short", year: "numeric" }).format(first)
    : format.formatRange(first, last);
}

/** How long ago, in words: "3 minutes ago" */
export function relativeTime(moment, now = Date.now()) {
  const seconds = Math.round((new Date(moment).getTime() - now) / 1000);
  const words = new Intl.RelativeTimeFormat(english, { numeric: "auto" });
  for (const [unit, size] of [
    ["day", 86_400],
    ["hour", 3600],
    ["minute", 60],
  ]) {
    if (Math.abs(seconds) >= size) return words.format(Math.round(seconds / size), unit);
  }
  return words.format(seconds, "second");
}

const names = new Map();

function displayName(type, code) {
  if (!names.has(type)) names.set(type, new Intl.DisplayNames(english, { type, fallback: "none" }));
  try {
    return names.get(type).of(code);
  } catch {
    return undefined;
  }
}

/** Germany of DE; what is no country's code is left as it is. */
export function countryName(code) {
  return (/^[A-Z]{2}$/.test(code) && displayName("region", code)) || code;
}

/** The flag of a country as text, or nothing. */
export function flag(code) {
  if (!/^[A-Z]{2}$/.test(code)) return "";
  return String.fromCodePoint(...[...code].map((letter) => 0x1f1a5 + letter.charCodeAt(0)));
}

/** German (Germany) of de-DE */
export function languageName(tag) {
  return displayName("language", tag) || tag;
}

/** The zone to show times in: `preferred` (the account's), else the browser's own, else UTC. */
export function displayZone(preferred) {
  return isKnownZone(preferred) ? preferred : browserZone();
}

/** The browser's own time zone; UTC where it has none that can be used. */
export function browserZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return isKnownZone(zone) ? zone : "UTC";
}

/** Whether both Intl and the server accept a time zone: the server takes no offsets (+05:30) and no Etc/Unknown. */
export function isKnownZone(name) {
  if (!/^[A-Za-z]/.test(name || "") || name === "Etc/Unknown") return false;
  try {
    return Boolean(new Intl.DateTimeFormat("en", { timeZone: name }));
  } catch {
    return false;
  }
}

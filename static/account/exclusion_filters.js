// Which filters of the reports match what an entry of a website's exclusions matches. Pure.

const FIELDS = { countries: "country", pages: "pathname", hostnames: "hostname" };

/**
 * Returns the parts of queries, each with a different part of the events, and whether they match the same events as the
 * entry, not more; null where reports have no such field.
 *
 * @param {string} kind
 * @param {string} text
 * @returns {{ queries: string[], isExact: boolean } | null}
 */
export function filtersOf(kind, text) {
  if (kind === "referrers" || kind === "not_spam") {
    const host = text.replace(/^www\./i, "");
    const queries = [filter("referrer", "=", host), filter("referrer", "$=", `.${host}`)];
    return { queries, isExact: true };
  }
  if (kind === "countries") return { queries: [filter(FIELDS.countries, "=", text)], isExact: true };
  if (kind !== "pages" && kind !== "hostnames") return null;
  const parts = text.split(/\*+/);
  if (parts.length === 1) return { queries: [filter(FIELDS[kind], "=", text)], isExact: true };
  const [first, last] = [parts[0], parts[parts.length - 1]];
  // Values of one filter are alternatives, so one of several parts in the middle is compared.
  const middle = parts.slice(1, -1).find(Boolean);
  const query = [
    first ? filter(FIELDS[kind], "^=", first) : "",
    middle ? filter(FIELDS[kind], "*=", middle) : "",
    last ? filter(FIELDS[kind], "$=", last) : "",
  ];
  return { queries: [query.join("")], isExact: parts.filter(Boolean).length < 2 };
}

/**
 * @param {string} field
 * @param {string} operator
 * @param {string} value
 */
function filter(field, operator, value) {
  const name = `filter_${field}${operator.slice(0, -1)}`;
  return `&${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
}

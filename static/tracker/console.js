// Names in the console what was not stored, and what was stored without a field; each reason once for each kind of event.
const MAX_LINES = 20;
// What to do, by the field that broke its rule.
const FIXES = {
  website_id: "set data-website-id, or ?id= in the script's URL",
  url: "shorten the page's address",
  referrer: "the page before has no http or https address, or a very long one",
  event_name: "give tally.track a name of 1 to 200 characters",
  event_data: "give tally.track an object of at most 4,096 bytes as JSON",
  experiment: "give a name of 1 to 100 characters",
  variant: "give a name of 1 to 100 characters",
  goal: "give a name of at most 100 characters",
  value: "give a number",
};
// These do not depend on what kind of event it is.
const OF_ALL = /^(crawler|excluded_|monthly_limit_|origin_|unknown_website)|website_id/;
const TOO_LARGE = { errors: [{ code: "event_data_too_large", field: "event_data" }] };
const shown = new Set();

const show = ({ type, event_name, experiment, url }, { code, field, message = "" }, what) => {
  const name = `${event_name || experiment || type}`.slice(0, 200);
  const key = OF_ALL.test(`${code} ${field}`) ? code : [name, code, field].join();
  if (shown.has(key) || shown.size >= MAX_LINES) return;
  shown.add(key);
  const reason = field ? `${code} in ${field}` : code;
  const fix = FIXES[field] || (/^utm_/.test(field) && "shorten it to 100 characters");
  console.warn(
    `Tally: ${name} on ${url} was ${what}: ${[reason, message.replace(/\.$/, ""), fix].filter(Boolean).join("; ")}`,
  );
};

export default (push, flush, dataset, here, [events, response = TOO_LARGE]) => {
  const { error, errors, warnings } = /** @type {any} */ (response || {});
  const refused = Array.isArray(errors) ? errors : warnings ? [] : [error || { code: "status 400" }];
  for (const one of refused) show(events[one.index || 0] || {}, one, "not stored");
  for (const one of warnings || []) show(events[one.index] || {}, one, "stored with a warning");
};

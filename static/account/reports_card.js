// Summaries in the section Notifications: which are sent, with a preview of each, and the dialog that adds one.

import { confirmDialog, failureNotice, notify, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { checkbox, field, form } from "../shared/forms.js";
import { PROPERTY_FILTERS, filterText, readFilter, valuesByKey } from "../shared/filter_words.js";
import { filtersField } from "../shared/filters_field.js";
import { dateTime, displayZone } from "../shared/formats.js";
import { language } from "../shared/language.js";
import { texts } from "../shared/messages.js";
import { actionTable, sectionCard } from "./card.js";
import { websiteBoxes } from "./key_options.js";
import { runOnce } from "./run_once.js";

const t = await texts("account");
const shared = await texts("shared");

const PATH = "/api/account/reports";
const DEFAULT_HOUR = 8;
/** @type {Record<string, string>} */
const PERIODS = { day: t("report_day"), week: t("report_week"), month: t("report_month") };

/**
 * Returns the card of summaries; it is filled when they have loaded.
 *
 * @param {Context} context
 * @param {Channel[]} channels
 */
export function reportsCard(context, channels) {
  const content = h("div", { class: "stack" });
  const load = async () => {
    const answer = await get(PATH, { signal: context.signal });
    if (context.signal.aborted) return;
    if (!answer.ok) return fill(content, failureNotice(t("reports_failed"), answer.error, load));
    const add = h("button", { class: "button", type: "button" }, t("add_report"));
    add.addEventListener("click", () => addDialog(context, channels, load));
    const rows = answer.data.map((/** @type {Report} */ one) => reportRow(context, channels, one, load));
    fill(content, rows.length ? actionTable([t("key_websites"), t("report_period"), t("channels")], rows) : null, [
      h("div", { class: "row" }, add),
    ]);
  };
  load();
  return sectionCard(t("reports"), h("p", { class: "soft" }, t("reports_lead")), content);
}

/**
 * @param {Context} context
 * @param {Channel[]} channels
 * @param {Report} report
 * @param {() => void} load
 */
function reportRow(context, channels, report, load) {
  const websites = context.websites.filter((one) => report.websites?.includes(one.id));
  const name = report.websites ? websites.map((one) => one.name || one.domain).join(", ") : shared("all_websites");
  const path = `${PATH}/${report.id}`;
  /** @param {string} words @param {() => any} work */
  const button = (words, work) => {
    const label = t("of_channel", { action: words, name: `${name}, ${PERIODS[report.period]}` });
    const made = h("button", { class: "button small", type: "button", "aria-label": label }, words);
    made.addEventListener("click", () => runOnce(made, work));
    return made;
  };
  const limits = valuesByKey(report.filters.map(readFilter)).map(([key, values]) => filterText(key, values));
  const next = dateTime(report.next_at, displayZone(context.account.time_zone));
  const names = channels.filter((one) => report.channels.includes(one.id)).map((one) => one.name);
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row", class: "key-name" },
      name,
      limits.map((words) => h("span", { class: "key-limits soft breakable" }, words)),
    ),
    h(
      "td",
      { dataset: { head: t("report_period") } },
      PERIODS[report.period],
      h("span", { class: "key-limits soft" }, t("report_next", { time: next })),
    ),
    h("td", { dataset: { head: t("channels") } }, names.join(", ") || t("no_channels")),
    h(
      "td",
      { class: "num" },
      h("div", { class: "row" }, [
        button(t("preview_report"), () => preview(path)),
        button(shared("delete"), () => removed(path, load)),
      ]),
    ),
  );
}

/**
 * @param {string} path
 */
async function preview(path) {
  const answer = await get(`${path}/preview?language=${language}`);
  if (!answer.ok) return notify(answer.error.message);
  openDialog({ title: answer.data.title, body: mailFrame(answer.data), wide: true });
}

/**
 * Returns a mail in a frame that runs no script and loads nothing.
 *
 * The frame has the policy of this page, which refuses styles in HTML: they are taken out of it, and set afterwards. What
 * visitors have sent is escaped in it, and has no quotes.
 *
 * @param {{ title: string, html: string }} mail
 */
function mailFrame({ title, html }) {
  const styles = html.match(/<style>(.*?)<\/style>/s)?.[1] || "";
  const srcdoc = html.replace(/<style>.*?<\/style>/s, "").replaceAll(' style="', ' data-style="');
  const frame = h("iframe", { class: "report-preview", sandbox: "allow-same-origin", srcdoc, title });
  frame.addEventListener("load", () => {
    const mail = frame.contentDocument;
    if (!mail || !mail.defaultView) return;
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (mail.querySelectorAll("[data-style]"))) {
      one.style.cssText = one.dataset.style || "";
    }
    const sheet = new mail.defaultView.CSSStyleSheet();
    sheet.replaceSync(styles);
    mail.adoptedStyleSheets = [sheet];
    // A page is not shown in the frame.
    for (const link of mail.querySelectorAll("a")) link.removeAttribute("href");
  });
  return frame;
}

/**
 * @param {string} path
 * @param {() => void} load
 */
async function removed(path, load) {
  const title = t("delete_report_question");
  const words = t("delete_report_effect");
  if (!(await confirmDialog({ title, words, action: shared("delete"), danger: true }))) return;
  const answer = await send("DELETE", path);
  if (!answer.ok && answer.status !== 404) return notify(answer.error.message);
  load();
}

/**
 * @param {Context} context
 * @param {Channel[]} channels
 * @param {() => void} load
 */
function addDialog(context, channels, load) {
  const boxes = websiteBoxes(context.websites.map(({ id, name, domain }) => ({ id, name: name || domain })));
  const period = h(
    "select",
    null,
    Object.entries(PERIODS).map(([value, words]) => h("option", { value, selected: value === "week" }, words)),
  );
  const hour = h(
    "select",
    null,
    Array.from({ length: 24 }, (_, one) =>
      h("option", { value: String(one), selected: one === DEFAULT_HOUR }, `${String(one).padStart(2, "0")}:00`),
    ),
  );
  const chosen = channels.map((one) => ({ id: one.id, ...checkbox({ label: one.name, name: `channel-${one.id}` }) }));
  if (chosen.length === 1) chosen[0].input.checked = true;
  const channelBoxes = h(
    "fieldset",
    { class: "key-websites" },
    h("legend", null, t("channels")),
    h(
      "div",
      { class: "key-website-list" },
      chosen.map((one) => one.element),
    ),
  );
  const empty = checkbox({ label: t("report_empty"), name: "empty" });
  const limits = filtersOfOne(context, () => boxes.chosen());
  boxes.element.addEventListener("change", limits.draw);
  const made = form({
    fields: [
      field({ label: t("report_period"), name: "period", input: period }),
      field({ label: t("report_hour"), name: "hour", input: hour, hint: t("report_hour_hint") }),
    ],
    action: t("add_report"),
    busy: t("adding_channel"),
    submit: async () => {
      const ids = chosen.filter((one) => one.value()).map((one) => one.id);
      const missing = { code: "", message: t("choose_channel"), field: null, retryAfter: null };
      if (!ids.length) return { ok: false, error: missing };
      const answer = await send("POST", PATH, {
        ...limits.value(),
        period: period.value,
        hour: Number(hour.value),
        channels: ids,
        skip_empty: !empty.value(),
      });
      if (!answer.ok) return answer;
      dialog.close();
      load();
      return null;
    },
  });
  const before = made.element.lastElementChild;
  if (context.websites.length > 1) made.element.insertBefore(boxes.element, made.element.firstElementChild);
  made.element.insertBefore(channelBoxes, before);
  made.element.insertBefore(limits.element, before);
  made.element.insertBefore(empty.element, before);
  const dialog = openDialog({ title: t("add_report"), body: made.element });
  period.focus();
}

/**
 * Returns the filters of a summary, which are of one website: { element, draw, value }.
 *
 * @param {Context} context
 * @param {() => string[] | null} chosen  ids of the websites; null for all
 */
function filtersOfOne(context, chosen) {
  const element = h("div", { class: "stack" });
  /** @type {{ website: Website, filters: ReturnType<typeof filtersField> } | null} */
  let shown = null;
  const one = () => {
    const ids = chosen() || context.websites.map(({ id }) => id);
    return ids.length === 1 ? context.websites.find(({ id }) => id === ids[0]) : undefined;
  };
  /** @param {Website} website @param {string[]} filters @param {Segment[]} segments */
  const fields = (website, filters, segments) => {
    const own = filtersField({
      ...{ website, label: t("report_filters"), soft: shared("optional"), hint: t("report_filters_hint") },
      ...{ name: "filters", filters, fields: PROPERTY_FILTERS },
    });
    shown = { website, filters: own };
    const take = h("select", null, [
      h("option", { value: "" }, shared("no_segment")),
      segments.map(({ id, name }) => h("option", { value: id }, name)),
    ]);
    take.addEventListener("change", () => {
      const segment = segments.find(({ id }) => id === take.value);
      if (segment) fields(website, segment.filters, segments);
    });
    fill(
      element,
      segments.length ? field({ label: shared("take_segment"), name: "segment", input: take }).element : null,
      own.element,
    );
    return own;
  };
  const draw = async () => {
    const website = one();
    if (website && website.id === shown?.website.id) return;
    shown = null;
    if (!website) return fill(element);
    const typed = fields(website, [], []);
    const answer = await get(`/api/account/websites/${website.id}/segments`, { signal: context.signal });
    if (answer.ok && answer.data.length && one() === website) fields(website, typed.value(), answer.data);
  };
  void draw();
  const value = () => {
    const filters = shown ? shown.filters.value() : [];
    return { websites: shown && filters.length ? [shown.website.id] : chosen(), filters };
  };
  return { element, draw, value };
}

// The dialog that adds, changes and deletes an annotation.

import { send } from "../shared/api.js";
import { confirmDialog, notify, openDialog } from "../shared/dialog.js";
import { h, loadStylesheet } from "../shared/dom.js";
import { dateTime, dayRange } from "../shared/formats.js";
import { checkbox, field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { isViewer } from "../shared/roles.js";
import { zoneLabel } from "../shared/time_zones.js";
import { localTime, offsetAt } from "../shared/view_state.js";

await loadStylesheet("/assets/account/account.css");
const t = await texts("dashboard_dialogs");
const shared = await texts("shared");

/**
 * Opens the dialog; one without an id is new. `changed` is called after a change. Viewers read it.
 *
 * @param {Board} board
 * @param {Annotation} one
 * @param {() => void} changed
 */
export function openAnnotation(board, one, changed) {
  if (isViewer()) return void openDialog({ title: t("annotation"), body: reading(board, one) });
  const path = `/api/account/websites/${board.website.id}/annotations`;
  const { zone } = board.view();
  const timed = checkbox({ label: t("with_time"), name: "timed", hint: t("dates_in_zone", { zone: zoneLabel(zone) }) });
  timed.input.checked = one.from.includes("T");
  const first = momentField(one.from, zone, { label: t("from_date"), name: "from", missing: t("enter_date") });
  const last = momentField(one.to || "", zone, { label: t("to_date"), name: "to", soft: shared("optional") });
  const turn = () => [first, last].forEach((own) => own.turn(timed.value()));
  timed.input.addEventListener("change", turn);
  turn();
  const fields = [
    field({ label: t("annotation_text"), name: "text", value: one.text, missing: t("enter_text"), maxlength: 500 }),
    ...[first, last, timed],
  ];
  const remove = h("button", { class: "button warning", type: "button" }, shared("delete"));
  const made = form({
    fields,
    action: one.id ? t("save_annotation") : t("add_annotation"),
    busy: shared("saving"),
    beside: one.id ? remove : null,
    submit: async ({ text, from, to }) => {
      const body = { text: text.trim(), from, to: to || null };
      const answer = await send(one.id ? "PATCH" : "POST", one.id ? `${path}/${one.id}` : path, body);
      if (!answer.ok) return answer;
      finish(one.id ? t("annotation_saved") : t("annotation_added"));
      return null;
    },
  });
  const isPublic = board.website.share_links.length > 0;
  const note = isPublic ? h("p", { class: "soft small-text" }, t("annotation_public")) : null;
  const dialog = openDialog({ title: one.id ? t("annotation") : t("new_annotation"), body: [made.element, note] });
  function finish(/** @type {string} */ words) {
    dialog.close();
    notify(words);
    changed();
  }
  remove.addEventListener("click", async () => {
    const question = { title: t("delete_annotation"), words: one.text, action: shared("delete"), danger: true };
    if (!(await confirmDialog(question))) return;
    const answer = await send("DELETE", `${path}/${one.id}`);
    if (answer.ok) finish(t("annotation_deleted"));
    else made.fail(answer.error);
  });
  made.focus();
}

/**
 * Returns a field for a date or a time: its value is written as an annotation has it, "2026-11-21" or a time in UTC. What is
 * not changed keeps its seconds. `turn(isTimed)` chooses which of the two.
 *
 * @param {string} moment
 * @param {string} zone
 * @param {FieldOptions} options
 */
function momentField(moment, zone, options) {
  const made = field({ ...options, type: "date" });
  const { input } = made;
  const begins = moment.includes("T") ? localMinute(Date.parse(moment), zone) : moment;
  input.value = begins;
  /** @type {string} */
  let kept = begins;
  input.addEventListener("input", () => (kept = input.value));
  return {
    ...made,
    value: () => (input.type === "date" || !input.value ? input.value : written(input.value)),
    turn(/** @type {boolean} */ isTimed) {
      const day = kept.slice(0, 10);
      input.type = isTimed ? "datetime-local" : "date";
      input.value = kept = isTimed && day && kept.length === 10 ? `${day}T00:00` : isTimed ? kept : day;
    },
  };

  function written(/** @type {string} */ local) {
    if (local === begins) return moment;
    const ms = Date.parse(`${local}Z`);
    // The offset of the zone at that moment, also on the day of a change.
    return new Date(ms - offsetAt(ms - offsetAt(ms, zone), zone)).toISOString();
  }
}

/**
 * @param {number} ms
 * @param {string} zone
 */
function localMinute(ms, zone) {
  return localTime(ms, zone).join("T").slice(0, 16);
}

/**
 * @param {Board} board
 * @param {Annotation} annotation
 */
function reading(board, { text, from, to }) {
  const { zone } = board.view();
  const words = (/** @type {string} */ moment) =>
    moment.includes("T") ? dateTime(moment, zone) : dayRange(moment, moment);
  return [
    h("p", { class: "wrap" }, text),
    h(
      "p",
      { class: "soft" },
      to && !from.includes("T")
        ? dayRange(from, to)
        : [from, to]
            .filter(Boolean)
            .map((one) => words(/** @type {string} */ (one)))
            .join(" – "),
    ),
  ];
}

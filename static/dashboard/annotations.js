// Annotations on the chart: a marker at each bucket that has any, and, for the owner, the dialog that adds, changes and
// deletes one. While the button "Annotate" is pressed, a click, a drag or Enter on the chart chooses the dates of a new
// annotation instead of narrowing the range.

import { localTime } from "../shared/view_state.js";
import { isWithinDay } from "../shared/buckets.js";
import { h, icon } from "../shared/dom.js";
import { openDialog, openWhenLoaded } from "../shared/dialog.js";
import { texts } from "../shared/messages.js";

const t = await texts("dashboard");
const shared = await texts("shared");

/**
 * Returns { button, pick(first, last), open(annotations) }. `pick` returns whether it has taken the chosen buckets;
 * `changed` is called after a change.
 *
 * @param {Board} board
 * @param {() => void} changed
 */
export function annotationTool(board, changed) {
  const button = h(
    "button",
    { class: "button small quiet for-editors", type: "button", "aria-pressed": "false", title: t("annotate_hint") },
    icon("plus"),
    t("annotate"),
  );
  const isOn = () => button.getAttribute("aria-pressed") === "true";
  const set = (/** @type {boolean} */ on) => button.setAttribute("aria-pressed", String(on));
  button.addEventListener("click", () => {
    set(!isOn());
    if (isOn()) board.announce(t("choose_place"));
  });
  button.addEventListener("keydown", (event) => event.key === "Escape" && set(false));
  return {
    button,
    pick(/** @type {number} */ first, /** @type {number} */ last) {
      if (!isOn()) return false;
      set(false);
      const [from, to] = [first, last].map((ms) => written(ms, board));
      annotationDialog(board, { id: "", from, to: to === from ? null : to, text: "" }, changed);
      return true;
    },
    open(/** @type {Annotation[]} */ own) {
      if (own.length === 1) return annotationDialog(board, own[0], changed);
      const dialog = openDialog({
        title: shared("annotations"),
        body: own.map((one) => {
          const choose = () => {
            dialog.close();
            annotationDialog(board, one, changed);
          };
          return h("p", null, h("button", { class: "button", type: "button", onclick: choose }, one.text));
        }),
      });
    },
  };
}

/**
 * Returns a moment as an annotation has it: a date, or in a chart by hours a time.
 *
 * @param {number} ms
 * @param {Board} board
 */
function written(ms, board) {
  return isWithinDay(board.span().interval) ? new Date(ms).toISOString() : localTime(ms, board.view().zone)[0];
}

/**
 * @param {Board} board
 * @param {Annotation} one
 * @param {() => void} changed
 */
function annotationDialog(board, one, changed) {
  return openWhenLoaded(import("./annotation_dialog.js"), ({ openAnnotation }) => openAnnotation(board, one, changed));
}

/**
 * Returns the markers of some annotations: [{ at, label, annotations }], one for each bucket in which any begins, or the
 * first one where it began before the chart.
 *
 * @param {Annotation[]} annotations
 * @param {string[]} times  the buckets' local starts, in ISO 8601
 * @returns {ChartMark[]}
 */
export function marksOf(annotations, times) {
  /** @type {Map<number, Annotation[]>} */
  const found = new Map();
  for (const one of annotations) {
    const at = placeOf(one, times);
    if (at !== null) found.set(at, [...(found.get(at) || []), one]);
  }
  return [...found].map(([at, own]) => ({
    at,
    label: own.map(({ text }) => text).join("; "),
    annotations: own,
  }));
}

/**
 * Returns the bucket at which an annotation is drawn; null where it is not within the chart.
 *
 * @param {Annotation} one
 * @param {string[]} times
 */
function placeOf({ from, to }, times) {
  const [begin, end] = [bucketOf(from, times), to === null ? null : bucketOf(to, times)];
  if (begin >= 0) return begin < times.length ? begin : null;
  return end !== null && end >= 0 ? 0 : null;
}

/**
 * Returns the bucket of a date or time: -1 before the first one, the number of buckets behind the last one.
 *
 * @param {string} moment
 * @param {string[]} times
 */
function bucketOf(moment, times) {
  const isDate = moment.length === 10;
  const starts = times.map((time) => (isDate ? time.slice(0, 10) : Date.parse(time)));
  const own = isDate ? moment : Date.parse(moment);
  const place = starts.findLastIndex((start) => start <= own);
  // A date is drawn at the first hour of its day.
  if (place >= 0 && isDate) {
    const first = starts.indexOf(starts[place]);
    return place < starts.length - 1 || starts[place] === own || isWithinLast(moment, times) ? first : times.length;
  }
  if (place < 0 || place < times.length - 1) return place;
  return isWithinLast(moment, times) ? place : times.length;
}

/**
 * Returns whether a moment at or after the start of the last bucket lies in it: it is as long as the one before it.
 *
 * @param {string} moment
 * @param {string[]} times
 */
function isWithinLast(moment, times) {
  const last = Date.parse(times[times.length - 1]);
  const length = times.length > 1 ? last - Date.parse(times[times.length - 2]) : 86_400_000;
  const ms =
    moment.length === 10 ? Date.parse(`${moment}T00:00${times[times.length - 1].slice(23)}`) : Date.parse(moment);
  return ms < last + length;
}

// Two funnels of the same steps side by side: of two values of a field, or of the range and the one that it is compared with,
// with a verdict for each step: whether the difference is probably chance or probably real.

import { beforeWords, comparedUntil, requestCompared } from "../dashboard/key_figures.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldName, fieldTitle, valueText } from "../shared/fields.js";
import { dayRange, percentOf } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { reportQuery, withKey } from "../shared/view_state.js";
import { SIDE_FIELDS, shownValue, stepText } from "./steps.js";

const t = await texts("funnels");
const shared = await texts("shared");
// As many values as are offered.
const VALUES = 50;
// The usual threshold, as that of experiments.
const MAX_P_VALUE = 0.05;

/**
 * Returns { element, draw(), load() }: the choice, and the table of two funnels.
 *
 * @param {Board} board
 */
export function sideBySide(board) {
  const choice = h("p", { class: "row no-print" });
  const place = h("div", { class: "side-place" });
  /** @type {Record<string, string[]>} */
  const known = {};
  let current = 0;

  function draw() {
    const { side } = board.view();
    const select = h(
      "select",
      { "aria-label": t("side_by_side"), value: side, dataset: { key: "side" } },
      h("option", { value: "" }, t("side_off")),
      h("option", { value: "period" }, t("side_periods")),
      SIDE_FIELDS.map((field) => h("option", { value: field }, fieldTitle(field))),
    );
    select.addEventListener("change", () => board.go({ ...board.view(), side: select.value, sideA: "", sideB: "" }));
    refill(choice, h("span", { class: "soft" }, t("side_by_side")), select);
    if (!side) fill(place);
  }

  /** Fetches and draws the funnels of the address. */
  async function load() {
    const { side } = board.view();
    if (!side) return;
    const mine = ++current;
    place.setAttribute("aria-busy", "true");
    const found = side === "period" ? await ofPeriods() : await ofValues(side);
    if (mine !== current || board.signal.aborted) return;
    place.removeAttribute("aria-busy");
    if (found.error) return void fill(place, failureNotice(t("funnel_failed"), found.error, load));
    refill(place, found.rows ? table(found.rows, found.heads) : h("p", { class: "soft" }, t("side_none")));
  }

  async function ofPeriods() {
    const answer = await requestCompared(board, (compared) => funnel(board.view(), compared));
    if (!answer.ok) return { error: answer.error };
    const span = comparedUntil(board.span(), answer.meta.previous_to);
    const rows = answer.meta.compare ? answer.data : null;
    return { rows, heads: [dayRange(span.from, span.to), beforeWords(span)] };
  }

  async function ofValues(/** @type {string} */ field) {
    // Without filters of the field, so that its other values are offered.
    const open = withKey(board.view(), field, []);
    const top = await get(`${board.base}/top/${field}?${reportQuery(open, board.span(), { limit: VALUES })}`, {
      signal: board.signal,
    });
    if (!top.ok) return { error: top.error };
    known[field] = top.data.map((/** @type {{ value: string }} */ row) => row.value);
    const { sideA, sideB } = board.view();
    const a = sideA || known[field].find((value) => value !== sideB);
    const b = sideB || known[field].find((value) => value !== a);
    if (a === undefined || b === undefined) return { rows: null, heads: [] };
    const answer = await funnel(withKey(open, field, [a]), { against: `${field}:${b}` });
    if (!answer.ok) return { error: answer.error };
    return { rows: answer.data, heads: [values(field, "sideA", a, b), values(field, "sideB", b, a)] };
  }

  const funnel = (/** @type {View} */ view, /** @type {Record<string, any>} */ more) => {
    const steps = view.steps.map((/** @type {FunnelStep} */ step) => `step=${encodeURIComponent(stepText(step))}`);
    return get(`${board.base}/funnel?${[reportQuery(view, board.span(), more), ...steps].join("&")}`, {
      signal: board.signal,
    });
  };

  function values(
    /** @type {string} */ field,
    /** @type {string} */ part,
    /** @type {string} */ chosen,
    /** @type {string} */ other,
  ) {
    const offered = [...new Set([chosen, ...known[field]])].filter((value) => value !== other);
    const select = h(
      "select",
      { "aria-label": fieldName(field), value: chosen, dataset: { key: part } },
      offered.map((value) => h("option", { value }, valueText(field, value))),
    );
    const both = part === "sideA" ? { sideB: other } : { sideA: other };
    select.addEventListener("change", () => board.go({ ...board.view(), ...both, [part]: select.value }));
    return select;
  }

  /**
   * @param {FunnelRow[]} rows
   * @param {Child[]} heads
   */
  function table(rows, heads) {
    const { steps } = board.view();
    const before = rows.map((row) => /** @type {FunnelRow} */ (row.previous));
    return h(
      "div",
      { class: "table-scroll", tabindex: "0", role: "region", "aria-label": t("side_by_side") },
      h(
        "table",
        { class: "table side-table" },
        h("thead", null, h("tr", null, [t("step"), ...heads, t("side_difference")].map(head))),
        h(
          "tbody",
          null,
          rows.map((row, i) =>
            h(
              "tr",
              null,
              h(
                "th",
                { scope: "row", class: "wrap" },
                `${i + 1}. `,
                h("bdi", null, shownValue(steps[i], board.saved())),
              ),
              cell(row, rows[0]),
              cell(before[i], before[0]),
              h("td", null, i ? verdict(row) : ""),
            ),
          ),
        ),
      ),
    );
  }
  return { element: h("div", { class: "side-by-side" }, choice, place), draw, load };
}

const head = (/** @type {Child} */ content) => h("th", { scope: "col" }, content);

/**
 * @param {FunnelRow} row
 * @param {FunnelRow} first
 */
function cell(row, first) {
  const part = first.visits ? row.visits / first.visits : 0;
  return h(
    "td",
    null,
    h("span", { class: "side-figures" }, [
      h("strong", null, percentOf(row.visits, first.visits)),
      " ",
      h("span", { class: "soft" }, shared("count_visits", { count: row.visits })),
    ]),
    h("div", { class: "step-bar", "aria-hidden": "true", style: { "--now": String(part), "--before": "1" } }),
  );
}

/**
 * @param {FunnelRow} row
 */
function verdict({ p_value: value }) {
  if (value === null || value === undefined) return h("span", { class: "soft" }, t("side_few"));
  return value < MAX_P_VALUE ? h("strong", null, t("probably_real")) : h("span", null, t("probably_chance"));
}

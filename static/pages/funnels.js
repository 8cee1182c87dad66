// The funnels page (/websites/{id}/funnels): two to eight pages, events or goals, how many visits reach each of them in order,
// and how many drop off between them.
//
// The steps are in the address: a link or a bookmark keeps a funnel; it can also be saved under a name.

import { comparedUntil, requestCompared } from "../dashboard/key_figures.js";
import { stepDialog } from "../funnels/step_dialog.js";
import { drawFunnel, drawTable, partChange, summaryWords } from "../funnels/funnel_chart.js";
import { sideBySide } from "../funnels/side_by_side.js";
import { savedFunnels } from "../funnels/saved_funnels.js";
import { FUNNEL_KINDS, MIN_STEPS, STEPS_STATE, moveStep, shownValue, stepText } from "../funnels/steps.js";
import { copyButton } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { emptyState, websitePage } from "../shared/website_page.js";
import { comparisonOf, isFiltered } from "../shared/view_state.js";
import { texts } from "../shared/messages.js";

const t = await texts("funnels");
const shared = await texts("shared");

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_funnels"),
  styles: ["/assets/funnels/funnels.css"],
  compares: true,
  state: STEPS_STATE,
  shortcuts: [
    ["a", t("add_step"), (board) => add(board)],
    [t("keys_move"), t("keys_move_does"), null],
    [t("keys_remove"), t("keys_remove_does"), null],
  ],
  foot: t("foot"),
  build,
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export const show = (root, context) => websitePage(root, context, PAGE);

const setSteps = (/** @type {Board} */ board, /** @type {FunnelStep[]} */ steps) =>
  board.go({ ...board.view(), steps });

/**
 * @param {Board} board
 */
function add(board) {
  const { steps } = board.view();
  stepDialog(board, {
    kinds: FUNNEL_KINDS,
    step: null,
    title: steps.length ? t("step_number", { number: steps.length + 1 }) : t("first_step"),
    action: t("add_step"),
    take: (step) => setSteps(board, [...steps, step]),
  });
}

/**
 * @param {Board} board
 */
function actions(board) {
  const steps = () => board.view().steps;
  return {
    add: () => add(board),
    change: (/** @type {number} */ i) =>
      stepDialog(board, {
        kinds: FUNNEL_KINDS,
        step: steps()[i],
        title: t("step_number", { number: i + 1 }),
        action: t("change_step"),
        take: (step) =>
          setSteps(
            board,
            steps().map((/** @type {any} */ one, /** @type {number} */ n) => (n === i ? step : one)),
          ),
      }),
    move: (/** @type {number} */ i, /** @type {number} */ to) => setSteps(board, moveStep(steps(), i, to)),
    remove: (/** @type {number} */ i) =>
      setSteps(
        board,
        steps().filter((/** @type {any} */ _, /** @type {number} */ n) => n !== i),
      ),
  };
}

/**
 * @param {Board} board
 */
function build(board) {
  const nodes = createNodes();
  const act = actions(board);
  const saved = savedFunnels(board);
  nodes.keep.append(saved.save);
  const side = sideBySide(board);
  nodes.behind.before(side.element);
  let isQuiet = false;
  let isOpened = false;
  /** @type {CsvFile[]} */
  let files = [];

  const loadFunnel = board.panel(nodes.summary, {
    what: () => t("funnel_failed"),
    request: async (signal) => {
      const answer = await fetchFunnel(board, signal);
      if (signal.aborted) return answer;
      nodes.funnel.removeAttribute("aria-busy");
      // Steps can be changed after a failure.
      if (!answer.ok && !isQuiet) drawSteps(false);
      return answer;
    },
    draw: ({ data, previous, meta }) => drawAll(data, previous, meta),
  });
  const loadProposal = board.panel(nodes.page, {
    what: () => t("proposal_failed"),
    request: (signal) => fetchProposal(board, signal),
    draw: ({ data }) => fill(nodes.page, proposalNode(board, data)),
  });

  const shownSteps = () =>
    board.view().steps.map((/** @type {FunnelStep} */ step) => ({ ...step, text: shownValue(step, board.saved()) }));

  /**
   * @param {any[]} rows
   * @param {number} all
   * @param {{ previous_to?: string, compare?: string }} meta
   */
  function drawAll(rows, all, meta) {
    const span = comparedUntil(board.span(), meta.previous_to);
    const steps = shownSteps();
    const [first, rest] = summaryWords(rows, isFiltered(board.view()));
    fill(
      nodes.summary,
      h(
        "p",
        { class: "sum" },
        [h("strong", null, first), " ", h("span", { class: "soft" }, rest), " "],
        partChange(rows, rows.length - 1, span),
      ),
    );
    board.announce(`${first} ${rest}`);
    drawFunnel(nodes.funnel, { steps, rows, all, act, span, isWaiting: false });
    drawTable(nodes.table, steps, rows, span);
    nodes.behind.hidden = false;
    side.element.hidden = false;
    side.draw();
    void side.load();
    const compared = meta.compare ? comparisonOf(board.view(), board.span()) : {};
    const path = `${board.base}/funnel?${funnelQuestion(board, { ...compared, format: "csv" })}`;
    files = [[t("csv_of_funnel"), path, "funnel.csv"]];
  }

  /** Draws steps without figures: too few steps, or still loading. */
  /**
   * @param {boolean} isWaiting
   */
  function drawSteps(isWaiting) {
    files = [];
    nodes.behind.hidden = true;
    side.element.hidden = true;
    drawFunnel(nodes.funnel, { steps: shownSteps(), rows: null, all: null, act, span: board.span(), isWaiting });
  }

  /**
   * @param {{ quietly: boolean, last: View | null }} options
   */
  async function load({ quietly, last }) {
    // The names of goals; without them their ids are shown.
    const { goals } = board.saved();
    const isUnnamed = (/** @type {FunnelStep} */ { field, value }) => field === "goal" && !goals[value];
    if (board.view().steps.some(isUnnamed)) await board.loadSaved();
    const { steps } = board.view();
    isQuiet = quietly;
    if (!isOpened) {
      isOpened = true;
      const used = steps.length ? void saved.load() : await saved.load(true);
      if (used) return void board.go({ ...board.view(), steps: used }, { replace: true });
    }
    if (!steps.length) return loadProposal({ quietly });
    if (!nodes.page.contains(nodes.card)) {
      nodes.page.removeAttribute("aria-busy");
      fill(nodes.page, nodes.card);
    }
    const isSame = last && JSON.stringify(last.steps) === JSON.stringify(steps);
    if (steps.length < MIN_STEPS) return (fill(nodes.summary), drawSteps(false));
    // The old figures belong to other steps.
    if (!quietly && !isSame) drawSteps(true);
    if (!quietly) nodes.funnel.setAttribute("aria-busy", "true");
    return loadFunnel({ quietly });
  }
  return {
    element: [saved.element, nodes.page],
    load,
    files: () => (board.view().steps.length < MIN_STEPS ? [] : files),
  };
}

function createNodes() {
  /** @type {Record<string, any>} */
  const nodes = {
    summary: h("div", { class: "funnel-summary" }),
    funnel: h("div", { class: "funnel-place" }),
    table: h("div", {
      class: "table-scroll series-scroll",
      tabindex: "0",
      role: "region",
      "aria-label": t("table_of_funnel"),
    }),
  };
  nodes.keep = h("span");
  nodes.behind = h(
    "div",
    { class: "behind", hidden: true },
    h("details", { class: "series-table" }, h("summary", null, t("table_of_this_funnel")), nodes.table),
    h(
      "p",
      { class: "row no-print" },
      h("span", { class: "soft small-text" }, t("link_has_funnel")),
      nodes.keep,
      copyButton(() => location.href, t("copy_link")),
    ),
  );
  nodes.card = h(
    "section",
    { class: "card funnel-card", "aria-label": t("funnel") },
    nodes.summary,
    nodes.funnel,
    nodes.behind,
  );
  nodes.page = h("div", { class: "funnels-page" });
  return nodes;
}

/**
 * @param {Board} board
 * @param {Record<string, any>} [more]
 */
function funnelQuestion(board, more = {}) {
  return [
    board.query(more),
    ...board.view().steps.map((/** @type {FunnelStep} */ step) => `step=${encodeURIComponent(stepText(step))}`),
  ].join("&");
}

/**
 * Fetches the funnel, and as `previous` the visits of the range; null where that request fails.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 */
async function fetchFunnel(board, signal) {
  const [answer, stats] = await Promise.all([
    requestCompared(board, (compared) => get(`${board.base}/funnel?${funnelQuestion(board, compared)}`, { signal })),
    board.request("stats", {}, signal),
  ]);
  return { ...answer, previous: stats.ok ? stats.data.visits : null };
}

/**
 * Fetches an example: the top entry page, and the top event or else another top page.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 */
async function fetchProposal(board, signal) {
  const [entry, names, pages] = await Promise.all([
    board.request("entry-pages", { limit: 1 }, signal),
    board.request("event-names", { limit: 1 }, signal),
    board.request("top/pathname", { limit: 2 }, signal),
  ]);
  const failed = [entry, names, pages].find((answer) => !answer.ok);
  if (failed) return failed;
  const first = entry.data[0]?.value;
  const next = names.data[0]?.value;
  const other = pages.data.find((/** @type {any} */ row) => row.value !== first)?.value;
  const steps = [
    first === undefined ? null : { field: "pathname", value: first },
    next !== undefined
      ? { field: "event_name", value: next }
      : other === undefined
        ? null
        : { field: "pathname", value: other },
  ].filter(Boolean);
  return { ...entry, data: steps };
}

/**
 * @param {Board} board
 * @param {FunnelStep[]} steps
 */
function proposalNode(board, steps) {
  const choose = h(
    "button",
    {
      class: steps.length < MIN_STEPS ? "button primary" : "button",
      type: "button",
      dataset: { key: "add-step" },
      onclick: () => add(board),
    },
    t("choose_first_step"),
  );
  if (steps.length < MIN_STEPS) {
    return emptyState({ title: t("build"), words: t("build_words"), steps: h("p", { class: "row centred" }, choose) });
  }
  const names = steps.flatMap(({ field, value }, i) => [
    i ? h("span", { class: "soft" }, ` ${t("then")} `) : null,
    h(
      "span",
      { class: "chip proposal-step" },
      h("span", { class: "chip-text" }, h("span", { class: "soft" }, `${FUNNEL_KINDS[field]} `), h("bdi", null, value)),
    ),
  ]);
  const take = h(
    "button",
    {
      class: "button primary",
      type: "button",
      dataset: { key: "take-proposal" },
      onclick: () => setSteps(board, steps),
    },
    t("show_funnel"),
  );
  return emptyState({
    title: t("build"),
    words: t("build_words"),
    steps: [
      h("p", { class: "soft centred" }, t("example")),
      h("p", { class: "row centred proposal" }, names),
      h("p", { class: "row centred" }, take, choose),
    ],
  });
}

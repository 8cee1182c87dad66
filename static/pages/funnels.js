// Funnels of a website (/websites/{id}/funnels): two to eight pages or events, how many visits reach each of them one
// after another, and how many are lost between. It asks, and changes nothing.
//
// The steps are in the address, so the link is the funnel: nothing is saved anywhere.

import { stepDialog } from "../funnels/step_dialog.js";
import { drawFunnel, drawTable, summaryWords } from "../funnels/funnel_chart.js";
import { KINDS, MIN_STEPS, STEPS_STATE, moveStep, stepText } from "../funnels/steps.js";
import { copyButton } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { emptyState, websitePage } from "../shared/website_page.js";
import { at } from "../shared/paths.js";

const PAGE = {
  title: "Funnels",
  look: ["/assets/funnels/funnels.css"],
  own: STEPS_STATE,
  keys: [
    ["a", "Add a step", (board) => add(board)],
    ["Alt ↑ ↓", "On a step: move it up or down", () => {}],
    ["Del", "On a step: remove it", () => {}],
  ],
  foot: "Steps count in their order within one visit, with anything between. A visit ends after 30 minutes without an event, and at midnight UTC: what somebody does tomorrow is another visit.",
  build,
};

export const show = (root, context) => websitePage(root, context, PAGE);

const setSteps = (board, steps) => board.go({ ...board.view(), steps });

function add(board) {
  const { steps } = board.view();
  stepDialog(board, {
    step: null,
    title: steps.length ? `Step ${steps.length + 1}` : "The first step",
    action: "Add this step",
    take: (step) => setSteps(board, [...steps, step]),
  });
}

function actions(board) {
  const steps = () => board.view().steps;
  return {
    add: () => add(board),
    change: (i) =>
      stepDialog(board, {
        step: steps()[i],
        title: `Step ${i + 1}`,
        action: "Take this step",
        take: (step) =>
          setSteps(
            board,
            steps().map((one, n) => (n === i ? step : one)),
          ),
      }),
    move: (i, to) => setSteps(board, moveStep(steps(), i, to)),
    remove: (i) =>
      setSteps(
        board,
        steps().filter((_, n) => n !== i),
      ),
  };
}

function build(board) {
  const places = placesOf();
  const act = actions(board);
  let isQuiet = false;

  const funnel = board.part(places.told, {
    what: () => "The funnel cannot be shown.",
    ask: async (signal) => {
      const answer = await askFunnel(board, signal);
      if (signal.aborted) return answer;
      places.picture.removeAttribute("aria-busy");
      // The steps can still be changed.
      if (!answer.ok && !isQuiet) drawSteps(false);
      return answer;
    },
    draw: ({ data, previous }) => drawAll(data, previous),
  });
  const proposal = board.part(places.page, {
    what: () => "Funnels cannot be shown.",
    ask: (signal) => askProposal(board, signal),
    draw: ({ data }) => fill(places.page, proposalNode(board, data)),
  });

  function drawAll(rows, all) {
    const { steps, filters } = board.view();
    const [first, rest] = summaryWords(rows, filters.length > 0);
    fill(places.told, h("p", { class: "sum" }, h("strong", null, first), " ", h("span", { class: "soft" }, rest)));
    board.say(`${first} ${rest}`);
    drawFunnel(places.picture, { steps, rows, all, act, isWaiting: false });
    drawTable(places.table, steps, rows);
    places.behind.hidden = false;
    places.csv.href = at(`${board.base}/funnel?${funnelQuestion(board, { format: "csv" })}`);
  }

  /** The steps alone: too few to be counted, or not counted yet. */
  function drawSteps(isWaiting) {
    places.behind.hidden = true;
    drawFunnel(places.picture, { steps: board.view().steps, rows: null, all: null, act, isWaiting });
  }

  async function load({ quietly, last }) {
    const { steps } = board.view();
    isQuiet = quietly;
    if (!steps.length) return proposal({ quietly });
    if (!places.page.contains(places.card)) {
      places.page.removeAttribute("aria-busy");
      fill(places.page, places.card);
    }
    const isSame = last && JSON.stringify(last.steps) === JSON.stringify(steps);
    if (steps.length < MIN_STEPS) return (fill(places.told), drawSteps(false));
    // The figures of other steps would be false beside these.
    if (!quietly && !isSame) drawSteps(true);
    if (!quietly) places.picture.setAttribute("aria-busy", "true");
    return funnel({ quietly });
  }
  return { element: places.page, load };
}

function placesOf() {
  const places = {
    told: h("div", { class: "funnel-told" }),
    picture: h("div", { class: "funnel-place" }),
    table: h("div", {
      class: "table-scroll series-scroll",
      tabindex: "0",
      role: "region",
      "aria-label": "Table of the funnel",
    }),
    csv: h("a", { class: "csv", download: "funnel.csv", "aria-label": "CSV of the funnel" }, "CSV"),
  };
  places.behind = h(
    "div",
    { class: "behind", hidden: true },
    h("details", { class: "series-table" }, h("summary", null, "Table of this funnel"), places.table),
    h(
      "p",
      { class: "row no-print" },
      h("span", { class: "soft small-text" }, "The link is the funnel: keep it as a bookmark, or send it."),
      copyButton(() => location.href, "Copy link"),
      places.csv,
    ),
  );
  places.card = h(
    "section",
    { class: "card funnel-card", "aria-label": "Funnel" },
    places.told,
    places.picture,
    places.behind,
  );
  places.page = h("div", { class: "funnels-page" });
  return places;
}

function funnelQuestion(board, more) {
  return [board.question(more), ...board.view().steps.map((step) => `step=${encodeURIComponent(stepText(step))}`)].join(
    "&",
  );
}

/** The funnel, and as `previous` how many visits there were at all, where that can be told. */
async function askFunnel(board, signal) {
  const [answer, stats] = await Promise.all([
    get(`${board.base}/funnel?${funnelQuestion(board)}`, { signal }),
    board.ask("stats", {}, signal),
  ]);
  return { ...answer, previous: stats.ok ? stats.data.visits : null };
}

/** What many do first, and what they do of note: the first steps to propose. */
async function askProposal(board, signal) {
  const [entry, names, pages] = await Promise.all([
    board.ask("entry-pages", { limit: 1 }, signal),
    board.ask("event-names", { limit: 1 }, signal),
    board.ask("top/pathname", { limit: 2 }, signal),
  ]);
  const failed = [entry, names, pages].find((answer) => !answer.ok);
  if (failed) return failed;
  const first = entry.data[0]?.value;
  const next = names.data[0]?.value;
  const other = pages.data.find((row) => row.value !== first)?.value;
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

function proposalNode(board, steps) {
  const choose = h(
    "button",
    {
      class: steps.length < MIN_STEPS ? "button primary" : "button",
      type: "button",
      dataset: { key: "add-step" },
      onclick: () => add(board),
    },
    "Choose the first step",
  );
  const words =
    "Choose two to eight pages or events. You see how many visits reach each of them, one after another, and where they are lost.";
  if (steps.length < MIN_STEPS)
    return emptyState({ title: "How far do visits come?", words, steps: h("p", { class: "row centred" }, choose) });
  const names = steps.flatMap(({ field, value }, i) => [
    i ? h("span", { class: "soft" }, " then ") : null,
    h(
      "span",
      { class: "chip proposal-step" },
      h("span", { class: "chip-text" }, h("span", { class: "soft" }, `${KINDS[field]} `), h("bdi", null, value)),
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
    "Show this funnel",
  );
  return emptyState({
    title: "How far do visits come?",
    words,
    steps: [
      h("p", { class: "soft centred" }, "For example, where most visits begin, and what most visitors do:"),
      h("p", { class: "row centred proposal" }, names),
      h("p", { class: "row centred" }, take, choose),
    ],
  });
}

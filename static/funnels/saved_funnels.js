// The saved funnels of a website: one button each that shows it, and the dialog that saves the steps of the address.

import { confirmDialog, notify, openDialog } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { STEPS_STATE, stepText } from "./steps.js";

const t = await texts("funnels");
const shared = await texts("shared");

/**
 * Returns { element, save, load(reopens) }: the list, and a button that saves the steps on the page. `load` returns the
 * steps of the saved funnel that this browser has used last, if `reopens`; null without one.
 *
 * @param {Board} board
 */
export function savedFunnels(board) {
  const path = `/api/account/websites/${board.website.id}/funnels`;
  const element = h("div", { class: "row saved-funnels no-print", role: "group", "aria-label": t("saved_funnels") });
  element.hidden = true;
  const save = h(
    "button",
    { class: "button for-editors", type: "button", onclick: () => saveDialog(board, path, () => load()) },
    t("save_funnel"),
  );

  async function load(reopens = false) {
    const answer = await get(path, { signal: board.signal });
    // The page works without them.
    if (!answer.ok) return null;
    const own = /** @type {SavedFunnel[]} */ (answer.data);
    element.hidden = !own.length;
    fill(
      element,
      own.map((one) => chip(one)),
    );
    const last = reopens && own.find(({ id }) => id === recall(board.website.id));
    return last ? stepsOf(last, board.fields) : null;
  }

  /**
   * @param {SavedFunnel} one
   */
  function chip(one) {
    const show = () => {
      remember(board.website.id, one.id);
      board.go({ ...board.view(), steps: stepsOf(one, board.fields) });
    };
    const remove = async () => {
      const question = { title: t("delete_question"), words: one.name, action: t("delete_funnel"), danger: true };
      if (!(await confirmDialog(question))) return;
      const answer = await send("DELETE", `${path}/${one.id}`);
      notify(answer.ok ? t("deleted") : answer.error.message);
      await load();
    };
    return h(
      "span",
      { class: "chip" },
      h("button", { class: "link-button chip-text", type: "button", onclick: show }, h("bdi", null, one.name)),
      h(
        "button",
        {
          class: "chip-remove for-editors",
          type: "button",
          "aria-label": shared("delete_named", { name: one.name }),
          onclick: remove,
        },
        icon("close"),
      ),
    );
  }
  return { element, save, load };
}

/**
 * Returns the steps of a saved funnel.
 *
 * @param {SavedFunnel} funnel
 * @param {string[]} fields
 */
function stepsOf({ steps }, fields) {
  return STEPS_STATE.read(new URLSearchParams(steps.map((step) => ["step", step])), fields).steps;
}

// Where the browser keeps nothing, no funnel is opened.
function remember(/** @type {string} */ website, /** @type {string} */ id) {
  try {
    localStorage.setItem(`funnel ${website}`, id);
  } catch {}
}

function recall(/** @type {string} */ website) {
  try {
    return localStorage.getItem(`funnel ${website}`);
  } catch {
    return null;
  }
}

/**
 * @param {Board} board
 * @param {string} path
 * @param {() => Promise<any>} saved
 */
function saveDialog(board, path, saved) {
  const steps = board.view().steps.map(stepText);
  const made = form({
    fields: [field({ label: shared("name"), name: "name", missing: shared("enter_name"), maxlength: 100 })],
    action: t("save_funnel"),
    busy: shared("saving"),
    submit: async ({ name }) => {
      const answer = await send("POST", path, { name: name.trim(), steps });
      if (!answer.ok) return answer;
      remember(board.website.id, answer.data.id);
      dialog.close();
      notify(t("saved"));
      await saved();
      return null;
    },
  });
  const dialog = openDialog({ title: t("save_funnel"), body: made.element });
  made.focus();
}

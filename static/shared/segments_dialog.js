// The dialog of segments, sets of filters that the owner has saved: choosing one, saving the filters of the view as one,
// and deleting one.

import { confirmDialog, failureNotice, notify, openDialog } from "./dialog.js";
import { fill, h, icon } from "./dom.js";
import { send } from "./api.js";
import { filterParameter, filterText, readFilter, valuesByKey } from "./filter_words.js";
import { field, form } from "./forms.js";
import { texts } from "./messages.js";

const t = await texts("dialogs");
const shared = await texts("shared");

/**
 * @param {Board} board
 */
export async function openSegments(board) {
  const path = `/api/account/websites/${board.website.id}/segments`;
  const list = h("div", { class: "stack", "aria-busy": "true" }, h("p", { class: "soft" }, t("loading")));
  const dialog = openDialog({ title: shared("segments"), body: [list, saving()] });

  async function load() {
    const error = await board.loadSaved();
    list.removeAttribute("aria-busy");
    if (error) return void fill(list, failureNotice(t("segments_failed"), error, load));
    const { segments } = board.saved();
    const none = h("p", { class: "soft" }, t("no_segments"));
    return void fill(list, segments.length ? h("ul", { class: "plain-list stack" }, segments.map(row)) : none);
  }

  /**
   * @param {Segment} segment
   */
  function row(segment) {
    const isChosen = board.view().segment === segment.id;
    const choose = () => {
      dialog.close();
      board.go({ ...board.view(), segment: isChosen ? "" : segment.id });
    };
    return h(
      "li",
      { class: "row apart segment-row" },
      h(
        "button",
        { class: "segment-choice grow", type: "button", "aria-pressed": String(isChosen), onclick: choose },
        h("strong", null, h("bdi", null, segment.name)),
        h("span", { class: "soft small-text wrap" }, wordsOf(segment.filters.map(readFilter), board)),
      ),
      h(
        "button",
        {
          class: "button small quiet square",
          type: "button",
          "aria-label": shared("delete_named", { name: segment.name }),
          onclick: () => remove(segment),
        },
        icon("close"),
      ),
    );
  }

  /**
   * @param {Segment} segment
   */
  async function remove(segment) {
    const question = {
      title: t("delete_segment_question"),
      words: segment.name,
      action: t("delete_segment"),
      danger: true,
    };
    if (!(await confirmDialog(question))) return;
    const answer = await send("DELETE", `${path}/${segment.id}`);
    notify(answer.ok ? t("segment_deleted") : answer.error.message);
    if (answer.ok && board.view().segment === segment.id) board.go({ ...board.view(), segment: "" });
    await load();
  }

  /** Returns the form that saves the filters of the view; segments have no goals. */
  function saving() {
    const { filters } = board.view();
    const own = filters.filter(([key]) => key !== "goal");
    if (!own.length) return h("p", { class: "soft gap-above" }, t("segment_needs_filters"));
    const made = form({
      fields: [
        field({
          label: shared("name"),
          name: "name",
          missing: shared("enter_name"),
          maxlength: 100,
          autocomplete: "off",
        }),
      ],
      action: t("save_as_segment"),
      busy: shared("saving"),
      submit: async ({ name }) => {
        const answer = await send("POST", path, { name: name.trim(), filters: own.map(filterParameter) });
        if (!answer.ok) return answer;
        await board.loadSaved();
        dialog.close();
        notify(t("segment_saved"));
        board.go({ ...board.view(), filters: filters.filter(([key]) => key === "goal"), segment: answer.data.id });
        return null;
      },
    });
    return h(
      "section",
      { class: "segment-new", "aria-label": t("new_segment") },
      h("h3", null, t("save_current_filters")),
      h("p", { class: "soft small-text wrap" }, wordsOf(own, board)),
      made.element,
    );
  }
  await load();
}

/**
 * @param {Filter[]} filters
 * @param {Board} board
 */
function wordsOf(filters, board) {
  const { goals } = board.saved();
  return valuesByKey(filters)
    .map(([key, values]) => filterText(key, values, goals))
    .join(", ");
}

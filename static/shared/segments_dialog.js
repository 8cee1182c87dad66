// The dialog of segments, sets of filters that the owner has saved: choosing one, saving one, which begins with the filters
// of the view, changing and deleting one.

import { confirmDialog, failureNotice, notify, openDialog } from "./dialog.js";
import { fill, h, icon } from "./dom.js";
import { send } from "./api.js";
import { PROPERTY_FILTERS, filterParameter, filterText, readFilter, valuesByKey } from "./filter_words.js";
import { filtersField } from "./filters_field.js";
import { field, form } from "./forms.js";
import { texts } from "./messages.js";
import { writeView } from "./view_state.js";

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
          class: "button small for-editors",
          type: "button",
          "aria-label": t("edit_named", { name: segment.name }),
          onclick: () => edit(segment),
        },
        t("edit"),
      ),
      h(
        "button",
        {
          class: "button small quiet square for-editors",
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

  /**
   * @param {Segment} segment
   */
  function edit(segment) {
    const made = segmentForm(segment, segment.filters, async (body) => {
      const answer = await send("PATCH", `${path}/${segment.id}`, body);
      if (!answer.ok) return answer;
      editor.close();
      notify(t("segment_saved"));
      await load();
      // The view counts with the filters as they are now.
      if (board.view().segment === segment.id) await board.go(board.view(), { replace: true });
      return null;
    });
    const editor = openDialog({ title: t("edit_segment"), body: made.element });
    made.focus();
  }

  /** Returns the form that saves the filters of the view; segments have no goals. */
  function saving() {
    const { filters } = board.view();
    const own = filters.filter(([key]) => key !== "goal");
    const made = segmentForm(null, own.map(filterParameter), async (body) => {
      const answer = await send("POST", path, body);
      if (!answer.ok) return answer;
      await board.loadSaved();
      dialog.close();
      notify(t("segment_saved"));
      board.go({ ...board.view(), filters: filters.filter(([key]) => key === "goal"), segment: answer.data.id });
      return null;
    });
    return h(
      "section",
      { class: "segment-new for-editors", "aria-label": t("new_segment") },
      h("h3", null, t("new_segment")),
      made.element,
      own.length ? h("p", { class: "small-text for-admins" }, deletionLink()) : null,
    );
  }

  /** Returns the link to the settings where the events of the view are deleted. */
  function deletionLink() {
    const query = writeView(board.view());
    const href = `/websites/${board.website.id}/settings/data?${query}`;
    return h("a", { href, onclick: () => dialog.close() }, t("delete_these_events"));
  }

  /**
   * @param {Segment | null} segment
   * @param {string[]} filters
   * @param {(body: { name: string, filters: string[] }) => Promise<any>} save
   */
  function segmentForm(segment, filters, save) {
    const name = field({
      ...{ label: shared("name"), name: "name", value: segment?.name || "", missing: shared("enter_name") },
      ...{ maxlength: 100, autocomplete: "off" },
    });
    const { website } = board;
    return form({
      fields: [
        name,
        filtersField({ website, label: shared("filters"), name: "filters", filters, fields: PROPERTY_FILTERS }),
      ],
      action: segment ? t("save_segment") : t("save_as_segment"),
      busy: shared("saving"),
      submit: async (values) =>
        values.filters.length
          ? save({ name: values.name.trim(), filters: values.filters })
          : { error: { code: "", field: "filters", message: t("segment_needs_filters") } },
    });
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

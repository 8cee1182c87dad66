// The dialog that adds, changes and deletes an annotation.

import { send } from "../shared/api.js";
import { confirmDialog, notify, openDialog } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";

const t = await texts("dashboard_dialogs");
const shared = await texts("shared");

/**
 * Opens the dialog; one without an id is new. `changed` is called after a change.
 *
 * @param {Board} board
 * @param {Annotation} one
 * @param {() => void} changed
 */
export function openAnnotation(board, one, changed) {
  const path = `/api/account/websites/${board.website.id}/annotations`;
  const fields = [
    field({ label: t("annotation_text"), name: "text", value: one.text, missing: t("enter_text"), maxlength: 500 }),
    field({
      label: t("from_date"),
      name: "from",
      value: one.from,
      missing: t("enter_date"),
      hint: t("annotation_hint"),
    }),
    field({ label: t("to_date"), name: "to", value: one.to || "", soft: shared("optional") }),
  ];
  const remove = h("button", { class: "button warning", type: "button" }, shared("delete"));
  const made = form({
    fields,
    action: one.id ? t("save_annotation") : t("add_annotation"),
    busy: shared("saving"),
    beside: one.id ? remove : null,
    submit: async ({ text, from, to }) => {
      const body = { text: text.trim(), from: from.trim(), to: to.trim() || null };
      const answer = await send(one.id ? "PATCH" : "POST", one.id ? `${path}/${one.id}` : path, body);
      if (!answer.ok) return answer;
      finish(one.id ? t("annotation_saved") : t("annotation_added"));
      return null;
    },
  });
  const dialog = openDialog({ title: one.id ? t("annotation") : t("new_annotation"), body: made.element });
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

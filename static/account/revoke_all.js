// The button that revokes everything of one kind in an account: API keys, share links.

import { runOnce } from "./run_once.js";
import { confirmDialog, notify } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { send } from "../shared/api.js";

/**
 * Returns the button, which asks before it sends DELETE to `path`; `done` is called afterwards.
 *
 * @param {{ action: string, effect: string, path: string, done: () => any }} options
 */
export function revokeAllButton({ action, effect, path, done }) {
  const button = h("button", { class: "button warning", type: "button" }, action);
  button.addEventListener("click", async () => {
    if (!(await confirmDialog({ title: `${action}?`, words: effect, action, danger: true }))) return;
    await runOnce(button, async () => {
      const answer = await send("DELETE", path);
      if (!answer.ok) return notify(answer.error.message);
      await done();
    });
  });
  return button;
}

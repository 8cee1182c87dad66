// The banner of pages that cannot reach the server. It goes away by itself, and the requests that wait for it are sent again.
// Part of the first load: without a connection no module can be loaded.

import { h, icon } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("shared");
const RETRY_MS = 5000;
/** @type {Promise<void> | null} */
let waiting = null;

/**
 * Shows the banner, once for all who wait, until `isBack()` resolves to true: asked every five seconds, when the browser says that it is
 * online, and by the button.
 *
 * @param {() => Promise<boolean>} isBack
 * @returns {Promise<void>}
 */
export function reconnected(isBack) {
  waiting ||= new Promise((resolve) => {
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    async function check() {
      clearTimeout(timer);
      const is = await isBack();
      clearTimeout(timer);
      if (!is) {
        place(banner);
        return void (timer = setTimeout(check, RETRY_MS));
      }
      removeEventListener("online", check);
      // The button goes away with the banner.
      if (banner.contains(document.activeElement)) document.getElementById("main")?.focus();
      banner.remove();
      waiting = null;
      resolve();
    }
    const banner = h(
      "div",
      { class: "notice bad connection no-print", role: "alert" },
      icon("warning"),
      h("div", null, h("strong", null, t("no_connection")), h("p", null, t("loads_by_itself"))),
      h("button", { class: "button small", type: "button", onclick: check }, t("try_again")),
    );
    place(banner);
    addEventListener("online", check);
    timer = setTimeout(check, RETRY_MS);
  });
  return waiting;
}

/**
 * Puts the banner into the open dialog, which covers the rest of the page and takes its place in the order of Tab.
 *
 * @param {HTMLElement} banner
 */
function place(banner) {
  const parent = [...document.querySelectorAll("dialog:modal")].at(-1) || document.body;
  if (banner.parentElement !== parent) parent.append(banner);
}

// A button whose work runs once at a time.

/**
 * Runs `work`, unless it is still running from an earlier click on the button.
 *
 * @param {HTMLButtonElement} button
 * @param {() => any} work
 */
export async function runOnce(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  await work();
  button.removeAttribute("aria-disabled");
}

// How a person who may have left is named.

import { texts } from "../shared/messages.js";

const t = await texts("account");

/**
 * Returns the address, or what stands for a person who has left.
 *
 * @param {string} name
 */
export function personName(name) {
  const former = /^former member (\d+)$/.exec(name);
  return former ? t("former_member", { number: former[1] }) : name;
}

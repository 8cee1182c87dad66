// Logging out: of this server, and of the proxy or the provider that signs the person in.

import { send } from "./api.js";
import { notify } from "./dialog.js";
import { at } from "./paths.js";

/**
 * Returns whether logging out has an effect: a proxy that signs the person in does so again, unless it has an address
 * for it.
 *
 * @param {Account} account
 */
export function canLogOut(account) {
  return account.signed_in_by !== "header" || account.logout_url !== null;
}

/**
 * Ends this session, or by another path all of them, and shows the login or the page of the proxy or the provider. On
 * pages without an account neither signs in.
 *
 * @param {Context} context
 * @param {Account | null} [account]
 * @param {string} [path]
 */
export async function logOut(context, account = null, path = "/api/account/logout") {
  const left = await send("POST", path);
  if (!left.ok && left.status !== 401) return notify(left.error.message);
  if (account?.logout_url) return location.assign(at(account.logout_url));
  context.signedOut();
}

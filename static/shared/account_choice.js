// Which account the pages of the account concern, for a person who is a member of several; kept in this browser.

const KEY = "tally.account";
// Requests about an account: itself, its API keys, people, invitations and audit log, and leaving it.
const OF_ACCOUNT =
  /^\/api\/account(\/(keys|people|channels|notices|invitations|audit|leave|authorization)(\/[^?]*)?)?(?=\?|$)/;

/** Returns the number of the chosen account; "" is the server's default, the first one that the person owns. */
export function chosenAccount() {
  try {
    return localStorage.getItem(KEY) || "";
  } catch {
    return "";
  }
}

/**
 * Chooses an account; "" is the default.
 *
 * @param {string} number
 */
export function chooseAccount(number) {
  try {
    if (number) localStorage.setItem(KEY, number);
    else localStorage.removeItem(KEY);
  } catch {
    // Without storage the default stays.
  }
}

/**
 * Returns the path of a request with the account that it concerns.
 *
 * @param {string} method
 * @param {string} path
 * @param {string} number
 */
export function ofAccount(method, path, number) {
  const concerns = OF_ACCOUNT.test(path) || (method === "POST" && path === "/api/account/websites");
  return number && concerns && !path.includes("account=")
    ? `${path}${path.includes("?") ? "&" : "?"}account=${number}`
    : path;
}

// Where Tally is served: at the root of its host, or below a path such as /stats. The shell's meta element says which.
//
// Paths in these pages are written as at the root ("/login", "/api/account"). What leaves for the browser or the server
// goes through here; elements made by dom.js and requests made by fetching.js do so by themselves. Pure.

export const BASE = document.querySelector('meta[name="base-path"]')?.content || "";

/** A path as the browser asks for it: "/stats/login" for "/login". Other URLs are given back as they are. */
export function at(url) {
  return BASE && url.startsWith("/") && !url.startsWith("//") ? BASE + url : url;
}

/** A path of the address bar as it is written here; null where it is not one of Tally's. */
export function local(pathname) {
  if (pathname === BASE) return "/";
  return pathname.startsWith(`${BASE}/`) ? pathname.slice(BASE.length) : null;
}

/** The path of the page that is shown. */
export function here() {
  return local(location.pathname) ?? location.pathname;
}

/** The server's public address: `base` (--base-url), or else that of this page. */
export function publicUrl(base) {
  return base || location.origin + BASE;
}

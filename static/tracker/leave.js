// For how long a page is used, and how far it is seen: sent when it is left or hidden (docs/decisions/time-on-page.md).
// Called with the key of the last pageview, it returns what the tracker calls with the key of each one that follows,
// and without one when the page is left.

export default (add, flush, dataset, here, viewed) => {
  // A page is in use for 30 seconds after each use, while it is shown.
  const IN_USE_MS = 3e4;
  let began, used, spent, seen, sent, shown;

  const spend = () => {
    const now = performance.now();
    if (shown) spent += Math.min(now - used, IN_USE_MS);
    used = now;
    shown = !document.hidden;
  };
  // Applications change the page after the address.
  const look = () => {
    const page = document.scrollingElement;
    if (page && performance.now() - began > 500) seen = Math.max(seen, (scrollY + innerHeight) / page.scrollHeight);
  };
  const begin = (key) => {
    viewed = key;
    spend();
    began = used;
    spent = seen = 0;
    sent = "";
    setTimeout(look, 999);
  };
  const leave = (key) => {
    spend();
    if (!key) look();
    const vitals = {
      time_on_page: Math.min(Math.round(spent / 1e3), 1800),
      // In steps of 5; a tenth of a step is the rest that zoomed pages cannot be scrolled.
      scroll_depth: Math.min(Math.floor(seen * 20.1) * 5, 100),
    };
    const values = Object.values(vitals).join();
    if (viewed && sent !== values) {
      sent = values;
      const { event_id, url } = JSON.parse(viewed.slice(viewed.indexOf("{")));
      // "vitals" comes before "type", so that its key in the storage sorts behind that of the pageview.
      add({ url, vitals, type: "leave" }, event_id);
    }
    if (key) begin(key);
  };

  for (const type of ["scroll", "pointermove", "pointerdown", "keydown"]) {
    addEventListener(
      type,
      () => {
        spend();
        look();
      },
      { capture: true, passive: true },
    );
  }
  addEventListener("visibilitychange", spend);
  begin(viewed);
  return leave;
};

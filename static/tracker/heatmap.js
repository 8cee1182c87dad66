// data-heatmap="0.1": clicks and scroll depths of a sample of pageviews.
const MAX_POINTS = 100; // the server's limit of an event
const MAX_TEXT = 80; // the server keeps no more
const CONTROLS = "a,button,summary,label,[role=button],[role=link],[role=tab],[role=menuitem]";

// The text of what was clicked, where the page allows it: of the control, or of an element without further elements. Never
// of what a visitor has typed.
const textOf = (target) => {
  if (!target?.closest || target.closest("[data-heatmap-text]")?.dataset.heatmapText !== "") return;
  const control = target.closest(CONTROLS) || target;
  if (control.closest("input,select,textarea") || control.isContentEditable) return;
  if (control.querySelector(control.matches(CONTROLS) ? "input,select,textarea,[contenteditable]" : "*")) return;
  return control.textContent.trim().replace(/\s+/g, " ").slice(0, MAX_TEXT) || undefined;
};

export default (push, flush, { heatmap }, here) => {
  if (Math.random() >= (heatmap ? Number(heatmap) : 0.1)) return;
  let url, points, clicks, deepest, isDepthSent;
  // The same path with another query is no other page.
  const page = () => here().split("?")[0];
  const begin = () => {
    [url, points, clicks, deepest, isDepthSent] = [page(), [], 0, 0, false];
    look();
  };

  const send = () => {
    if (!isDepthSent && deepest) points.push({ kind: "scroll", x: 0, y: deepest });
    isDepthSent = true;
    if (points.length) push({ type: "heatmap", url, points, viewport_width: innerWidth });
    points = [];
  };

  // A single-page app has changed its page: send the data of the previous one.
  const turn = () => {
    if (page() === url) return;
    send();
    begin();
  };

  const look = () => {
    const bottom = Math.min(scrollY + innerHeight, document.documentElement.scrollHeight);
    deepest = Math.min(Math.max(deepest, Math.round(bottom)), 1e6);
  };

  const click = (event) => {
    const { pageX, pageY, detail } = event;
    turn();
    // detail 0: a key or a script clicked, without a position.
    if (!detail || ++clicks > MAX_POINTS) return;
    const width = Math.max(document.documentElement.scrollWidth, 1);
    const x = Math.round(Math.min(Math.max(pageX / width, 0), 1) * 1e3) / 1e3;
    const y = Math.round(Math.min(Math.max(pageY, 0), 1e6));
    // Repeated clicks at one position count once.
    const before = points[points.length - 1];
    if (before && before.x === x && before.y === y) return;
    points.push({ kind: "click", x, y, text: textOf(event.composedPath()[0]) });
    if (points.length > MAX_POINTS - 2) send();
  };

  const leave = () => {
    send();
    flush(true);
  };
  const safe = (work) => (event) => {
    try {
      work(event);
    } catch {}
  };

  begin();
  addEventListener("click", safe(click), true);
  addEventListener(
    "scroll",
    safe(() => (turn(), look())),
    { passive: true },
  );
  addEventListener(
    "visibilitychange",
    safe(() => document.hidden && leave()),
  );
  addEventListener("pagehide", safe(leave));
  addEventListener(
    "pageshow",
    safe((event) => event.persisted && begin()),
  );
};

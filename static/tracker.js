// How it works as a whole: tracker/README.md. The server removes comments and spaces from this file (tally/web/minifier.py).
{
  // Errors of the tracker, also in promises, never reach the page.
  const safe =
    (work) =>
    (...given) => {
      try {
        const made = work(...given);
        made?.catch?.(() => {});
        return made;
      } catch {}
    };

  safe(() => {
    // document.currentScript is null in modules; the first URL of a stack is the script's own, in WebKit without its query.
    const trace = (/\w+:\/\/\S+(?=:\d+:\d)/.exec(Error().stack) || location) + "";
    /** @type {any} */
    const script = document.currentScript ||
      [...document.scripts].find((one) => one.src.startsWith(trace)) || { dataset: {} };
    const dataset = script.dataset;
    const source = script.src || trace;
    const website_id = dataset.websiteId || /[?&]id=([^&#]*)/.exec(source)?.[1];
    const tally = (window.tally ||= {});
    if (tally[website_id]) return;
    tally[website_id] = 1;

    const api = dataset.api || new URL("api/collect", source);
    const own = `tally.${website_id}.`;
    const tab = safe(() => sessionStorage)() || {};
    // An iPad identifies itself as a Mac; only the browser can tell them apart.
    const context =
      navigator.maxTouchPoints > 1 && /Macintosh/.test(navigator.userAgent) ? { device: "tablet", os: "iOS" } : {};
    let queue = [];
    // When the events of this page were added, by performance.now(), which a change of the device's clock does not move.
    const added = {};
    let shelf = safe(() => localStorage)() || {};
    let flight = [];
    let timer;
    let later;
    let last;
    // The key of the last pageview.
    let viewed;
    // What measures it (tracker/leave.js).
    let leave;
    let count = 1e5;
    let warned;
    // Pages without a host (file:, about:, data:) are not counted.
    /** @type {any} */
    let off = !location.host || shelf["tally.ignore"] || ("respectGpc" in dataset && navigator.globalPrivacyControl);
    // compat: off ||= "off" in dataset;

    const on = (type, work) => addEventListener(type, safe(work), 1);
    const part = safe(async (name, more) =>
      (await import(source.replace(/\.js(\?.*)?$/, `/${name}.js`))).default(add, flush, dataset, here, more),
    );
    // The time of an event: its key has {"event_id":" and then the time, up to a point.
    const timeOf = (key) => parseInt(key.slice(own.length + 13));
    // How long events have waited at one moment, by the clock that moved on more: a clock may have been set back, and
    // performance.now() stands still while a device sleeps.
    const ages =
      (now = Date.now(), page = performance.now()) =>
      (key) =>
        Math.max(now - timeOf(key), page - added[key] || 0);
    // What is stored, the oldest first; older than 72 hours is deleted.
    const stored = () =>
      Object.keys(shelf)
        .filter((key) => key.startsWith(own) && (ages()(key) < 2592e5 || !delete shelf[key]))
        .sort();
    const kept = () => stored().filter((key) => !flight.includes(key));
    // Not location.origin, which some browsers give as "null" for schemes such as capacitor:. The server reads no more.
    const here = () =>
      ("hash" in dataset
        ? location.href
            .replace(/\/?(\?[^#]*)?#[!/]*([^!/?].*)/, "/$2$1")
            .replace(/(\?[^#]*)?#[!/]*(\?.*)?.*/, "$2$1")
            .replace(/(\?.*)\?/, "$1&")
        : location.href.split("#")[0]
      ).slice(0, 9e3);

    const isLeave = (key) => /"leave"}$/.test(key);

    const add = safe((given, event_id = Date.now() + "." + count++ + Math.random()) => {
      // compat: if ("manual" in dataset && given.type == "pageview" && !given.url) return;
      // Ids that begin with the time are stored with the least writing; then comes the order of a page's events.
      const key =
        own +
        JSON.stringify(
          // @ts-expect-error: it comes first in the key, whatever is given.
          { event_id, url: here(), ...given, event_id }, // eslint-disable-line no-dupe-keys
          // Nested values of event_data become text; those that JSON does not have are omitted.
          function (name, value) {
            if (this != given.event_data) return value;
            const text = safe(JSON.stringify)(value);
            return text && Object(value) !== value ? value : text;
          },
        );
      timer ||= setTimeout(flush, 1e3);
      if (off) return;
      if (key.length > 19e3) return part("console", [[given]]);
      queue.push(key);
      if (given.type == "pageview") {
        leave?.(key);
        viewed = key;
      }
      added[key] = performance.now();
    });

    // At most 500 events wait, and what pages measured only while fewer than 100 do; where the storage is full, those that do not fit wait in memory.
    const store = (batch) => {
      let free = 500 - stored().length;
      for (const key of batch) {
        if (!shelf[key] && free > (isLeave(key) && 400) && free--)
          try {
            shelf[key] = 1;
          } catch {
            shelf = { [key]: 1 };
          }
        shelf[key] || delete added[key];
      }
    };

    const drop = (batch) => batch.map((key) => delete shelf[key] && delete added[key]);

    // leaving: the page may be gone before an answer arrives, so all that is on its way is stored too.
    const flush = safe((leaving) => {
      timer = 0;
      if (document.prerendering) return;
      if ((off ||= shelf["tally.ignore"])) drop(stored());
      else if (leaving) {
        leave?.();
        while (queue[0]) post(queue);
        store(flight);
      }
      // @ts-expect-error: 1 stands for true.
      else return (kept()[0] && navigator.locks?.request(own, { ifAvailable: 1 }, send)) || send(!navigator.locks);
    });

    // With the lock, or where there are none, also what is stored; one tab at a time. After a failure the rest is stored.
    const send = async (lock) => {
      let list;
      while (!off && (list = lock ? [...queue, ...kept()] : queue)[0] && (await post(list)))
        await new Promise((work) => setTimeout(work, 99));
      off || store(queue.splice(0));
    };

    // Sends the first events of a list, as many as a request has place for; whether they are done with.
    const post = safe(async (list) => {
      let size = 0;
      /** @type {any} */
      let done = 0;
      /** @type {any} */
      let reply;
      const batch = list.filter((key, at) => at < 50 && (size += key.length) < 19e3);
      queue = queue.filter((key) => !batch.includes(key));
      flight.push(...batch);
      if (!(shelf["tally.until"] > Date.now())) {
        const age = ages();
        const events = batch.map((key) => ({
          ...JSON.parse(key.slice(own.length)),
          // Not that of the moment of the view: applications set the title after the address. Empty, it deletes what is stored.
          title:
            key == viewed && performance.now() - added[key] > 500
              ? "noTitle" in dataset
                ? ""
                : document.title.slice?.(0, 200)
              : undefined,
          age_ms: shelf[key] || isLeave(key) ? age(key) | 0 : undefined,
        }));
        reply = await fetch(api, {
          method: "POST",
          credentials: "omit",
          // @ts-expect-error: 1 stands for true.
          keepalive: 1,
          body: JSON.stringify({ website_id, context, events }),
        }).catch(() => 0);
        done = reply.status < 500 && reply.status != 429;
        const said = reply.status < 401 && (await reply.json().catch(() => 0));
        // Where the whole request is refused, each event is sent alone, so that one takes no other with it.
        if (reply.status == 400 && !said?.errors?.[0] && batch[1]) {
          for (const key of batch) off || (await post([key]));
          return done;
        }
        // Where the part cannot be loaded, as by a copy of this file alone, the first response itself is shown.
        if (said?.errors?.[0] || said?.warnings || (reply.status == 400 && warned)) {
          part("console", [events, said]).catch(() => {
            if (warned != 2) console.warn("Tally:", said);
            warned = 2;
          });
          warned ||= 1;
        }
        // Once a page, and only if the first answer is a refusal that stays.
        warned ||=
          reply.status == 202 ||
          reply.status > 428 ||
          // @ts-expect-error: console.warn returns undefined.
          !console.warn(
            "Tally: " +
              (reply.status || "no answer") +
              " from " +
              api +
              "; see data-website-id, data-api, allowed origins",
          );
      }
      flight = flight.filter((key) => !batch.includes(key));
      if (done || off) drop(batch);
      else store(batch);
      clearTimeout(later);
      later = setTimeout(flush, 3e4);
      if (reply && !done) shelf["tally.until"] = Date.now() + reply.headers.get("Retry-After") * 1e3;
      return done;
    });

    // The same path with another query is no other page.
    const view = safe(() => {
      if (/^#tally-(ignore|count)$/.test(location.hash)) part("choice", (off = 1));
      const page = "query" in dataset ? here() : here().split("?")[0];
      if (last != page) add({ type: "pageview", referrer: last || document.referrer });
      last = page;
    });

    // The path of an event has the nodes in open shadow roots too; it ends at the window, or at the root that an event
    // does not leave.
    const track = (what) =>
      safe((event) => {
        const data = {};
        const path = event.composedPath();
        const node = path.pop() == event.currentTarget && path.find((one) => one.matches?.(what));
        for (const { name, value } of node.attributes) if (/^data-track-/.test(name)) data[name.slice(11)] = value;
        tally.track(node.dataset.track, data);
      });

    // compat: tally.add = add;
    tally.track = (event_name, event_data) => add({ type: "event", event_name, event_data });
    tally.pageview = () => add({ type: "pageview" });
    tally.convert = (experiment, data) =>
      add({ variant: tab["tally." + experiment], ...data, type: "ab_convert", experiment });
    tally.variant = safe((experiment, variants) => {
      const key = "tally." + experiment;
      if (off) return variants[0];
      if (!variants.includes(tab[key]))
        add({ type: "ab_assign", experiment, variant: (tab[key] = variants[(Math.random() * variants.length) | 0]) });
      return tab[key];
    });

    const start = () => {
      view();
      for (const [name, ...given] of tally.q || []) tally[name](...given);
      for (const name of ["vitals", "heatmap", "links"]) name in dataset && part(name);
      // A copy of the script on another host may have no part beside it.
      "noLeave" in dataset ||
        part("leave", viewed).then(
          (work) => (leave = safe(work)),
          () => {},
        );
    };

    // Where they are read-only, the Navigation API is left.
    for (const name of ["pushState", "replaceState"])
      safe((work) => (history[name] = (...given) => view(work.apply(history, given))))(history[name]);
    window.navigation?.addEventListener("currententrychange", view);
    on("popstate", view);
    on("pageshow", (event) => event.persisted && tally.pageview());
    on("online", () => flush());
    on("pagehide", flush);
    on("visibilitychange", () => flush(document.hidden));
    const submit = track("form[data-track]");
    // Not by on(): where an element's id is host, the window too gets it once more, which the browser ignores.
    addEventListener("submit", submit, 1);
    // A submit event does not leave a shadow root; the click before it does.
    on("click", (event) => event.composedPath().map((one) => one.host && one.addEventListener("submit", submit, 1)));
    on("click", track("[data-track]:not(form)"));
    on("prerenderingchange", start);
    document.prerendering || start();
  })();
}

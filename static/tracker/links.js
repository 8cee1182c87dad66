// data-links, or data-links="outbound" or "downloads": clicks on links to other hosts, and on files.
const FILES =
  /\.(7z|apk|avi|csv|deb|dmg|docx?|epub|exe|gz|iso|jar|key|mid|mov|mp3|mp4|mpeg|msi|numbers|odp|ods|odt|ogg|pages|pdf|pkg|pptx?|rar|rpm|rtf|tar|tgz|txt|wav|webm|wmv|xlsx?|xml|xz|zip)$/i;

export default (push, flush, { links }) => {
  const wants = (kind) => !links || links.includes(kind);

  const follow = (/** @type {any} */ event) => {
    // auxclick is any button but the first: the second one opens a tab, the third a menu.
    if (event.type === "auxclick" && event.button !== 1) return;
    // Also in open shadow roots; links in SVG may have xlink:href, and their href is an object.
    const link = event.composedPath().find((node) => node.matches?.("a[*|href], area[href]"));
    if (!link) return;
    const to = new URL(link.href.baseVal ?? link.href, link.baseURI);
    if (!/^https?:$/.test(to.protocol)) return;
    const isFile = link.hasAttribute("download") || FILES.test(to.pathname);
    // The query and the fragment may contain personal data.
    const event_data = { url: (to.origin + to.pathname).slice(0, 1000) };
    if (isFile && wants("downloads")) push({ type: "event", event_name: "download", event_data });
    else if (to.hostname !== location.hostname && wants("outbound")) {
      push({ type: "event", event_name: "outbound", event_data });
    }
  };

  for (const type of ["click", "auxclick"]) {
    addEventListener(
      type,
      (event) => {
        try {
          follow(event);
        } catch {}
      },
      true,
    );
  }
};

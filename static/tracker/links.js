// data-links, or data-links="outbound" or "downloads": clicks on links to other hosts, and on files.
const FILES =
  /\.(7z|apk|avi|csv|deb|dmg|docx?|epub|exe|gz|iso|jar|key|mid|mov|mp3|mp4|mpeg|msi|numbers|odp|ods|odt|ogg|pages|pdf|pkg|pptx?|rar|rpm|rtf|tar|tgz|txt|wav|webm|wmv|xlsx?|xml|xz|zip)$/i;

export default (push, flush, { links }) => {
  const wants = (kind) => !links || links.includes(kind);

  const follow = (/** @type {any} */ { target, type, button }) => {
    // auxclick is any button but the first: the second one opens a tab, the third a menu.
    if (type === "auxclick" && button !== 1) return;
    const link = target.closest?.("a[href], area[href]");
    if (!link || !/^https?:$/.test(link.protocol)) return;
    const isFile = link.hasAttribute("download") || FILES.test(link.pathname);
    // The query and the fragment may contain personal data.
    const event_data = { url: (link.origin + link.pathname).slice(0, 1000) };
    if (isFile && wants("downloads")) push({ type: "event", event_name: "download", event_data });
    else if (link.hostname !== location.hostname && wants("outbound")) {
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

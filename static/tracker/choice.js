// #tally-ignore excludes the visits of this browser, #tally-count includes them again; a box confirms it.
const show = (text) => {
  const box = document.createElement("div");
  box.setAttribute("role", "status");
  box.textContent = text;
  Object.assign(box.style, {
    position: "fixed",
    inset: "auto 16px 16px",
    zIndex: "2147483647",
    margin: "0 auto",
    maxWidth: "480px",
    padding: "16px",
    borderRadius: "8px",
    background: "#1b1b1f",
    color: "#fff",
    font: "16px/1.5 system-ui, sans-serif",
    textAlign: "center",
  });
  document.body.append(box);
  const remove = () => box.remove();
  box.addEventListener("click", remove);
  setTimeout(remove, 15000);
};

export default () => {
  const { hash, host } = location,
    isIgnored = hash === "#tally-ignore";
  // Several events announce one change of the address; the first call has removed the fragment.
  if (!isIgnored && hash !== "#tally-count") return;
  history.replaceState(history.state, "", location.pathname + location.search);
  try {
    if (isIgnored) {
      // Waiting events are dropped as well.
      for (const key of Object.keys(localStorage)) if (key.startsWith("tally.")) localStorage.removeItem(key);
      localStorage.setItem("tally.ignore", "1");
    } else localStorage.removeItem("tally.ignore");
    show(
      isIgnored
        ? `Visits to ${host} with this browser are no longer counted.`
        : `Visits to ${host} with this browser are counted again, from the next page on.`,
    );
  } catch {
    show(`This browser blocks storage for ${host}, so its visits cannot be excluded.`);
  }
};

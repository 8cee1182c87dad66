// Applies the theme chosen in this browser before the first paint: loaded by app.html ahead of everything else, and not as
// a module, since those run after parsing. The choice is made in shared/theme.js.

try {
  const theme = localStorage.getItem("tally.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system's theme.
}

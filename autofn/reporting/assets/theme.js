// Theme: as the system says, until the button says otherwise; print is always light.
const button = document.getElementById("theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

function showTheme() {
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-pressed", String(isDark()));
  redraw();
}

function stored(value) {
  // A browser may forbid storage to files; the choice then lasts as long as the page.
  try {
    if (value) localStorage.setItem("autofn-theme", value);
    return localStorage.getItem("autofn-theme");
  } catch {
    return null;
  }
}

function printed(theme) {
  const before = root.dataset.theme;
  root.dataset.theme = theme;
  root.classList.add("printing");
  for (const figure of all("figure.plot").filter(visible)) draw(figure);
  return before;
}

function watchTheme() {
  const known = stored();
  if (known === "dark" || known === "light") root.dataset.theme = known;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(root.dataset.theme);
    showTheme();
  });
  systemDark.addEventListener("change", showTheme);
  let before;
  addEventListener("beforeprint", () => (before = printed("light")));
  addEventListener("afterprint", () => {
    root.classList.remove("printing");
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    showTheme();
  });
  showTheme();
}

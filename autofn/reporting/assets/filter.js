// The filter: for each name a set of chosen values; an empty set lets all through. Its state is in the URL's hash.
const values = Object.fromEntries(FILTERS.map((name) => [name, []]));
const state = Object.fromEntries(FILTERS.map((name) => [name, new Set()]));
const passes = (name, value) => value === undefined || !state[name].size || state[name].has(value);

function collect() {
  const seen = Object.fromEntries(FILTERS.map((name) => [name, new Set()]));
  for (const name of FILTERS) for (const found of all(`main [data-${name}]`)) seen[name].add(found.dataset[name]);
  const tagged = (tags) => Object.entries(tags || {}).forEach(([name, value]) => seen[name].add(value));
  for (const plot of data.plots) {
    for (const series of plot.series) {
      tagged(series.tags);
      series.points.forEach((point) => tagged(point.tags));
    }
  }
  for (const name of FILTERS) values[name] = [...seen[name]];
}

// "#clipped_relu-checks&variant=cpp,fused&dtype=*": a place on the page, then what differs from the preset; * is all.
function readHash() {
  const parts = location.hash.slice(1).split("&").filter(Boolean);
  const told = Object.fromEntries(parts.filter((part) => part.includes("=")).map((part) => part.split("=", 2)));
  for (const name of FILTERS) {
    const preset = values[name].includes(data.preset[name]) ? [data.preset[name]] : [];
    const wanted = told[name] === undefined ? preset : told[name].split(",").map(decodeURIComponent);
    state[name] = new Set(wanted.filter((value) => values[name].includes(value)));
  }
  return parts.find((part) => !part.includes("="));
}

function hash(place) {
  const parts = place ? [place] : [];
  for (const name of FILTERS) {
    const chosen = [...state[name]];
    const preset = values[name].includes(data.preset[name]) ? [data.preset[name]] : [];
    if (chosen.join() !== preset.join()) parts.push(`${name}=${chosen.map(encodeURIComponent).join(",") || "*"}`);
  }
  return parts.join("&");
}

function writeHash(place) {
  history.replaceState(null, "", `#${hash(place)}`);
  // The other pages of the report open with the same choice.
  for (const link of all(".top nav a")) link.href = `${link.getAttribute("href").split("#")[0]}#${hash()}`;
}

function apply() {
  let shown = 0;
  let rows = 0;
  for (const found of all("main tbody tr, main figure, main section[data-function], .toc li")) {
    found.hidden = !FILTERS.every((name) => passes(name, found.dataset[name]));
  }
  for (const box of all("main .scroll")) {
    const body = all("tbody tr", box);
    const visible = body.filter((row) => !row.hidden).length;
    box.classList.toggle("none", !visible);
    rows += body.length;
    shown += box.closest("[hidden]") ? 0 : visible;
    all("thead th", box).forEach((head, index) => {
      if (!FILTERS.some((name) => head.dataset[name] !== undefined)) return;
      const hidden = !FILTERS.every((name) => passes(name, head.dataset[name]));
      for (const row of all("tr", box)) row.cells[index].hidden = hidden;
    });
  }
  document.querySelector("#filters output").textContent = `${shown} of ${rows} rows shown`;
  redraw();
}

function chosen(name) {
  return state[name].size ? [...state[name]].join(", ") : "all";
}

function menu(name) {
  const summary = element("summary", {}, `${name}: `, element("b"));
  const box = element("div", { className: "menu" });
  for (const value of values[name]) {
    const input = element("input", { type: "checkbox", value, name });
    input.addEventListener("change", () => {
      state[name][input.checked ? "add" : "delete"](value);
      changed();
    });
    box.append(element("label", {}, input, value));
  }
  const made = element("details", {}, summary, box);
  made.dataset.filter = name;
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    made.open = false;
    summary.focus();
  });
  return made;
}

function showState() {
  for (const found of all("#filters details")) {
    const name = found.dataset.filter;
    found.classList.toggle("set", state[name].size > 0);
    found.querySelector("b").textContent = chosen(name);
    for (const input of all("input", found)) input.checked = state[name].has(input.value);
  }
}

function changed() {
  showState();
  writeHash();
  apply();
}

function makeFilters() {
  const form = document.getElementById("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  const used = FILTERS.filter((name) => values[name].length > 1);
  const reset = element("button", { type: "button", textContent: "Show all" });
  reset.addEventListener("click", () => {
    for (const name of FILTERS) state[name] = new Set();
    changed();
  });
  form.append(...used.map(menu), reset, element("output", { ariaLive: "polite" }));
  form.hidden = !used.length;
  document.addEventListener("click", (event) => {
    for (const open of all("#filters details[open]")) if (!open.contains(event.target)) open.open = false;
  });
}

// A link to a section that stands in a file of its own leads there.
function moved(place) {
  const names = Object.keys(data.moved).filter((name) => place === name || place.startsWith(`${name}-`));
  const [name] = names.sort((one, other) => other.length - one.length);
  return name && !document.getElementById(place) && data.moved[name];
}

function follow() {
  const place = readHash();
  const file = place && moved(decodeURIComponent(place));
  if (file) {
    location.replace(file + location.hash);
    return;
  }
  showState();
  writeHash(place);
  apply();
  const target = place && document.getElementById(decodeURIComponent(place));
  if (target) target.scrollIntoView();
}

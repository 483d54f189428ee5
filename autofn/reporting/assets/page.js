"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const FILTERS = ["function", "variant", "workload", "phase", "dtype", "device", "machine"];
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // ---- The filter: for each name a set of chosen values; an empty set lets all through. Its state is in the URL's hash.
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

  function follow() {
    const place = readHash();
    showState();
    writeHash(place);
    apply();
    const target = place && document.getElementById(decodeURIComponent(place));
    if (target) target.scrollIntoView();
  }

  // ---- Tables: a click on a heading sorts, a third one restores the order. What has no value comes last.
  function key(row, index, numeric) {
    const cell = row.cells[index];
    if (!numeric) return cell.textContent.trim();
    return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  }

  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  }

  function makeSortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = all("thead th", table);
    heads.forEach((head, index) => {
      head.querySelector("button").addEventListener("click", () => {
        const next = { null: "ascending", ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        if (next) head.setAttribute("aria-sort", next);
        const numeric = head.classList.contains("num");
        const sign = next === "descending" ? -1 : 1;
        const keyed = original.map((row) => [row, next && key(row, index, numeric)]);
        if (next) keyed.sort((a, b) => compare(a[1], b[1], sign));
        body.append(...keyed.map(([row]) => row));
      });
    });
  }

  // ---- Plots: drawn when they come into view, in the colours of the theme.
  const SYMBOLS = { eager: "circle", compile: "diamond", native: "square", python: "triangle-up", fused: "star", cpp: "x", triton: "pentagon" };
  const DASHES = ["solid", "dot", "dash", "dashdot"];
  const probe = element("span", { hidden: true });
  const drawn = new Set();
  const wide = { displaylogo: false, responsive: true, displayModeBar: false };

  function colour(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }

  // Plotly reads a few HTML tags in its texts: names of ours are never meant as such.
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  function seconds(value, short) {
    const [factor, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([size]) => value >= size) || [1e-9, "ns"];
    const digits = (value / factor).toPrecision(3);
    return `${short ? Number(digits) : digits} ${unit}`;
  }

  function about(series, point) {
    const bounds = point.low === undefined ? "" : ` (${seconds(point.low)} to ${seconds(point.high)})`;
    const value = point.y === undefined ? "" : `${seconds(point.y)}${bounds}`;
    return [`${series.name} · ${point.x}`, value, ...(point.note || "").split("\n")].filter(Boolean).map(plain).join("<br>");
  }

  const kept = (point) => FILTERS.every((name) => passes(name, (point.tags || {})[name]));

  // variety: tells variants of one kind apart; part: the lines of one variant, one a set of conditions.
  function trace(series, plot, { variety, part }) {
    const points = series.points.filter(kept);
    const look = SYMBOLS[series.look] ? series.look : "other";
    const ink = colour(look);
    const bound = (name) => points.map((point) => (point[name] === undefined ? 0 : Math.abs(point[name] - point.y)));
    return {
      type: "scatter",
      mode: plot.lines ? "lines+markers" : "markers",
      name: plain(series.tags.variant),
      legendgroup: series.tags.variant,
      showlegend: !part,
      x: points.map((point) => plain(point.x)),
      y: points.map((point) => point.y ?? null),
      error_y: { type: "data", symmetric: false, array: bound("high"), arrayminus: bound("low"), color: ink, thickness: 1.2, width: 3 },
      marker: { color: ink, symbol: (SYMBOLS[look] || "hexagon") + (variety % 2 ? "-open" : ""), size: plot.lines ? 7 : 9 },
      line: { color: ink, width: 1.6, dash: DASHES[(variety + part) % DASHES.length] },
      hovertext: points.map((point) => about(series, point)),
      hoverinfo: "text",
      offsetgroup: plot.lines ? undefined : plain(series.name),
    };
  }

  // What could not be measured at a commit stands as a cross at the lower edge, with its reason.
  function gaps(shown, floor) {
    const found = shown.flatMap((series) => series.points.filter((point) => point.y === undefined).map((point) => [series, point]));
    return {
      type: "scatter",
      mode: "markers",
      showlegend: false,
      x: found.map(([, point]) => plain(point.x)),
      y: found.map(() => floor),
      marker: { symbol: "x-thin", size: 8, line: { color: colour("bad"), width: 1.5 } },
      hovertext: found.map(([series, point]) => about(series, point)),
      hoverinfo: "text",
    };
  }

  function axis(extra) {
    const line = colour("line");
    return { gridcolor: line, linecolor: line, zeroline: false, automargin: true, ...extra };
  }

  function layout(plot, positions, range) {
    return {
      height: 304,
      margin: { l: 8, r: 8, t: 10, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("soft"), size: 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { align: "left", bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink") } },
      hovermode: "closest",
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      scattermode: plot.lines ? undefined : "group",
      scattergap: plot.lines ? undefined : 0.5,
      legend: { orientation: "h", y: -0.18, yanchor: "top", x: 0 },
      showlegend: true,
      xaxis: axis({ type: "category", categoryorder: "array", categoryarray: positions, range: [-0.5, positions.length - 0.5] }),
      yaxis: axis({ type: "log", range: range.map(Math.log10), ...ticks(range), title: { text: plain(plot.y_title), standoff: 6 } }),
    };
  }

  // Round values on a log axis: the coarsest steps that give four, else the finest.
  function ticks([low, high]) {
    const steps = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7], [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9]];
    const decades = Array.from({ length: 24 }, (_, index) => index - 12);
    const within = (chosen) => decades.flatMap((power) => chosen.map((step) => Number(`${step}e${power}`))).filter((y) => y >= low && y <= high);
    const tickvals = steps.map(within).find((found) => found.length >= 4) || within(steps.at(-1));
    return { tickvals, ticktext: tickvals.map((value) => seconds(value, true)) };
  }

  function place(series, plot) {
    const kin = [...new Set(plot.series.filter((other) => other.look === series.look).map((other) => other.tags.variant))];
    const parts = plot.series.filter((other) => other.tags.variant === series.tags.variant);
    return { variety: kin.indexOf(series.tags.variant), part: parts.indexOf(series) };
  }

  function draw(figure) {
    const plot = data.plots[figure.dataset.plot];
    const shown = plot.series.filter(kept);
    const traces = shown.map((series) => trace(series, plot, place(series, plot)));
    const ends = shown.flatMap((series) => series.points.filter(kept)).flatMap((point) => [point.low, point.y, point.high]);
    const known = ends.filter((value) => value > 0);
    const range = known.length ? [Math.min(...known) / 1.25, Math.max(...known) * 1.2] : [1e-6, 1];
    traces.push(gaps(shown, range[0] * 1.06));
    const used = new Set(shown.flatMap((series) => series.points.filter(kept).map((point) => point.x)));
    const positions = plot.positions.filter((name) => used.has(name)).map(plain);
    drawn.add(figure);
    return Plotly.react(figure.querySelector(".canvas"), traces, layout(plot, positions, range), wide);
  }

  const visible = (figure) => !figure.closest("[hidden]");

  function redraw() {
    for (const figure of drawn) if (visible(figure)) draw(figure);
    for (const details of all(".values[open]")) tabulate(details);
  }

  function tabulate(details) {
    all("table", details).forEach((old) => old.remove());
    if (!details.open) return;
    const plot = data.plots[details.closest("figure").dataset.plot];
    const shown = plot.series.filter(kept);
    const head = (text, scope) => Object.assign(element("th", { textContent: text }), { scope });
    const cell = (series, name) => {
      const point = series.points.find((found) => found.x === name);
      const told = !point ? "" : point.y === undefined ? (point.note || "").split("\n").pop() : seconds(point.y);
      return element("td", { textContent: told, className: "num" });
    };
    const rows = plot.positions.map((name) =>
      element("tr", {}, head(name, "row"), ...shown.map((series) => cell(series, name))));
    details.append(element("table", {},
      element("thead", {}, element("tr", {}, head(plot.x_title, "col"), ...shown.map((series) => head(series.name, "col")))),
      element("tbody", {}, ...rows)));
  }

  function watchPlots() {
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    }, { rootMargin: "300px" });
    for (const figure of all("figure.plot")) {
      watcher.observe(figure);
      figure.querySelector("details").addEventListener("toggle", (event) => tabulate(event.target));
    }
  }

  // ---- Theme: as the system says, until the button says otherwise; print is always light.
  const root = document.documentElement;
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
      if (before) root.dataset.theme = before;
      else delete root.dataset.theme;
      showTheme();
    });
    showTheme();
  }

  document.body.append(probe);
  if (matchMedia("(max-width: 60rem)").matches) document.querySelector(".toc details").open = false;
  collect();
  makeFilters();
  watchTheme();
  all("main .scroll > table").forEach(makeSortable);
  follow();
  addEventListener("hashchange", follow);
  watchPlots();
})();

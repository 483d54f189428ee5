// Plots: drawn when they come into view, in the colours of the theme.
const SYMBOLS = { eager: "circle", compile: "diamond", native: "square", python: "triangle-up", fused: "star", cpp: "x", triton: "pentagon" };
const DASHES = ["solid", "dot", "dash", "dashdot"];
const probe = element("span", { hidden: true });
const drawn = new Set();
const root = document.documentElement;
const PRINTED_WIDTH = 330; // two beside each other on A4
const printing = () => root.classList.contains("printing");
const SETTINGS = { displaylogo: false, responsive: true, displayModeBar: false };

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

function bytes(value) {
  const [factor, unit] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]].find(([size]) => value >= size) || [1, "B"];
  return `${Number((value / factor).toPrecision(3))} ${unit}`;
}

// A position by its name, a number in its unit.
function at(plot, x) {
  if (plot.x_kind === "bytes") return bytes(x);
  return plot.x_kind ? x.toLocaleString("en") : x;
}

function about(series, point, plot) {
  const bounds = point.low === undefined ? "" : ` (${seconds(point.low)} to ${seconds(point.high)})`;
  const value = point.y === undefined ? "" : `${seconds(point.y)}${bounds}`;
  return [`${series.name} · ${at(plot, point.x)}`, value, ...(point.note || "").split("\n")].filter(Boolean).map(plain).join("<br>");
}

// Whether several variants stand at one position.
const grouped = (plot) => !plot.lines && !plot.x_kind && plot.series.some((series) => series.points.some(({ x }) => x !== series.name));

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
    x: points.map((point) => (plot.x_kind ? point.x : plain(point.x))),
    y: points.map((point) => point.y ?? null),
    error_y: { type: "data", symmetric: false, array: bound("high"), arrayminus: bound("low"), color: ink, thickness: 1.2, width: 3 },
    marker: { color: ink, symbol: (SYMBOLS[look] || "hexagon") + (variety % 2 ? "-open" : ""), size: plot.lines ? 7 : 9, opacity: points.map((point) => (point.faint ? 0.4 : 1)) },
    line: { color: ink, width: 1.6, dash: DASHES[(variety + part) % DASHES.length] },
    hovertext: points.map((point) => about(series, point, plot)),
    hoverinfo: "text",
    offsetgroup: grouped(plot) ? plain(series.name) : undefined,
  };
}

// What could not be measured at a commit stands as a cross at the lower edge, with its reason.
function gaps(shown, floor, plot) {
  const found = shown.flatMap((series) => series.points.filter((point) => point.y === undefined).map((point) => [series, point]));
  return {
    type: "scatter",
    mode: "markers",
    showlegend: false,
    x: found.map(([, point]) => plain(point.x)),
    y: found.map(() => floor),
    marker: { symbol: "x-thin", size: 8, line: { color: colour("bad"), width: 1.5 } },
    hovertext: found.map(([series, point]) => about(series, point, plot)),
    hoverinfo: "text",
  };
}

function axis(extra) {
  const line = colour("line");
  return { gridcolor: line, linecolor: line, zeroline: false, automargin: true, ...extra };
}

// An axis of the numbers that are there: few sizes, or bytes that may be 0.
function numbers(plot, positions) {
  const few = positions.length > 5 ? [positions[0], positions[positions.length >> 1], positions.at(-1)] : positions;
  return axis({
    type: plot.x_kind === "bytes" ? "linear" : "log", tickvals: few, ticktext: few.map((x) => at(plot, x)),
    rangemode: "tozero", title: { text: plain(plot.x_title), standoff: 6 },
  });
}

function marks(plot) {
  const line = { color: colour("soft"), width: 1, dash: "dot" };
  const found = (plot.marks || []).map((mark) => [plot.x_kind === "number" ? Math.log10(mark.x) : mark.x, mark]);
  return {
    shapes: found.map(([, mark]) => ({ type: "line", xref: "x", yref: "paper", x0: mark.x, x1: mark.x, y0: 0, y1: 1, line })),
    annotations: found.map(([x, mark], index) => ({
      x, y: 0.02 + 0.08 * (index % 5), yref: "paper", text: `${plain(mark.text)} from ${at(plot, Math.round(mark.x))}`,
      showarrow: false, xanchor: "left", font: { size: 10, color: colour("soft") },
    })),
  };
}

function layout(plot, positions, range, width) {
  // As many names as stand side by side, the newest commit among them.
  const step = plot.lines ? Math.ceil((positions.length * 80) / Math.max(width - 70, 80)) : 1;
  const named = positions.filter((_, index) => (positions.length - 1 - index) % step === 0);
  return {
    height: 304,
    width: printing() ? PRINTED_WIDTH : undefined,
    margin: { l: 8, r: 8, t: 8, b: 8 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("soft"), size: 12, family: getComputedStyle(document.body).fontFamily },
    hoverlabel: { align: "left", bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink") } },
    hovermode: "closest",
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    scattermode: grouped(plot) ? "group" : undefined,
    scattergap: grouped(plot) ? 0.5 : undefined,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    showlegend: true,
    xaxis: plot.x_kind ? numbers(plot, positions) : axis({
      type: "category", categoryorder: "array", categoryarray: positions, range: [-0.5, positions.length - 0.5],
      tickvals: named, ticktext: named,
    }),
    ...marks(plot),
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
  if (typeof Plotly === "undefined") {
    figure.querySelector(".canvas").textContent = "The file with the script that draws is not beside this page: keep the pages of a report in one folder. The values are below.";
    return;
  }
  const shown = plot.series.filter(kept);
  const traces = shown.map((series) => trace(series, plot, place(series, plot)));
  const ends = shown.flatMap((series) => series.points.filter(kept)).flatMap((point) => [point.low, point.y, point.high]);
  const known = ends.filter((value) => value > 0);
  const range = known.length ? [Math.min(...known) / 1.25, Math.max(...known) * 1.2] : [1e-6, 1];
  if (!plot.x_kind) traces.push(gaps(shown, range[0] * 1.06, plot));
  const used = new Set(shown.flatMap((series) => series.points.filter(kept).map((point) => point.x)));
  const positions = plot.x_kind ? [...used].sort((a, b) => a - b) : plot.positions.filter((name) => used.has(name)).map(plain);
  const canvas = figure.querySelector(".canvas");
  drawn.add(figure);
  return Plotly.react(canvas, traces, layout(plot, positions, range, printing() ? PRINTED_WIDTH : canvas.clientWidth), SETTINGS);
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
    const found = series.points.filter((point) => point.x === name);
    const told = found.map((point) => (point.y === undefined ? (point.note || "").split("\n").pop() : seconds(point.y))).join(", ");
    return element("td", { textContent: told, className: "num" });
  };
  const numeric = [...new Set(shown.flatMap((series) => series.points.map((point) => point.x)))].sort((a, b) => a - b);
  const rows = (plot.x_kind ? numeric : plot.positions).map((name) =>
    element("tr", {}, head(at(plot, name), "row"), ...shown.map((series) => cell(series, name))));
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

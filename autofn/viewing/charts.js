// The part of Google Charts that torch-tb-profiler 0.4.3 calls, drawn as SVG: its views then need no internet.
(() => {
"use strict";

const COLOURS = [
  "#3366cc", "#dc3912", "#ff9900", "#109618", "#990099", "#0099c6", "#dd4477", "#66aa00", "#b82e2e", "#316395",
];
const SVG = "http://www.w3.org/2000/svg";
const CHARACTER = 6.5;  // width in pixels, on average
const LINE = 14;

// A cell is a value, or one with the text that shows.
const valueOf = (cell) => (cell !== null && typeof cell === "object" && "v" in cell ? cell.v : cell);
const textOf = (cell) => (cell !== null && typeof cell === "object" && "f" in cell ? cell.f : String(valueOf(cell)));
const numberOf = (cell) => Number(valueOf(cell)) || 0;
const cut = (text, pixels) => text.slice(0, Math.max(3, Math.floor(pixels / CHARACTER)));
const colourOf = (options, index) => (options.colors || COLOURS)[index % (options.colors || COLOURS).length];

function short(value) {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e6 || size < 0.01) ? value.toExponential(2) : String(Number(value.toFixed(2)));
}

function draw(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

class DataTable {
  constructor() {
    this.columns = [];
    this.rows = [];
  }

  addColumn(column, label) {
    this.columns.push(typeof column === "string" ? {type: column, label} : column);
  }

  addRow(row) {
    this.rows.push(row);
  }

  addRows(rows) {
    for (const row of rows) this.rows.push(row);
  }

  setProperty() {}  // styles of cells

  // The columns of values: those after the first that are no tooltip.
  get series() {
    return this.columns.map((column, index) => ({label: column.label, role: column.role, index}))
      .filter(({index, role}) => index > 0 && !role);
  }
}

function arrayToDataTable([headings, ...rows]) {
  const table = new DataTable();
  headings.forEach((label, index) => table.addColumn(index ? "number" : "string", label));
  table.addRows(rows);
  return table;
}

class Chart {
  constructor(element) {
    this.element = element;
    this.listeners = {};
    this.selection = [];
  }

  draw(table, options = {}) {
    this.clearChart();
    this.width = Math.max(300, this.element.clientWidth || 600);
    this.height = parseInt(options.height, 10) || 300;
    this.paint(table, options);
    this.tell("ready");
  }

  clearChart() {
    this.element.replaceChildren();
  }

  getSelection() {
    return this.selection;
  }

  setSelection(selection = []) {
    this.selection = selection;
  }

  tell(event, what = {}) {
    for (const listener of this.listeners[event] || []) listener(what);
  }

  canvas(options) {
    const size = {width: this.width, height: this.height, "font-family": "sans-serif", "font-size": 11};
    const made = draw(this.element, "svg", size);
    if (options.title) draw(made, "text", {x: 8, y: LINE, "font-weight": "bold"}, options.title);
    return made;
  }

  legend(canvas, labels, options) {
    let x = 60;
    labels.forEach((label, index) => {
      draw(canvas, "rect", {x, y: this.height - 13, width: 10, height: 10, fill: colourOf(options, index)});
      draw(canvas, "text", {x: x + LINE, y: this.height - 4}, label);
      x += 26 + CHARACTER * String(label).length;
    });
  }

  // The area of the plot, with five lines of the vertical axis.
  axes(canvas, options, low, high) {
    const area = this.area = {left: 60, right: this.width - 15, top: 24, bottom: this.height - 46};
    const range = high > low ? high - low : 1;
    area.y = (value) => area.bottom - (value - low) / range * (area.bottom - area.top);
    for (let part = 0; part <= 4; part++) {
      const value = low + range * part / 4;
      draw(canvas, "line", {x1: area.left, x2: area.right, y1: area.y(value), y2: area.y(value), stroke: "#ddd"});
      draw(canvas, "text", {x: area.left - 4, y: area.y(value) + 4, "text-anchor": "end"}, short(value));
    }
    const middle = (area.top + area.bottom) / 2;
    const turned = {x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle"};
    if (options.vAxis?.title) draw(canvas, "text", turned, options.vAxis.title);
    const below = {x: (area.left + area.right) / 2, y: this.height - 20, "text-anchor": "middle"};
    if (options.hAxis?.title) draw(canvas, "text", below, options.hAxis.title);
    return area;
  }

  getChartLayoutInterface() {
    const {left, right, top, bottom} = this.area;
    const [first, last] = this.domain;
    return {
      getChartAreaBoundingBox: () => ({left, top, width: right - left, height: bottom - top}),
      getHAxisValue: (x) => first + (x - left) / (right - left) * (last - first),
    };
  }
}

// Bars of a row stand on each other where the options say so, else beside each other.
class Bars extends Chart {
  paint(table, options) {
    const canvas = this.canvas(options);
    const {series} = table;
    const stacked = Boolean(options.isStacked);
    const heights = table.rows.map((row) => series.map(({index}) => numberOf(row[index])));
    const tops = heights.map((found) => stacked ? found.reduce((sum, value) => sum + value, 0) : Math.max(0, ...found));
    const area = this.axes(canvas, options, Math.min(0, ...heights.flat()), Math.max(0, ...tops));
    const room = (area.right - area.left) / Math.max(1, table.rows.length);
    heights.forEach((found, position) => {
      const left = area.left + position * room;
      let base = 0;
      found.forEach((value, number) => {
        const [from, to] = [area.y(base), area.y(base + value)];
        const width = room * 0.8 / (stacked ? 1 : series.length);
        const bar = draw(canvas, "rect", {
          x: left + room * 0.1 + (stacked ? 0 : number * width), width, y: Math.min(from, to),
          height: Math.abs(from - to), fill: colourOf(options, number),
        });
        draw(bar, "title", {}, `${textOf(table.rows[position][0])}\n${series[number].label}: ${short(value)}`);
        bar.addEventListener("click", () => this.select(position, series[number].index));
        if (stacked) base += value;
      });
      const below = {x: left + room / 2, y: area.bottom + 12, "text-anchor": "middle"};
      if (room > 3 * CHARACTER) draw(canvas, "text", below, cut(textOf(table.rows[position][0]), room));
    });
    this.legend(canvas, series.map(({label}) => label), options);
  }

  select(row, column) {
    this.selection = [{row, column}];
    this.tell("select");
  }
}

class Lines extends Chart {
  paint(table, options) {
    const canvas = this.canvas(options);
    const {series} = table;
    const xs = table.rows.map((row) => numberOf(row[0]));
    const values = table.rows.flatMap((row) => series.map(({index}) => numberOf(row[index])));
    const area = this.axes(canvas, options, 0, values.reduce((most, value) => Math.max(most, value), 0));
    const [first, last] = this.domain = xs.length ? [xs[0], xs[xs.length - 1]] : [0, 1];
    const place = (x) => area.left + (last > first ? (x - first) / (last - first) : 0) * (area.right - area.left);
    for (let part = 0; part <= 6; part++) {
      const x = first + (last - first) * part / 6;
      draw(canvas, "text", {x: place(x), y: area.bottom + 12, "text-anchor": "middle"}, short(x));
    }
    series.forEach(({index}, number) => {
      const points = table.rows.map((row, position) => `${place(xs[position])},${area.y(numberOf(row[index]))}`);
      const look = {fill: "none", stroke: colourOf(options, number), "stroke-width": 1.5};
      draw(canvas, "polyline", {points: points.join(" "), ...look});
    });
    this.legend(canvas, series.map(({label}) => label), options);
  }
}

class Pie extends Chart {
  paint(table, options) {
    const canvas = this.canvas(options);
    const radius = Math.min(this.height - 40, this.width * 0.45) / 2;
    const [x, y] = [radius + 20, this.height / 2 + 8];
    const total = table.rows.reduce((sum, row) => sum + numberOf(row[1]), 0) || 1;
    const at = (angle) => `${x + radius * Math.cos(angle)} ${y + radius * Math.sin(angle)}`;
    let from = -Math.PI / 2;
    table.rows.forEach((row, index) => {
      const share = numberOf(row[1]) / total;
      const to = from + Math.min(share, 0.9999) * 2 * Math.PI;  // a whole circle would be an arc to where it began
      const look = {fill: colourOf(options, index), stroke: "#fff"};
      const arc = `A${radius} ${radius} 0 ${share > 0.5 ? 1 : 0} 1 ${at(to)}`;
      const slice = draw(canvas, "path", {d: `M${x} ${y}L${at(from)}${arc}Z`, ...look});
      const said = `${(100 * share).toFixed(1)}%  ${textOf(row[0])}`;
      draw(slice, "title", {}, `${said}\n${short(numberOf(row[1]))}`);
      slice.addEventListener("mouseover", () => this.tell("onmouseover", {row: index}));
      slice.addEventListener("mouseout", () => this.tell("onmouseout", {row: index}));
      from = to;
      this.name(canvas, {left: x + radius + 18, line: index, look, said});
    });
  }

  name(canvas, {left, line, look, said}) {
    const y = 30 + line * LINE;
    if (y > this.height - 6) return;
    draw(canvas, "rect", {x: left, y: y - 9, width: 9, height: 9, fill: look.fill});
    draw(canvas, "text", {x: left + 13, y}, cut(said, this.width - left - 13));
  }
}

// Columns: a row's name, what stands in the bar, a tooltip, start, end.
class Timeline extends Chart {
  paint(table) {
    const levels = new Map();
    for (const row of table.rows) {
      if (!levels.has(textOf(row[0]))) levels.set(textOf(row[0]), levels.size);
    }
    const first = table.rows.reduce((least, row) => Math.min(least, numberOf(row[3])), Infinity);
    const last = table.rows.reduce((most, row) => Math.max(most, numberOf(row[4])), -Infinity);
    this.height = levels.size * 26 + 4;
    const canvas = this.canvas({});
    const place = (time) => (time - first) / (last - first || 1) * this.width;
    for (const row of table.rows) {
      const [x, y] = [place(numberOf(row[3])), levels.get(textOf(row[0])) * 26];
      const width = Math.max(0.5, place(numberOf(row[4])) - x);
      const name = textOf(row[1]);
      const colour = [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 997, 0);
      const bar = draw(canvas, "rect", {x, y, width, height: 22, fill: colourOf({}, colour), "fill-opacity": 0.75});
      draw(bar, "title", {}, textOf(row[2]));
      if (width > 40) draw(canvas, "text", {x: x + 3, y: y + 15}, cut(name, width));
    }
  }
}

class Table extends Chart {
  paint(table, options) {
    const made = document.createElement("table");
    made.style.cssText = "border-collapse: collapse; font: 12px sans-serif; width: 100%";
    const heading = made.createTHead().insertRow();
    table.columns.forEach((column, index) => {
      const cell = document.createElement("th");
      cell.textContent = column.label;
      cell.style.cssText = "border: 1px solid #ccc; cursor: pointer";
      cell.addEventListener("click", () => this.draw(table, {
        ...options, sortColumn: index, sortAscending: options.sortColumn === index && !options.sortAscending,
      }));
      heading.append(cell);
    });
    const body = made.createTBody();
    for (const {row, position} of this.sorted(table, options)) {
      const line = body.insertRow();
      for (const cell of row) {
        const shown = line.insertCell();
        shown.textContent = textOf(cell);
        shown.style.border = "1px solid #eee";
      }
      line.addEventListener("click", () => {
        this.selection = [{row: position}];
        this.tell("select");
      });
    }
    this.element.style.overflow = "auto";
    this.element.append(made);
  }

  sorted(table, {sortColumn = -1, sortAscending = true}) {
    const rows = table.rows.map((row, position) => ({row, position}));
    if (sortColumn < 0) return rows;
    const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0) * (sortAscending ? 1 : -1);
    return rows.sort((one, other) => order(valueOf(one.row[sortColumn]), valueOf(other.row[sortColumn])));
  }
}

window.google = {
  charts: {load: () => Promise.resolve()},
  visualization: {
    DataTable, arrayToDataTable, Table, Timeline,
    ColumnChart: Bars, ComboChart: Bars, SteppedAreaChart: Bars, LineChart: Lines, PieChart: Pie,
    events: {
      addListener: (chart, event, listener) => (chart.listeners[event] ||= []).push(listener),
    },
  },
};
})();

"use strict";
// page.js - tooltips by pointer and arrow keys, hidden policies, chosen layers and heads, downloads. draw.c makes the
// drawings: this script moves their marks by data attributes, and shows the range of an axis that holds the values.
const one = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const data = JSON.parse(one("#data").textContent), plots = [];
const hidden = new Set(); // policies
const chosen = new Map(); // name of a dimension -> text of its point, or "" for the mean over all

function add(host, tag, attributes = {}, text = "") {
  const node = host.appendChild(document.createElementNS(host.namespaceURI, tag));
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

const range = (n) => Array.from({ length: n }, (_, i) => i);
const isDrawn = (f, d) => d === f.x || d === f.series || d === f.panel;
const count = (f, d) => (d < 0 ? 1 : f.dims[d].count);
const pointText = (dim, i) => (dim.labels ? dim.labels[i] : dim.texts ? dim.texts[i] : String(i));
const isHidden = (dim, i) => Boolean(dim && dim.policies && hidden.has(dim.labels[i]));
const isFilled = (f, series, x) => f.filled.some(([s, i]) => s === Number(series) && i === x);
const isLinked = (dim) => ["layer", "head", "kv head"].includes(dim.name);
const bandOf = (f, series) => (f.pick.every((i) => i < 0) ? f.bands.filter(([s]) => s === Number(series)) : []);

function valueText(value, unit) {
  if (value === null) return "–";
  const share = unit.includes("share of"), v = share ? 100 * value : value, size = Math.abs(v);
  const text = size >= 100 || v === 0 ? v.toFixed(0) : String(Number(v.toPrecision(size < 1e-3 ? 2 : 3)));
  return text + (share || unit.startsWith("%") ? "%" : "");
}

// The chosen point of a dimension, or -1 for the mean; of a dimension whose neighbours were averaged, their bin.
function pickOf(dim) {
  const text = chosen.get(dim.name), at = text ? range(dim.count).findIndex((i) => pointText(dim, i) === text) : -1;
  return at < 0 && text && dim.values && text >= dim.values[0] ? dim.values.filter((v) => v <= text).length - 1 : at;
}

function mean(values) {
  const known = values.filter((v) => v !== null);
  return known.length ? known.reduce((a, b) => a + b) / known.length : null;
}

// The value of a drawn point: the mean over the dimensions that are neither drawn nor chosen.
function valueAt(f, panel, series, x) {
  const visit = (d, at) => {
    if (d === f.dims.length) return [f.values[at]];
    const i = d === f.x ? x : d === f.series ? series : d === f.panel ? panel : f.pick[d], points = f.dims[d].count;
    return i < 0 ? range(points).flatMap((k) => visit(d + 1, at * points + k)) : visit(d + 1, at * points + i);
  };
  return mean(visit(0, 0));
}

// Smallest and largest value over all figures of this name, so that they compare.
function spanOf(f) {
  let low = Infinity, high = -Infinity;
  for (const p of plots.filter((q) => q.f.name === f.name && !isHidden(q.f.dims[q.f.panel], q.panel)))
    for (const v of p.rows.flat().filter((w) => w !== null && (w > 0 || !f.log)))
      [low, high] = [Math.min(low, v), Math.max(high, v)];
  return [low, high];
}

// Shows the first of the drawn ranges that holds the span; returns the share of the axis that lies below a value.
function showRange(host, f, [low, high]) {
  const groups = all("[data-ends]", host), ends = groups.map((g) => g.dataset.ends.split(" ").map(Number));
  const fits = ends.findIndex(([l, h]) => l <= low + 1e-6 * Math.abs(low) && h >= high - 1e-6 * Math.abs(high));
  const at = fits < 0 ? groups.length - 1 : fits, [from, to] = ends[at];
  groups.forEach((g, i) => g.classList.toggle("hidden", i !== at));
  return (v) => (f.log ? Math.log(Math.max(v, from) / from) / Math.log(to / from) : (v - from) / (to - from));
}

function moveCurves(p) {
  const { xs, y } = p, clip = (v) => Math.min(p.bottom, Math.max(p.top, y(v))), ends = [];
  for (const g of p.series) {
    const row = p.rows[g.dataset.series], points = row.map((v, i) => [v, i]).filter(([v]) => v !== null);
    const filled = ([, i]) => isFilled(p.f, g.dataset.series, i), edges = bandOf(p.f, g.dataset.series);
    one(".line", g).setAttribute("d", points.map(([v, i]) =>
      `${i && row[i - 1] !== null ? "L" : "M"}${xs[i]} ${y(v)}`).join(""));
    for (const mark of all(".mark", g))
      mark.setAttribute("d", points.filter((point) => filled(point) === mark.classList.contains("hollow"))
        .map(([v, i]) => `M${xs[i]} ${y(v)}${g.dataset.marker}`).join(""));
    for (const band of all(".band", g))
      band.setAttribute("d", points.length && edges.length ? `M${[...edges.map((e) => `${xs[e[1]]} ${clip(e[3])}`),
        ...edges.map((e) => `${xs[e[1]]} ${clip(e[2])}`).reverse()].join("L")}z` : "");
    for (const name of all(".end", g)) {
      name.classList.add("hidden");
      if (points.length) ends.push([name, Number(y(points[points.length - 1][0]))]);
    }
  }
  let last = -Infinity; // a name that would touch another one stays hidden
  for (const [name, end] of ends.sort((a, b) => a[1] - b[1])) {
    const at = Math.max(end, last + 12), fits = at - end <= 8 && at <= p.bottom + 8;
    name.setAttribute("y", (fits ? at : end) + 4);
    name.classList.toggle("hidden", !fits);
    if (fits) last = at;
  }
}

function moveBars(p) {
  const wide = 0.8 * p.step / p.rows.length, w = Math.max(0.5, wide - 0.5), zero = Math.min(p.bottom, p.y(0));
  for (const bar of p.series) {
    const s = Number(bar.dataset.series), i = Number(bar.dataset.at), v = p.rows[s][i];
    bar.setAttribute("d", v === null ? "" : `M${p.left + p.step * (i + 0.1) + wide * s} ${p.y(v)}h${w}V${zero}h${-w}z`);
  }
}

function moveCells(p, share) {
  const { f, rows } = p, cells = one(".cells", p.svg), d = [...cells.children].map(() => "");
  const [wide, high] = cells.dataset.bins.split(" ").map(Number), columns = count(f, f.x);
  for (let r = 0; r < rows.length; r += high)
    for (let c = 0; c < columns; c += wide) {
      const v = mean(rows.slice(r, r + high).flatMap((row) => row.slice(c, c + wide)));
      const level = Math.min(d.length - 1, Math.max(0, Math.floor(share(v) * d.length)));
      if (v !== null) d[level] += `M${c / wide} ${r / high}h1v1h-1z`;
    }
  [...cells.children].forEach((path, level) => path.setAttribute("d", d[level]));
  const [i, j] = [f.x, f.series].map((k) => (isLinked(f.dims[k]) ? pickOf(f.dims[k]) : -1));
  for (const node of all(".picked", p.svg)) node.remove();
  if (i >= 0 || j >= 0)
    addRect(p, "picked", Math.max(i, 0), Math.max(j, 0), i < 0 ? columns : 1, j < 0 ? rows.length : 1);
}

function redraw(figure) {
  const f = figure.data, span = spanOf(f), colours = one("svg.colours", figure);
  let share = colours ? showRange(colours, f, span) : null;
  one(".note", figure).textContent = f.dims.map((dim, d) => (isDrawn(f, d) ? "" : f.pick[d] < 0 && dim.count > 1 ?
    dim.mean : `${dim.name} ${pointText(dim, Math.max(f.pick[d], 0))}`)).filter(Boolean).join(", ");
  for (const p of figure.plots) {
    p.svg.classList.toggle("hidden", isHidden(f.dims[f.panel], p.panel));
    if (!colours) share = showRange(p.svg, f, span);
    p.y = (v) => (p.bottom - (p.bottom - p.top) * share(v)).toFixed(1);
    ({ curves: moveCurves, bars: moveBars, heatmap: moveCells })[f.view](p, share);
  }
}

function redrawAll() {
  hideTip();
  for (const f of data.figures) f.pick = f.dims.map((dim, d) => (isDrawn(f, d) ? -1 : pickOf(dim)));
  for (const p of plots)
    p.rows = range(count(p.f, p.f.series)).map((s) => range(count(p.f, p.f.x)).map((x) =>
      isHidden(p.f.dims[p.f.series], s) || isHidden(p.f.dims[p.f.x], x) ? null : valueAt(p.f, p.panel, s, x)));
  for (const figure of figures) redraw(figure);
}

const tip = add(document.body, "div", { id: "tip", role: "status", hidden: "" });
// rows: [{key, name, value, near}]; key: classes of the series, or undefined.
function showTip(p, title, rows, px, py) {
  const box = p.svg.getBoundingClientRect(), scale = box.width / p.svg.viewBox.baseVal.width;
  tip.replaceChildren();
  tip.hidden = false;
  add(tip, "p", {}, title);
  const table = add(tip, "table"), line = "<path class='line' d='M1 5H23'/>";
  for (const row of rows) {
    const tr = add(table, "tr", row.near ? { class: "near" } : {}), th = add(tr, "th");
    if (row.key) th.innerHTML = `<svg class="key ${row.key}" viewBox="0 0 24 10">${line}</svg>`;
    add(th, "span", {}, row.name);
    add(tr, "td", {}, row.value);
  }
  const x = box.left + px * scale, y = box.top + py * scale, { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, x + 14 + width > innerWidth ? x - 14 - width : x + 14)}px`;
  tip.style.top = `${Math.min(Math.max(4, y - height / 2), innerHeight - height - 4)}px`;
}

function hideTip() {
  tip.hidden = true;
  for (const node of all(".cursor, .cell")) node.remove();
  for (const node of all(".near")) node.classList.remove("near");
  for (const p of plots) p.now = null;
}

// All series at a point of curves or bars; the line at the pointer stands out and has its name.
function showPoint(p, i, _, py) {
  const { f } = p, dim = f.dims[f.x], px = p.xs ? p.xs[i] : p.left + p.step * (i + 0.5);
  hideTip();
  p.now = [i, 0];
  if (p.xs) add(p.svg, "path", { class: "cursor", d: `M${px} ${p.top}V${p.bottom}` });
  const rows = p.series.filter((g) => p.xs || Number(g.dataset.at) === i).map((g) => {
    const s = g.dataset.series, v = p.rows[s][i], name = f.series < 0 ? f.title : pointText(f.dims[f.series], s);
    return { g, v, key: g.getAttribute("class").replace(/series|bar/g, ""), value: valueText(v, f.unit),
      name: isFilled(f, s, i) ? `${name} (window fills the budget)` : name };
  }).filter((row) => row.v !== null);
  if (p.xs) rows.sort((a, b) => (f.better < 0 ? 1 : -1) * (a.v - b.v));
  const away = rows.map((row) => Math.abs(p.y(row.v) - py)), near = rows[away.indexOf(Math.min(...away))];
  if (p.xs && near) {
    near.near = true;
    near.g.classList.add("near");
  }
  showTip(p, `${dim.name} ${pointText(dim, i)}`, rows, px, (p.top + p.bottom) / 2);
}

function addRect(p, kind, i, j, columns, rows) {
  const x = p.left + p.step * i, high = (p.bottom - p.top) / count(p.f, p.f.series), y = p.top + high * j;
  add(p.svg, "rect", { class: kind, x, y, width: p.step * columns, height: high * rows });
}

function showCell(p, i, j) {
  const { f } = p, x = f.dims[f.x], y = f.dims[f.series], value = valueText(p.rows[j][i], f.unit);
  hideTip();
  p.now = [i, j];
  addRect(p, "cell", i, j, 1, 1);
  showTip(p, `${x.name} ${pointText(x, i)}, ${y.name} ${pointText(y, j)}`, [{ name: f.title, value }],
    p.left + p.step * (i + 0.5), p.top + (p.bottom - p.top) * (j + 0.5) / y.count);
}

// Pointer and keys of a drawing: arrows walk along points or cells, Enter chooses a cell, Escape ends.
function listen(p) {
  const map = p.f.view === "heatmap", columns = count(p.f, p.f.x), rows = map ? count(p.f, p.f.series) : 1;
  const show = map ? showCell : showPoint, clip = (i, n) => Math.min(n - 1, Math.max(0, i));
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  p.svg.addEventListener("pointermove", (event) => {
    const box = p.svg.getBoundingClientRect(), scale = p.svg.viewBox.baseVal.width / box.width;
    const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
    const away = (p.xs || []).map((x) => Math.abs(x - px)), j = Math.floor((py - p.top) / (p.bottom - p.top) * rows);
    const i = p.xs ? away.indexOf(Math.min(...away)) : Math.floor((px - p.left) / p.step);
    i < 0 || i >= columns || (map && (j < 0 || j >= rows)) ? hideTip() : show(p, i, j, py);
  });
  for (const end of ["pointerleave", "blur"]) p.svg.addEventListener(end, hideTip);
  p.svg.addEventListener("click", () => map && p.now && chooseCell(p));
  p.svg.addEventListener("keydown", (event) => {
    const step = steps[event.key], [i, j] = p.now || (step ? [-step[0], -step[1]] : [0, 0]);
    if (event.key === "Escape") hideTip();
    if (event.key === "Enter" && map && p.now) chooseCell(p);
    if (!step) return;
    event.preventDefault();
    show(p, clip(i + step[0], columns), clip(j + step[1], rows));
  });
}

function chooseCell({ f, now }) {
  for (const [dim, i] of [[f.dims[f.x], now[0]], [f.dims[f.series], now[1]]])
    if (isLinked(dim)) chosen.set(dim.name, chosen.get(dim.name) === pointText(dim, i) ? "" : pointText(dim, i));
  for (const select of all("#controls select")) select.value = chosen.get(select.name) || "";
  redrawAll();
}

function addControls(bar) {
  const names = new Map();
  for (const f of data.figures)
    f.dims.forEach((dim, d) => {
      if (isDrawn(f, d) || dim.count < 2) return;
      if (f.pick[d] >= 0 && !chosen.has(dim.name)) chosen.set(dim.name, pointText(dim, f.pick[d]));
      names.set(dim.name, new Set([...(names.get(dim.name) || []), ...range(dim.count).map((i) => pointText(dim, i))]));
    });
  for (const [name, texts] of names) {
    const select = add(add(bar, "label", {}, `${name} `), "select", { name });
    for (const text of ["", ...texts]) add(select, "option", { value: text }, text || "mean over all");
    select.value = chosen.get(name) || "";
    select.addEventListener("change", () => (chosen.set(name, select.value), redrawAll()));
  }
  const buttons = all("button.policy", bar);
  for (const button of buttons)
    button.addEventListener("click", () => {
      if (!hidden.delete(button.value)) hidden.add(button.value);
      if (hidden.size === buttons.length) hidden.clear();
      for (const b of buttons) b.setAttribute("aria-pressed", String(!hidden.has(b.value)));
      redrawAll();
    });
  bar.hidden = !bar.children.length;
}

function addDownload(host, name, rows) {
  const cell = (v) => (/[",\r\n]/.test(v ?? "") ? `"${v.replace(/"/g, "\"\"")}"` : String(v ?? ""));
  const label = { type: "button", class: "download", "aria-label": `Download ${name} as CSV` };
  add(host, "button", label, "CSV").addEventListener("click", () => {
    const lines = rows().map((row) => row.map(cell).join(",") + "\n");
    const url = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
    add(document.createElement("p"), "a", { href: url, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
}

// A row for each value, with the points of its dimensions.
function csvRows(f) {
  const pointsOf = (dim) => dim.labels || dim.values || range(dim.count);
  const points = f.dims.reduce((rows, dim) => rows.flatMap((row) => pointsOf(dim).map((v) => [...row, v])), [[]]);
  return [[...f.dims.map((dim) => dim.name), "value"], ...f.values.map((v, i) => [...points[i], v])];
}

const figures = all("figure[data-figure]"), numbers = (text) => (text ? text.split(" ").map(Number) : null);
for (const figure of figures) {
  const f = figure.data = data.figures[Number(figure.dataset.figure)];
  figure.plots = all("svg.plot", figure).map((svg) => {
    const [left, right, top, bottom] = numbers(svg.dataset.box), series = all("[data-series]", svg);
    const panel = Number(svg.dataset.panel), step = (right - left) / count(f, f.x);
    return { f, svg, left, right, top, bottom, series, panel, step, xs: numbers(svg.dataset.x) };
  });
  figure.plots.forEach(listen);
  plots.push(...figure.plots);
  addDownload(one("figcaption", figure), f.name, () => csvRows(f));
}
addControls(one("#controls"));
redrawAll();
document.documentElement.classList.add("scripted");
for (const details of all("details[data-table]")) {
  const { name, columns, rows } = data.tables[Number(details.dataset.table)];
  addDownload(details, name.replace(/[^A-Za-z0-9_.]/g, "-"), () => [columns, ...rows]);
}

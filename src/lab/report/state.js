// state.js - the data of the page, how a figure is seen, and what the reader has chosen, which all figures share.
// Control characters and those that reverse the direction of writing are shown as such, as in the rest of the page.
const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const data = JSON.parse(
  document.getElementById("data").textContent, (_, v) => (typeof v === "string" ? v.replace(unsafe, "\ufffd") : v));

const chosen = {
  hidden: new Set(),  // policies
  points: new Map(),  // name of a dimension -> text of its point, or "" for the mean over all
};

const redraws = [];  // one function a figure

function redrawAll() {
  hideTip();
  for (const redraw of redraws) redraw();
}

// ---- texts ----

function valueText(value, unit) {
  if (value === null || !Number.isFinite(value)) return "–";
  const share = unit.includes("share of");
  const v = share ? 100 * value : value, size = Math.abs(v);
  const text = size >= 100 || v === 0 ? v.toFixed(0) :
    size < 1e-3                       ? String(Number(v.toPrecision(2))) :
                                        String(Number(v.toPrecision(3)));
  return text + (share || unit.startsWith("%") ? "%" : "");
}

function pointText(dim, i) {
  return dim.labels ? dim.labels[i] : dim.values ? valueText(dim.values[i], dim.unit) : String(i);
}

function shorten(text, limit) { return text.length > limit ? `${text.slice(0, limit)}…` : text; }

function pointValue(dim, i) { return dim.values ? dim.values[i] : i; }

const isPolicies = (dim) => Boolean(dim.labels) && (dim.name === "policy" || dim.name === "other policy");

// ---- views: as view.c has them ----

function dimNamed(sheet, name) { return sheet.dims.findIndex((dim) => dim.name === name); }

// Which dimensions run along x, make the series and the panels; of the others, the chosen point or -1 for the mean.
function viewOf(sheet) {
  const policy = dimNamed(sheet, "policy"), last = sheet.dims.length - 1;
  let x = dimNamed(sheet, sheet.x), series = dimNamed(sheet, sheet.y);
  if (x < 0) x = series === last ? 0 : last;
  if (x === series) series = -1;
  if (series < 0 && x !== policy) series = policy;
  const panel = policy >= 0 && policy !== x && policy !== series ? policy : -1;
  const pick = sheet.dims.map((dim, d) => (d === x || d === series || d === panel ? -1 : pickOf(dim)));
  const stride = [];
  for (let d = last, n = 1; d >= 0; n *= sheet.dims[d].count, d--) stride[d] = n;
  return {
    sheet,
    x,
    series,
    panel,
    pick,
    stride,
    free: sheet.dims.map((_, d) => d).filter((d) => ![x, series, panel].includes(d))
  };
}

function pickOf(dim) {
  const text = chosen.points.get(dim.name);
  if (!text) return -1;
  for (let i = 0; i < dim.count; i++)
    if (pointText(dim, i) === text) return i;
  return binOf(dim, Number(text));
}

// The layer or head of a figure whose neighbours were averaged that holds one of them.
function binOf(dim, value) {
  if (!dim.values || dim.unit || !Number.isFinite(value)) return -1;
  return d3.bisectRight(dim.values, value) - 1;
}

const countOf = (view, d) => (d < 0 ? 1 : view.sheet.dims[d].count);

// Mean over the dimensions that are neither drawn nor picked; null: no value.
function valueAt(view, panel, series, x) {
  const { sheet, stride } = view;
  let base = 0;
  const means = [];
  sheet.dims.forEach((dim, d) => {
    const at = d === view.x ? x : d === view.series ? series : d === view.panel ? panel : view.pick[d];
    if (at >= 0)
      base += at * stride[d];
    else
      means.push(d);
  });
  let sum = 0, n = 0;
  const add = (k, at) => {
    if (k === means.length) {
      const v = sheet.values[at];
      if (v !== null) {
        sum += v;
        n++;
      }
      return;
    }
    for (let i = 0; i < sheet.dims[means[k]].count; i++) add(k + 1, at + i * stride[means[k]]);
  };
  add(0, base);
  return n ? sum / n : null;
}

// Whether protected entries fill the budget of a policy: of curves of policies over budgets, as samples.c has it.
function isFilled(view, series, x) {
  const { sheet } = view;
  return view.x === dimNamed(sheet, "budget") && view.series >= 0 && view.series === dimNamed(sheet, "policy") &&
    sheet.filled.some(([p, b]) => p === series && b === x);
}

function isHidden(dim, i) { return isPolicies(dim) && chosen.hidden.has(dim.labels[i]); }

// Points of a dimension that are shown; [0] for none.
function shown(view, d) {
  const all = d3.range(countOf(view, d));
  return d < 0 ? all : all.filter((i) => !isHidden(view.sheet.dims[d], i));
}

// Smallest and largest value over all figures of this name, so that they compare.
function rangeOf(name) {
  let low = Infinity, high = -Infinity;
  for (const sheet of data.sheets) {
    if (sheet.name !== name) continue;
    const view = viewOf(sheet);
    for (const p of shown(view, view.panel))
      for (const s of shown(view, view.series))
        for (let x = 0; x < countOf(view, view.x); x++) {
          const v = valueAt(view, p, s, x);
          if (v === null) continue;
          if (v < low) low = v;
          if (v > high) high = v;
        }
  }
  return low <= high ? [low, high] : [0, 1];
}

// What is done with the dimensions that are not drawn.
function noteOf(view) {
  return view.free
    .map((d) => {
      const dim = view.sheet.dims[d];
      if (view.pick[d] < 0 && dim.count > 1) return `mean over ${dim.count} ${dim.name.replace(/([^a])y$/, "$1ie")}s`;
      return `${dim.name} ${pointText(dim, Math.max(view.pick[d], 0))}`;
    })
    .join(", ");
}

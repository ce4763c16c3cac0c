// curves.js - lines over x, one for each series, with their names at the right end where there is room.
const LOG_SPAN = 30;  // as scale.c has it
const MARKED_POINTS = 24, CHAR = 6.2, LINE = 13;

// Whether three or more points lie at even distances, as positions do.
function isEven(values) {
  const gap = values[1] - values[0];
  return values.length > 2 &&
    values.every((v, i) => i < 2 || Math.abs(v - values[i - 1] - gap) <= 1e-3 * Math.abs(gap));
}

// The scale of a dimension's points.
function scaleOfDim(dim, range) {
  const values = d3.range(dim.count).map((i) => pointValue(dim, i));
  let [low, high] = d3.extent(values);
  const log = Boolean(dim.values) && low > 0 && high / low > LOG_SPAN && !isEven(values);
  if (low === high) {
    low -= 0.5;
    high += 0.5;
  }
  return (log ? d3.scaleLog() : d3.scaleLinear()).domain([low, high]).range(range);
}

function scaleOfValues([low, high], unit, range) {
  if (low > 0 && high / low > LOG_SPAN && !unit.includes("share of"))
    return d3.scaleLog().domain([10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high))]).range(range);
  const ends = [Math.min(low, 0), Math.max(high, 0)];
  if (ends[0] === ends[1]) ends[1] += 1;
  return d3.scaleLinear().domain(ends).nice(5).range(range);
}

function drawAxisLeft(svg, box, y, unit, named) {
  const ticks = y.base ? y.ticks().filter((t) => Math.abs(Math.log10(t) % 1) < 1e-9) : y.ticks(5);
  for (const t of ticks) {
    svg.append("path").attr("class", "grid").attr("d", `M${box.left} ${y(t)}H${box.right}`);
    svg.append("text")
      .attr("class", "t")
      .attr("text-anchor", "end")
      .attr("x", box.left - 6)
      .attr("y", y(t) + 4)
      .text(valueText(t, unit));
  }
  if (named && unit) svg.append("text").attr("class", "t name").attr("x", 2).attr("y", 12).text(shorten(unit, 70));
}

// Whether labels are too long to lie side by side, and few enough to be slanted.
function isSlanted(dim, width) {
  const gap = width / dim.count;
  return Boolean(dim.labels) && Math.min(14, d3.max(dim.labels, (t) => t.length)) * CHAR > gap && gap > LINE;
}

// Names of points below the plot, `at` being their coordinates; those that would touch the one before are left out.
function drawAxisBelow(svg, box, dim, at, named) {
  const texts = d3.range(dim.count).map((i) => pointText(dim, i));
  const longest = Math.min(14, d3.max(texts, (t) => t.length)), gap = (box.right - box.left) / dim.count;
  const slant = isSlanted(dim, box.right - box.left);
  const room = slant ? LINE : longest * CHAR + 6;
  let step = 1, last = -Infinity;
  if (!dim.labels && dim.count > 10) {
    const least = Math.max(1, room / gap), power = 10 ** Math.floor(Math.log10(least));
    step = power * [1, 2, 5, 10].find((k) => k * power >= least);
  }
  svg.append("path").attr("class", "axis").attr("d", `M${box.left} ${box.bottom}H${box.right}`);
  for (let i = 0; i < dim.count; i += step) {
    const x = at(i);
    if (x - last < room) continue;
    last = x;
    const text = svg.append("text").attr("class", "t").text(shorten(texts[i], 14));
    if (slant)
      text.attr("text-anchor", "end").attr("transform", `translate(${x} ${box.bottom + 12}) rotate(-35)`);
    else
      text.attr("text-anchor", "middle").attr("x", x).attr("y", box.bottom + 15);
  }
  if (named)
    svg.append("text")
      .attr("class", "t name")
      .attr("text-anchor", "middle")
      .attr("x", (box.left + box.right) / 2)
      .attr("y", box.bottom + (slant ? 62 : 32))
      .text(shorten(dim.unit ? `${dim.name}, ${dim.unit}` : dim.name, 60));
}

// Names at the right end of lines, moved apart so that they do not touch.
function drawNames(svg, box, names) {
  if (names.length * LINE > box.bottom - box.top + 20) return;
  names.sort((a, b) => a.y - b.y);
  for (let i = 1; i < names.length; i++) names[i].y = Math.max(names[i].y, names[i - 1].y + LINE);
  for (let i = names.length - 1, limit = box.bottom; i >= 0 && names[i].y > limit; i--, limit -= LINE)
    names[i].y = limit;
  for (const n of names)
    svg.append("text")
      .attr("class", `t end ${inkClass(n.ink)}`)
      .attr("x", box.right + 9)
      .attr("y", n.y + 4)
      .text(shorten(n.text, 17));
}

// Where the plot lies inside its drawing.
function boxOf(size, dim, left, right) {
  const below = (size.alone ? 42 : 24) + (isSlanted(dim, size.width - left - right) ? 32 : 0);
  return { left, right: size.width - right, top: 24, bottom: size.height - below };
}

function newPlot(host, width, height, label) {
  return d3.select(host)
    .append("svg")
    .attr("class", "live")
    .attr("viewBox", `0 0 ${width} ${height}`)
    .attr("width", width)
    .attr("height", height)
    .attr("role", "img")
    .attr("aria-label", label);
}

function drawCurves(host, view, panel, size) {
  const { sheet } = view, dim = sheet.dims[view.x], series = shown(view, view.series);
  const inkAt = (s) => (view.series < 0 ? 0 : inkOf(sheet.dims[view.series], s));
  const nameAt = (s) => (view.series < 0 ? sheet.title : pointText(sheet.dims[view.series], s));
  const beside = size.alone && view.series >= 0 && size.width > 480;
  const box = boxOf(size, dim, 52, beside ? 124 : 12);
  const svg = newPlot(host, size.width, size.height, sheet.title);
  const x = scaleOfDim(dim, [box.left, box.right]), y = scaleOfValues(size.range, sheet.unit, [box.bottom, box.top]);
  const at = (i) => x(pointValue(dim, i));
  const lines = series.map((s) => ({ s, values: d3.range(dim.count).map((i) => valueAt(view, panel, s, i)) }));
  drawAxisLeft(svg, box, y, sheet.unit, size.alone);
  drawAxisBelow(svg, box, dim, at, size.alone);
  const cursor = svg.append("path").attr("class", "cursor");
  for (const line of lines) {
    const ink = inkAt(line.s), points = line.values.map((v, i) => [i, v]).filter((p) => p[1] !== null);
    svg.append("path")
      .attr("class", `line ${inkClass(ink)}`)
      .attr("d", d3.line().defined((v) => v !== null).x((_, i) => at(i)).y((v) => y(v))(line.values));
    if (hasMarks(ink) && dim.count <= MARKED_POINTS)
      for (const [i, v] of points)
        svg.append("path")
          .attr("class", `mark ${isFilled(view, line.s, i) ? "hollow " : ""}${inkClass(ink)}`)
          .attr("transform", `translate(${at(i)} ${y(v)})`)
          .attr("d", markerPath(ink, 34));
    line.end = points.length ? y(points[points.length - 1][1]) : null;
  }
  if (beside)
    drawNames(
      svg, box, lines.filter((l) => l.end !== null).map((l) => ({ y: l.end, ink: inkAt(l.s), text: nameAt(l.s) })));

  let now = -1;
  const show = (i) => {
    now = i;
    cursor.attr("d", `M${at(i)} ${box.top}V${box.bottom}`);
    const rows = lines.filter((l) => l.values[i] !== null)
                   .sort((a, b) => (sheet.better < 0 ? 1 : -1) * (a.values[i] - b.values[i]));
    const corner = svg.node().getBoundingClientRect();
    showTip(`${dim.name} ${pointText(dim, i)}`,
      rows.map((l) => ({
        key: keyOf(inkAt(l.s)),
        name: isFilled(view, l.s, i) ? `${nameAt(l.s)} (window fills the budget)` : nameAt(l.s),
        value: valueText(l.values[i], sheet.unit)
      })),
      corner.left + at(i) * corner.width / size.width, corner.top + corner.height / 2);
  };
  follow(svg, {
    at: (px) => show(d3.scan(d3.range(dim.count), (a, b) => Math.abs(at(a) - px) - Math.abs(at(b) - px))),
    key: (dx) => show(Math.min(dim.count - 1, Math.max(0, now + dx))),
    out: () => {
      now = -1;
      cursor.attr("d", null);
    },
  });
}

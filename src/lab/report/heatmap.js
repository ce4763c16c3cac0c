// heatmap.js - maps: cells on a canvas, axes and the cursor above it. A click on a layer or head chooses it everywhere.
const linked = ["layer", "head", "kv head"];

// The values that the first and the last colour stand for; from 0 where the smallest value is near it.
function colourEnds([low, high], unit) {
  const log = low > 0 && high / low > LOG_SPAN && !unit.includes("share of");
  return { low: !log && low > 0 && low < high / 3 ? 0 : low, high, log };
}

function colourScale(range, unit) {
  const { low, high, log } = colourEnds(range, unit);
  const share = log ? d3.scaleLog().domain([low, high]) : (v) => (high > low ? (v - low) / (high - low) : 0);
  return (v) => d3.interpolateViridis(share(v));
}

// Colours and what they stand for, above a figure; and the axes of its panels, which have no room for their names.
function drawColours(host, view, range) {
  const { unit, dims } = view.sheet, { low, high } = colourEnds(range, unit);
  const key = d3.select(host).append("p").attr("class", "colours");
  key.append("span").text(valueText(low, unit));
  const svg = key.append("svg").attr("viewBox", "0 0 128 10").attr("aria-hidden", "true");
  for (let i = 0; i < 64; i++) {
    const rect = svg.append("rect").attr("x", 2 * i).attr("width", 2.2).attr("height", 10);
    rect.attr("fill", d3.interpolateViridis(i / 63));
  }
  key.append("span").text(valueText(high, unit));
  if (view.panel >= 0) key.append("span").text(`${dims[view.series].name} by ${dims[view.x].name}`);
}

function drawHeatmap(host, view, panel, size) {
  const { sheet } = view, xDim = sheet.dims[view.x], yDim = sheet.dims[view.series];
  const rows = shown(view, view.series), columns = shown(view, view.x);
  const longest = Math.min(14, d3.max(rows, (r) => pointText(yDim, r).length));
  const box = boxOf(size, xDim, Math.max(30, 12 + CHAR * longest), 8);
  const wide = (box.right - box.left) / columns.length, high = (box.bottom - box.top) / rows.length;
  const frame = d3.select(host).append("div").attr("class", "map");
  const canvas = frame.append("canvas")
                   .attr("width", columns.length)
                   .attr("height", rows.length)
                   .attr("aria-hidden", "true")
                   .style("left", `${box.left}px`)
                   .style("top", `${box.top}px`)
                   .style("width", `${box.right - box.left}px`)
                   .style("height", `${box.bottom - box.top}px`);
  const paint = canvas.node().getContext("2d"), colour = colourScale(size.range, sheet.unit);
  rows.forEach((r, j) => columns.forEach((c, i) => {
    const v = valueAt(view, panel, r, c);
    if (v === null) return;
    paint.fillStyle = colour(v);
    paint.fillRect(i, j, 1, 1);
  }));
  const svg = newPlot(frame.node(), size.width, size.height, sheet.title);
  const only = {...xDim, count: columns.length, labels: xDim.labels && columns.map((c) => xDim.labels[c]) };
  drawAxisBelow(svg, box, only, (i) => box.left + wide * (i + 0.5), size.alone);
  const step = Math.max(1, Math.ceil(13 / high));
  for (let j = 0; j < rows.length; j += step) {
    svg.append("text")
      .attr("class", "t")
      .attr("text-anchor", "end")
      .attr("x", box.left - 6)
      .attr("y", box.top + high * (j + 0.5) + 4)
      .text(shorten(pointText(yDim, rows[j]), 14));
  }
  if (size.alone)
    svg.append("text").attr("class", "t name").attr("x", 2).attr("y", box.top - 6).text(shorten(yDim.name, 60));
  const outline = (i, j, kind) => svg.append("rect")
                                    .attr("class", kind)
                                    .attr("x", box.left + wide * i)
                                    .attr("y", box.top + high * j)
                                    .attr("width", wide)
                                    .attr("height", high);

  // What is chosen elsewhere.
  const places = (dim, all) =>
    (linked.includes(dim.name) && chosen.points.get(dim.name) ? all.findIndex((k) => k === pickOf(dim)) : -1);
  const atX = places(xDim, columns), atY = places(yDim, rows);
  if (atX >= 0 || atY >= 0)
    svg.append("rect")
      .attr("class", "picked")
      .attr("x", box.left + wide * Math.max(atX, 0))
      .attr("y", box.top + high * Math.max(atY, 0))
      .attr("width", atX < 0 ? box.right - box.left : wide)
      .attr("height", atY < 0 ? box.bottom - box.top : high);

  let now = null, cursor = null;
  const out = () => {
    now = null;
    if (cursor) cursor.remove();
  };
  const show = (i, j) => {
    out();
    now = [i, j];
    cursor = outline(i, j, "cell");
    const corner = svg.node().getBoundingClientRect();
    showTip(`${xDim.name} ${pointText(xDim, columns[i])}, ${yDim.name} ${pointText(yDim, rows[j])}`,
      [{ key: null, name: sheet.title, value: valueText(valueAt(view, panel, rows[j], columns[i]), sheet.unit) }],
      corner.left + box.left + wide * (i + 0.5), corner.top + box.top + high * (j + 0.5));
  };
  const cellAt = (px, py) => [Math.floor((px - box.left) / wide), Math.floor((py - box.top) / high)];
  const inside = ([i, j]) => i >= 0 && j >= 0 && i < columns.length && j < rows.length;
  follow(svg, {
    at: (px, py) => {
      const cell = cellAt(px, py);
      if (inside(cell))
        show(...cell);
      else {
        hideTip();
        out();
      }
    },
    key: (dx, dy) => {
      const cell = now ? [now[0] + dx, now[1] + dy] : [0, 0];
      if (inside(cell)) show(...cell);
    },
    out,
    click: (px, py) => {
      const cell = px === undefined ? now : cellAt(px, py);
      if (!cell || !inside(cell)) return;
      [[xDim, columns[cell[0]]], [yDim, rows[cell[1]]]].forEach(([dim, i]) => {
        if (linked.includes(dim.name)) choose(dim.name, pointText(dim, i));
      });
    },
  });
}

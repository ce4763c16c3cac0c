// page.js - replaces the drawings of the page by ones that answer, and offers the numbers as files.
const draw = {
  curves: drawCurves,
  heatmap: drawHeatmap,
  bars: drawBars
};

function csvCell(value) {
  const text = value === null ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, "\"\"")}"` : text;
}

const csvOf = (rows) => rows.map((row) => row.map(csvCell).join(",") + "\n").join("");

function sheetRows(sheet) {
  const { stride } = viewOf(sheet);
  const rows = sheet.values.map((v, at) => [...sheet.dims.map((dim, d) => {
    const i = Math.floor(at / stride[d]) % dim.count;
    return dim.labels ? dim.labels[i] : pointValue(dim, i);
  }),
                                  v]);
  return [[...sheet.dims.map((dim) => dim.name), "value"], ...rows];
}

function addDownload(host, name, rowsOf) {
  d3.select(host)
    .append("button")
    .attr("type", "button")
    .attr("class", "csv")
    .text("CSV")
    .attr("aria-label", `Download ${name} as CSV`)
    .on("click", () => {
      const url = URL.createObjectURL(new Blob([csvOf(rowsOf())], { type: "text/csv" }));
      d3.create("a").attr("href", url).attr("download", `${name}.csv`).node().click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    });
}

// One figure: its panels in a grid, each of them drawn anew whenever something is chosen.
function addSheet(figure) {
  const sheet = data.sheets[Number(figure.dataset.sheet)], plot = figure.querySelector(".plot");
  addDownload(figure.querySelector("figcaption"), sheet.name, () => sheetRows(sheet));
  if (!draw[sheet.view]) return;
  let drawnWidth = 0;
  const redraw = () => {
    const view = viewOf(sheet), panels = shown(view, view.panel), alone = view.panel < 0;
    const room = drawnWidth = plot.clientWidth;
    const across = alone ? 1 : Math.max(1, Math.min(panels.length, Math.floor(room / 230), 4)),
          width = Math.floor((room - 12 * (across - 1)) / across);
    const height = alone ? Math.round(Math.min(380, Math.max(260, 0.55 * width))) :
                           Math.round(Math.min(240, Math.max(170, 0.7 * width)));
    const range = rangeOf(sheet.name);
    figure.querySelector(".note").textContent = noteOf(view);
    const empty = !panels.length || !shown(view, view.series).length || !shown(view, view.x).length;
    plot.textContent = empty ? "All policies of this figure are hidden." : "";
    if (empty) return;
    if (sheet.view === "heatmap")
      drawColours(plot, view, range);
    else
      drawKeys(plot, view);
    const grid = d3.select(plot)
                   .append("div")
                   .attr("class", "panels")
                   .style("grid-template-columns", `repeat(${across}, ${width}px)`);
    for (const p of panels) {
      const host = grid.append("div").attr("class", "panel");
      if (!alone) host.append("h4").text(pointText(sheet.dims[view.panel], p));
      draw[sheet.view](host.node(), view, p, { width, height, range, alone });
    }
  };
  redraws.push(redraw);
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (plot.clientWidth !== drawnWidth) redraw();
  }))
    .observe(plot);
  redraw();
}

chooseFirst();
addControls();
document.documentElement.classList.add("scripted");
for (const figure of document.querySelectorAll("figure[data-sheet]")) addSheet(figure);
document.querySelectorAll("details[data-table]").forEach((details) => {
  const table = data.tables[Number(details.dataset.table)];
  addDownload(details, table.name.replace(/[^A-Za-z0-9_.]/g, "-"), () => [table.columns, ...table.rows]);
});

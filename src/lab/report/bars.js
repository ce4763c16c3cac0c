// bars.js - bars over x, side by side for the series.
function drawBars(host, view, panel, size) {
  const { sheet } = view, dim = sheet.dims[view.x], series = shown(view, view.series), places = shown(view, view.x);
  const inkAt = (s, i) => (view.series >= 0 ? inkOf(sheet.dims[view.series], s) : isPolicies(dim) ? inkOf(dim, i) : 0);
  const box = boxOf(size, dim, 52, 12);
  const svg = newPlot(host, size.width, size.height, sheet.title);
  const y = scaleOfValues([Math.min(0, size.range[0]), size.range[1]], sheet.unit, [box.bottom, box.top]);
  const step = (box.right - box.left) / places.length, wide = 0.8 * step / Math.max(1, series.length);
  drawAxisLeft(svg, box, y, sheet.unit, size.alone);
  const only = {...dim, count: places.length, labels: dim.labels && places.map((i) => dim.labels[i]) };
  drawAxisBelow(svg, box, only, (k) => box.left + step * (k + 0.5), size.alone);
  places.forEach((i, k) => series.forEach((s, n) => {
    const v = valueAt(view, panel, s, i);
    if (v === null) return;
    svg.append("rect")
      .attr("class", `bar ${inkClass(inkAt(s, i))}`)
      .attr("x", box.left + step * (k + 0.1) + wide * n)
      .attr("width", Math.max(0.5, wide - 0.5))
      .attr("y", Math.min(y(v), y(0)))
      .attr("height", Math.abs(y(v) - y(0)));
  }));
  let now = -1;
  const show = (k) => {
    now = k;
    const corner = svg.node().getBoundingClientRect();
    showTip(`${dim.name} ${pointText(dim, places[k])}`, series.map((s) => ({
      key: keyOf(inkAt(s, places[k])),
      name: view.series < 0 ? sheet.title : pointText(sheet.dims[view.series], s),
      value: valueText(valueAt(view, panel, s, places[k]), sheet.unit)
    })),
      corner.left + box.left + step * (k + 0.5), corner.top + corner.height / 2);
  };
  follow(svg, {
    at: (px) => {
      const k = Math.floor((px - box.left) / step);
      if (k >= 0 && k < places.length) show(k);
    },
    key: (dx) => show(Math.min(places.length - 1, Math.max(0, now + dx))),
    out: () => {
      now = -1;
    },
  });
}

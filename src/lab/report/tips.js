// tips.js - one tip for the page: beside the pointer or the point that the arrow keys reached, and read aloud.
const tip = d3.select("body").append("div").attr("id", "tip").attr("role", "status").attr("hidden", "");

// rows: [{key: node or null, name, value}]
function showTip(title, rows, x, y) {
  tip.attr("hidden", null).html("");
  tip.append("p").text(title);
  const table = tip.append("table");
  for (const row of rows) {
    const tr = table.append("tr"), th = tr.append("th");
    if (row.key) th.append(() => row.key);
    th.append("span").text(row.name);
    tr.append("td").text(row.value);
  }
  const box = tip.node().getBoundingClientRect(), gap = 14;
  const left = x + gap + box.width > window.innerWidth ? x - gap - box.width : x + gap;
  const top = Math.min(Math.max(4, y - box.height / 2), window.innerHeight - box.height - 4);
  tip.style("left", `${Math.max(4, left)}px`).style("top", `${top}px`);
}

function hideTip() { tip.attr("hidden", ""); }

// Calls at(x, y) with coordinates inside `svg` for the pointer, key(dx, dy) for arrow keys, out() when both have gone.
function follow(svg, { at, key, out, click }) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  svg.attr("tabindex", 0)
    .on("pointermove", () => at(...d3.mouse(svg.node())))
    .on("pointerleave",
      () => {
        hideTip();
        out();
      })
    .on("blur",
      () => {
        hideTip();
        out();
      })
    .on("click", () => click && click(...d3.mouse(svg.node())))
    .on("keydown", () => {
      const step = steps[d3.event.key];
      if (d3.event.key === "Escape") {
        hideTip();
        out();
      }
      if (d3.event.key === "Enter" && click) click();
      if (!step) return;
      d3.event.preventDefault();
      key(...step);
    });
}

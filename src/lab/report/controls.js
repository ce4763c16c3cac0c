// controls.js - what the reader chooses for all figures: policies, and points of dimensions that no axis shows.
function choose(name, text) {
  chosen.points.set(name, chosen.points.get(name) === text ? "" : text);
  syncControls();
  redrawAll();
}

// The dimensions that some figure neither draws nor lacks, with the texts of their points in order.
function freeDims() {
  const found = new Map();
  for (const sheet of data.sheets) {
    const view = viewOf(sheet);
    for (const d of view.free) {
      const dim = sheet.dims[d];
      if (dim.count < 2) continue;
      if (!found.has(dim.name)) found.set(dim.name, []);
      const texts = found.get(dim.name);
      for (let i = 0; i < dim.count; i++)
        if (!texts.includes(pointText(dim, i))) texts.push(pointText(dim, i));
    }
  }
  return found;
}

// Of budgets, and of other dimensions with values, the point in the middle is shown first: their mean says little.
function chooseFirst() {
  for (const sheet of data.sheets)
    for (const d of viewOf(sheet).free) {
      const dim = sheet.dims[d];
      if ((dim.values || dim.name === "budget") && !chosen.points.has(dim.name))
        chosen.points.set(dim.name, pointText(dim, Math.floor(dim.count / 2)));
    }
}

function syncControls() {
  d3.selectAll("#controls select").property("value", function() { return chosen.points.get(this.name) || ""; });
  d3.selectAll("#controls button.policy")
    .attr("aria-pressed", function() { return String(!chosen.hidden.has(this.value)); });
}

function addControls() {
  const bar = d3.select("#controls").attr("hidden", null);
  if (data.policies.length > 1) {
    const group = bar.append("div").attr("class", "policies").attr("role", "group").attr("aria-label", "Policies");
    for (const name of data.policies) {
      const button = group.append("button").attr("type", "button").attr("class", "policy").attr("value", name);
      button.append(() => keyOf(inkOf({ name: "policy", labels: [name] }, 0)));
      button.append("span").text(name);
      button.on("click", () => {
        if (!chosen.hidden.delete(name)) chosen.hidden.add(name);
        if (data.policies.every((p) => chosen.hidden.has(p))) chosen.hidden.clear();
        syncControls();
        redrawAll();
      });
    }
  }
  for (const [name, texts] of freeDims()) {
    const label = bar.append("label").text(`${name} `);
    const select = label.append("select").attr("name", name);
    select.append("option").attr("value", "").text("mean over all");
    for (const text of texts) select.append("option").attr("value", text).text(text);
    select.on("change", function() {
      chosen.points.set(name, this.value);
      redrawAll();
    });
  }
  if (!bar.node().children.length) bar.attr("hidden", "");
  syncControls();
}

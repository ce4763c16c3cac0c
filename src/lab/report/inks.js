// inks.js - how a series looks: palette.c has the same rule, page.css the colours.
const references = ["oracle", "random", "full", "oracle-adaptive"];
const COLOURS = 6, RAMP = 1000;  // from RAMP on, steps of a ramp
const markers = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolWye];

function inkOf(dim, i) {
  if (!isPolicies(dim)) return dim.labels || dim.count <= COLOURS ? i : RAMP + Math.floor(i * 15 / (dim.count - 1));
  const own = references.indexOf(dim.labels[i]);
  if (own >= 0) return -1 - own;
  return data.policies.filter((name) => !references.includes(name)).indexOf(dim.labels[i]);
}

function inkClass(ink) {
  if (ink >= RAMP) return `r${ink - RAMP}`;
  return ink < 0 ? `c-${references[-1 - ink]}` : `c${ink % COLOURS} d${Math.floor(ink / COLOURS) % 4}`;
}

const hasMarks = (ink) => ink >= 0 && ink < RAMP;

function markerPath(ink, size) { return d3.symbol().type(markers[ink % COLOURS]).size(size)(); }

// A short line in the ink of a series, for keys and tips.
function keyOf(ink) {
  const svg = d3.create("svg").attr("class", "key").attr("viewBox", "0 0 24 10").attr("aria-hidden", "true");
  svg.append("path").attr("class", `line ${inkClass(ink)}`).attr("d", "M1 5H23");
  if (hasMarks(ink))
    svg.append("path")
      .attr("class", `mark ${inkClass(ink)}`)
      .attr("transform", "translate(12 5)")
      .attr("d", markerPath(ink, 30));
  return svg.node();
}

// Names of series that the key of policies does not have, above a figure.
function drawKeys(host, view) {
  if (view.series < 0 || isPolicies(view.sheet.dims[view.series])) return;
  const dim = view.sheet.dims[view.series], keys = d3.select(host).append("p").attr("class", "keys");
  keys.append("span").text(dim.name);
  const step = Math.max(1, (dim.count - 1) / 6);  // some of many
  for (let k = 0; k < dim.count; k += step) {
    const i = Math.round(k);
    const one = keys.append("span");
    one.append(() => keyOf(inkOf(dim, i)));
    one.append("span").text(pointText(dim, i));
  }
}

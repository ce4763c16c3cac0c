#!/usr/bin/env python3
"""Files as the Python package reads them: check_reader.py CHECKPOINT TRACE ANALYSIS KEEP_SETS. Ends with 77 where numpy or h5py are
missing."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
try:
    import longhaul
    import numpy as np
except ImportError:
    sys.exit(77)

checkpoint, trace, analysis, kept = (longhaul.open(path) for path in sys.argv[1:5])
assert [f.kind for f in (checkpoint, trace, analysis, kept)] == ["checkpoint", "trace", "analysis", "keep-sets"]
assert checkpoint["embed"].shape[1] == checkpoint.config["hidden_size"] == trace.model["hidden"]

# Attention of recorded rows times the values is the recorded output.
group = trace.model["heads"] // trace.model["kv_heads"]
for number in trace.layers:
    layer = trace.layer(number)
    for head in range(trace.model["heads"]):
        a = layer.attention(head)
        assert np.allclose(a.sum(1), 1)
        assert np.allclose(a @ layer.values[head // group], layer.outputs[:, head], atol=1e-4)

# Greedy: a step ends with the logits that the next token is the best of.
rows, ids, best = (trace.steps[n] for n in ("rows", "top_ids", "top_logits"))
follows = [s for s in range(len(rows) - 1) if rows[s + 1] == rows[s] + 1 and
           trace.decode["answers"][rows[s]] == trace.decode["answers"][rows[s + 1]]]
assert len(follows) > 10 and all(trace.decode["tokens"][rows[s + 1]] == ids[s, 0] for s in follows)
assert np.all(np.exp(best - trace.steps["lse"][:, None]).sum(1) < 1 + 1e-6) and np.all(np.diff(best, axis=1) <= 0)
assert trace.timings["steps"].shape[1] == len(rows) and trace.timings["prefill"].shape[1] == len(trace.layers)
assert trace.logits.shape[0] > ids.max()

# Keep sets have as many entries as the figure says.
policy, budget = os.path.basename(sys.argv[4])[:-3].split(".", 1)[1].rsplit("-", 1)
figure = analysis["budgets"].sel(policy=policy, budget=float(budget.rstrip("%")))
for number in trace.layers:
    counts = [len(p) for p in kept.positions(number)]
    assert counts == figure.sel(layer=number).values.astype(int).tolist(), (counts, figure.sel(layer=number).values)
assert 0 < analysis["mass"].mean() < 1 and list(analysis["mass"].dims) == ["policy", "budget", "layer", "head"]

try:
    longhaul.Trace(sys.argv[1])
except ValueError as error:
    assert "is a checkpoint, not a trace" in str(error)
else:
    sys.exit("a checkpoint was opened as a trace")

# What is not there is a KeyError that names what is.
mass = analysis["mass"]
for miss, wanted in ((lambda: mass.sel(policy="snapKV"), mass.dims["policy"][0]), (lambda: mass.sel(polcy="snapkv"), "policy"),
                     (lambda: mass.sel(layer=1000), "1"), (lambda: mass.mean("heads"), "head"),
                     (lambda: analysis["masses"], "mass")):
    try:
        miss()
    except KeyError as error:
        assert f"{wanted!r}" in error.args[0] or f" {wanted}," in error.args[0], error
    else:
        sys.exit("a name that is not there was found")

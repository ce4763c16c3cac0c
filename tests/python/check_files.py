#!/usr/bin/env python3
"""Files that the package writes are taken by the program: check_files.py PROGRAM MODEL FOLDER MPIEXEC."""
import os
import subprocess
import sys

import longhaul
import numpy as np

try:
    import h5py
except ImportError:
    sys.exit("python3-h5py is missing: the files of the package are not tested")

program, model, folder, mpiexec = sys.argv[1:5]
TEXT = "A text that is longer than the budget, of which one in three stays. " * 3
os.chdir(folder)


def run(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


with longhaul.Engine(model) as engine:
    tokens = engine.tokenizer.encode(TEXT)
    layers, heads = engine.layers, engine.kv_heads
run("generate", "-m", model, "-p", TEXT, "-n", "2", "--policy", "streaming", "--budget", "20", "--keep-sets", "theirs.h5", "-q")
with longhaul.KeepSets("theirs.h5") as theirs:
    prompt = theirs.tokens[:-1]
    assert prompt.tolist()[-len(tokens) + 1:] == tokens.tolist()[-len(tokens) + 1:] or len(prompt) >= len(tokens)
    n = 1 + int(max(p.max() for p in theirs.positions(0)))
wanted = [[np.arange(h, n, 3) for h in range(heads)] for _ in range(layers)]
keep = np.zeros((layers, heads, n), bool)
for layer in range(layers):
    for head in range(heads):
        keep[layer, head, wanted[layer][head]] = True
for name, kept in (("lists.h5", wanted), ("mask.h5", keep)):
    with longhaul.KeepSets("theirs.h5") as theirs:
        longhaul.write_keep_sets(name, theirs.tokens[:n], kept)
    run("generate", "-m", model, "-p", TEXT, "-n", "2", "--keep-sets-from", name, "--keep-sets", "again.h5", "-q")
    with longhaul.open("again.h5") as again:
        for layer in range(layers):
            for head, positions in enumerate(again.positions(layer)):
                assert np.array_equal(positions, wanted[layer][head])
# weights in blocks: as bytes, and as values where the package gguf is installed
with h5py.File("blocks.h5", "w") as h5:
    h5.attrs["longhaul"], h5["config"] = "checkpoint", "{}"
    data = np.arange(3 * 2 * 34, dtype=np.uint8).reshape(3, 68)
    data[:, [1, 35]] = 0x20  # scales are finite
    h5["weights/head"] = data
    h5["weights/head"].attrs.update({"dtype": "u8", "format": "q8_0", "cols": 64})
    h5["weights/norm"] = np.ones(4, np.float32)
    h5["weights/norm"].attrs["dtype"] = "f32"
with longhaul.Checkpoint("blocks.h5") as weights:
    assert [weights.format(n) for n in weights.names] == ["q8_0", "f32"] and weights["norm"].sum() == 4
    assert np.array_equal(weights.blocks("head"), data)
    scales = data.reshape(3, 2, 34)[:, :, :2].copy().view(np.float16).astype(np.float32)
    values = (scales * data.reshape(3, 2, 34)[:, :, 2:].view(np.int8)).reshape(3, 64)
    try:
        assert np.array_equal(weights["head"], values)
    except ImportError as error:
        assert "pip install gguf" in str(error)
# keys and values of a cache of 8 bits; files of schema 1 had other codes for keys
for kind in ("auto", "q8"):
    run("generate", "-m", model, "-p", TEXT, "-n", "2", "--kv-dtype", kind, "--save-cache", f"{kind}.cache.h5", "-q")
with longhaul.open("auto.cache.h5") as exact, longhaul.open("q8.cache.h5") as codes:
    for layer in range(layers):
        for name, want, got in (("k", exact.keys(layer), codes.keys(layer)), ("v", exact.values(layer), codes.values(layer))):
            scales = np.split(codes.h5[f"layers/{layer:03d}/{name}_scale"][...], codes.h5[f"layers/{layer:03d}/offsets"][1:-1])
            for a, b, scale in zip(want, got, scales):
                assert a.shape == b.shape and b.dtype == np.float32 and np.all(abs(a - b) <= 0.5001 * scale[:, None])
assert longhaul.files._hadamard_inverse(np.zeros((0, 48), np.float32)).shape == (0, 48)  # of a head without entries
with h5py.File("q8.cache.h5", "r+") as h5:
    assert h5.attrs["schema"] == 2
    h5.attrs["schema"] = 1
    h5.attrs.pop("attributes_xxh64", None)
with longhaul.open("q8.cache.h5") as old:
    try:
        old.keys(0)
        raise AssertionError("keys of another form were read")
    except longhaul.FileError as error:
        assert "earlier version" in str(error)
refused = subprocess.run([program, "generate", "-m", model, "--kv-dtype", "q8", "--load-cache", "q8.cache.h5", "-n", "2", "-q"],
                         capture_output=True, text=True, check=False)
assert refused.returncode == 4 and "'q8.cache.h5' has q8 keys of an earlier version" in refused.stderr, refused.stderr
# scores for a replay
run("trace", "-m", model, "-p", TEXT, "-n", "12", "-o", "t.h5", "-q")
with longhaul.Trace("t.h5") as trace:
    longhaul.write_scores("knorm.h5", {i: -np.linalg.norm(trace.layer(i).keys, axis=-1) for i in trace.layers})
run("replay", "t.h5", "--policy", "knorm@kvpress", "--scores", "knorm.h5", "--budget", "20", "-q", "-o", "a.h5")
with longhaul.Analysis("a.h5") as analysis:
    mass = analysis["mass"]
    names = list(mass.dims["policy"])
    own = next(n for n in names if "knorm.h5" in n or n == "knorm")
    assert np.array_equal(mass.sel(policy=own).values, mass.sel(policy="knorm@kvpress").values)

# a trace of other arrays replays as the engine's own
run("trace", "-m", model, "-p", TEXT, "-n", "12", "--ignore-eos", "--dtype", "f32", "--trace-level", "full", "-o", "full.h5",
    "-q")
with longhaul.Trace("full.h5") as trace:
    taken = []
    for number in trace.layers:
        layer = trace.layer(number)
        whole = {"queries": np.concatenate([layer.queries, layer.decode_queries]).transpose(1, 0, 2),
                 "keys": np.concatenate([layer.keys, layer.decode_keys.transpose(1, 0, 2)], axis=1),
                 "values": np.concatenate([layer.values, layer.decode_values.transpose(1, 0, 2)], axis=1),
                 "output_projection": layer.output_projection, "frequencies": layer.frequencies}
        taken.append(whole)
    longhaul.write_trace("written.h5", np.concatenate([trace.tokens, trace.decode["tokens"]]), taken, len(trace.tokens))
policies = ("snapkv", "h2o", "ahakv", "expected-attention")
for name in ("full", "written"):
    run("verify", f"{name}.h5")
    run("replay", f"{name}.h5", "--policy", ",".join(policies), "--budget", "30%,60%", "-q", "-o", f"{name}.a.h5")
with longhaul.Trace("full.h5") as one, longhaul.Trace("written.h5") as two:
    for number in one.layers:
        for name in longhaul.files.TraceLayer._names:
            theirs, own = getattr(one.layer(number), name), getattr(two.layer(number), name)
            assert (theirs is None) == (own is None) and (own is None or np.allclose(theirs, own, atol=1e-4)), (number, name)
with longhaul.Analysis("full.a.h5") as one, longhaul.Analysis("written.a.h5") as two:
    for figure in ("mass", "hits", "perturbation-l2", "perturbation-projected", "scores-sum", "entropy"):
        assert np.allclose(one[figure].values, two[figure].values, rtol=2e-4, atol=2e-5, equal_nan=True), figure

os.environ["LONGHAUL_PYTHON"] = sys.executable  # mpiexec, called by its path, puts its own folder first into PATH

# a score in a file is a policy of every command, on any number of ranks
with open("my_keydiff.py", "w", encoding="utf-8") as file:
    file.write("""import numpy as np
import longhaul


@longhaul.score
def my_keydiff(entries):
    \"\"\"keys far from their mean\"\"\"
    unit = entries.keys / np.linalg.norm(entries.keys, axis=-1, keepdims=True)
    mean = unit.mean(axis=1, keepdims=True)
    print("to standard error")
    return -(unit * mean / np.linalg.norm(mean, axis=-1, keepdims=True)).sum(axis=-1)
""")
with open("my_attended.py", "w", encoding="utf-8") as file:
    file.write("""import longhaul
@longhaul.score(attention=True, queries=True, window=16, pool="avg", pool_size=5)
def my_attended(entries):
    assert entries.queries.shape[2] == entries.first_seen.shape[1] == 16
    return entries.attention.mean(axis=1)
""")
# as kvpress computes SnapKV: queries of the window from hidden states
with open("my_hidden.py", "w", encoding="utf-8") as file:
    file.write(f"weights_path = {model!r}" + """
import numpy as np
import longhaul

weights = longhaul.Checkpoint(weights_path)
theta, hidden = weights.config["rope_theta"], weights.config["hidden_size"]


@longhaul.score(hidden=True, window=16, pool="avg", pool_size=5)
def my_hidden(entries):
    d, at = entries.keys.shape[-1], entries.row_positions[0][:, None, None]
    group = weights.config["num_attention_heads"] // weights.config["num_key_value_heads"]
    matrix = weights[f"layers/{entries.layer:03d}/q"].reshape(-1, group, d, hidden)[entries.kv_head]
    q = np.einsum("ri,gdi->rgd", entries.hidden[0], matrix)
    angle = at / theta ** (np.arange(d // 2) / (d // 2))
    a, b = q[..., : d // 2], q[..., d // 2 :]
    q = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)
    logits = np.where(entries.positions[0] <= at, np.einsum("rgd,nd->rgn", q, entries.keys[0]) / np.sqrt(d), -np.inf)
    weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weight / weight.sum(axis=-1, keepdims=True)).mean(axis=(0, 1))[None]
""")
PAIRS = (("my_keydiff.py", "keydiff@kvpress"), ("my_hidden.py", "snapkv@kvpress --window 16"), ("./my_attended.py", "snapkv@kvpress --window 16"),
         ("my_keydiff.py --head-budget adaptive --sinks 4", "keydiff@kvpress --head-budget adaptive --sinks 4"))
for ranks in (1, 3):
    for own, theirs in PAIRS:
        for name, policy in (("own.h5", own), ("theirs.h5", theirs)):
            said = subprocess.run([mpiexec, "-n", str(ranks), program, "generate", "-m", model, "-p", TEXT, "-n", "2", "--policy",
                                   policy, "--budget", "30", "--keep-sets", name, "-q", "--deterministic"], capture_output=True,
                                  text=True, check=False)
            assert said.returncode == 0 and "standard error" not in said.stdout, said.stderr
        with longhaul.KeepSets("own.h5") as one, longhaul.KeepSets("theirs.h5") as two:
            for layer in range(layers):
                assert all(np.array_equal(a, b) for a, b in zip(one.positions(layer), two.positions(layer))), (ranks, own)
os.mkdir("a folder")
os.rename("my_attended.py", "a folder/my_attended.py")
run("generate", "-m", model, "-p", TEXT, "-n", "2", "--policy", '"a folder/my_attended.py" --sinks 2', "--budget", "30", "-q")
run("replay", "full.h5", "--policy", "my_keydiff.py,keydiff@kvpress", "--budget", "20,40", "-q", "-o", "own.a.h5")
with longhaul.Analysis("own.a.h5") as analysis:
    mass = analysis["mass"]
    assert np.array_equal(mass.sel(policy="my-keydiff").values, mass.sel(policy="keydiff@kvpress").values)

WRONG = {"import longhaul": "and has none", "import nonsense": "No module named 'nonsense'", "x = (": "SyntaxError",
         "import longhaul\n@longhaul.score\ndef knorm(e):\n    return e.keys": "is the name of another policy",
         "import longhaul\n@longhaul.score\ndef mine(e):\n    return e.keys": "it must be (1, ",
         "import longhaul\n@longhaul.score\ndef mine(e):\n    return 1 / 0": "ZeroDivisionError: division by zero",
         "import longhaul, os\n@longhaul.score\ndef mine(e):\n    os._exit(3)": "has ended",
         "import longhaul\n@longhaul.score\ndef mine(e):\n    return e.positions * float('nan')": "scores must be finite"}
for text, wanted in WRONG.items():
    with open("wrong.py", "w", encoding="utf-8") as file:
        file.write(text + "\n")
    for ranks in ("1", "2") if "1 / 0" in text or "nonsense" in text else ("1",):
        said = subprocess.run([mpiexec, "-n", ranks, program, "generate", "-m", model, "-p", TEXT, "-n", "2", "--policy", "wrong.py",
                               "--budget", "30", "-q"], capture_output=True, text=True, check=False, timeout=60)
        assert said.returncode in (2, 3) and wanted in said.stderr, (text, ranks, said.stderr)

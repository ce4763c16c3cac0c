"""The HDF5 files of Longhaul as numpy arrays: checkpoints, caches, keep sets, traces and analyses.

    import longhaul
    trace = longhaul.Trace("book.trace.h5")
    keys = trace.layer(3).keys                 # [kv_heads, tokens, head_dim]
    kept = longhaul.KeepSets("kept.h5")
    kept.positions(0)[1]                       # positions that KV head 1 of layer 0 keeps
    analysis = longhaul.Analysis("book.analysis.h5")
    analysis["mass"].sel(policy="snapkv").mean()

Heads of their own lengths are lists of arrays. 16-bit floats become float32. Files are opened for reading and may be used in
`with`. Layouts: docs/files.md and docs/traces.md. Needs h5py (and gguf for the values of quantised weights), and no
liblonghaul.
"""
import json

import numpy as np

from .errors import FileError

try:
    import h5py
except ImportError:
    h5py = None


def _h5_file(path, mode):
    if h5py is None:
        raise ImportError("files of Longhaul are read with h5py: pip install h5py")
    return h5py.File(path, mode)


def _array(dataset):
    """A dataset as an array; bfloat16 and float16 as float32."""
    if dataset.attrs.get("dtype") in ("bf16", b"bf16"):
        raw = np.empty(dataset.shape, np.uint16)
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, mtype=dataset.id.get_type())
        return (raw.astype(np.uint32) << 16).view(np.float32)
    array = dataset[...]
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _text(dataset):
    value = dataset[()]
    return value.decode() if isinstance(value, bytes) else value


def _known(names, name, what):
    """`name`, which must be among `names`."""
    if name not in names:
        shown = [repr(n) for n in list(names)[:40]] + ["…"] * (len(names) > 40)
        raise KeyError(f"no {what} is {name!r}: there are {', '.join(shown) or 'none'}")
    return name


class _File:
    kind = None

    def __init__(self, path):
        self.h5 = _h5_file(path, "r")
        kind = self.h5.attrs.get("longhaul")
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind != self.kind:
            self.h5.close()
            raise FileError(f"'{path}' is {'a ' + kind if kind else 'no file of Longhaul'}, not a {self.kind}")
        run = self.h5.attrs.get("run")
        self.run = json.loads(run) if run else None  # the resolved options of the run that wrote it
        self.path = path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.h5.close()

    def json(self, name):
        return json.loads(_text(self.h5[name]))

    @property
    def layers(self):
        """Numbers of the layers that the file has."""
        return sorted(int(n) for n in self.h5["layers"]) if "layers" in self.h5 else []


class Checkpoint(_File):
    kind = "checkpoint"

    def __init__(self, path):
        super().__init__(path)
        self.config = self.json("config")

    @property
    def names(self):
        """Names of the weights: "embed", "layers/000/q", ..."""
        names = []
        self.h5["weights"].visititems(lambda n, o: names.append(n) if isinstance(o, h5py.Dataset) else None)
        return names

    def format(self, name):
        """How a weight is stored: "bf16", "f32", … or the name of its blocks, such as "q4_K"."""
        attributes = self.h5["weights"][name].attrs
        value = attributes.get("format", attributes["dtype"])
        return value.decode() if isinstance(value, bytes) else value

    def blocks(self, name):
        """The bytes of a matrix of blocks, [rows, bytes of a row], as GGUF files have them."""
        if "format" not in self.h5["weights"][name].attrs:
            raise ValueError(f"'{name}' is stored as {self.format(name)}, not as blocks")
        return self.h5["weights"][name][...]

    def __getitem__(self, name):
        """The values of a weight; those of blocks are computed by the package gguf."""
        dataset = self.h5["weights"][name]
        if "format" not in dataset.attrs:
            return _array(dataset)
        try:
            import gguf  # pylint: disable=import-outside-toplevel
        except ImportError as error:
            raise ImportError("weights in blocks are read with the package gguf: pip install gguf") from error
        return gguf.quants.dequantize(dataset[...], gguf.GGMLQuantizationType[self.format(name).upper()])


def _ragged(group, name):
    offsets, flat = group["offsets"][...], _array(group[name])
    return [flat[a:b] for a, b in zip(offsets[:-1], offsets[1:])]


def _hadamard_inverse(rows):
    """Keys of q8 are stored as codes of H k: the rows of f32 times the inverse of H, in Longhaul's order of sums."""
    dims = rows.shape[1]
    block, stride = dims & -dims, 1
    while stride < block:
        pairs = rows.reshape(len(rows), dims // (2 * stride), 2, stride)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(len(rows), dims)
        stride *= 2
    return rows / np.float32(block)


class Cache(_File):
    kind = "cache"

    def __init__(self, path):
        super().__init__(path)
        self.tokens, self.policy = self.h5["tokens"][...], self.json("policy")

    def positions(self, layer):
        return _ragged(self.h5[f"layers/{layer:03d}"], "positions")

    def _numbers(self, layer, name):
        """Rows of a quantised cache are codes times the scale of their entry."""
        group = self.h5[f"layers/{layer:03d}"]
        rows = _ragged(group, name)
        if f"{name}_scale" not in group:
            return rows
        return [codes * scales[:, None] for codes, scales in zip(rows, _ragged(group, f"{name}_scale"))]

    def keys(self, layer):
        rows = self._numbers(layer, "k")
        if f"layers/{layer:03d}/k_scale" not in self.h5:
            return rows
        if self.h5.attrs["schema"] < 2:
            raise FileError(f"'{self.path}' has q8 keys of an earlier version: make the file again")
        return [_hadamard_inverse(head) for head in rows]

    def values(self, layer):
        return self._numbers(layer, "v")

    def bias(self, layer):
        """What is added to the logits of each KV head's entries; None where the layer has no biases."""
        group = self.h5[f"layers/{layer:03d}"]
        return _ragged(group, "bias") if "bias" in group else None


class KeepSets(_File):
    kind = "keep-sets"

    def __init__(self, path):
        super().__init__(path)
        self.tokens = self.h5["tokens"][...]

    def positions(self, layer, part="kept"):
        """Positions that each KV head keeps: at the end of the prompt ("kept") or of the run ("final")."""
        return _ragged(self.h5[f"layers/{layer:03d}/{part}"], "positions")


class TraceLayer:
    """Arrays of one layer, read when they are asked for; None: not recorded. docs/traces.md has their shapes."""

    _names = {"queries": "prefill/queries", "outputs": "prefill/outputs", "lse": "prefill/lse", "keys": "prefill/keys",
              "values": "prefill/values", "sums": "columns/sums", "squares": "columns/squares",
              "counts": "columns/counts", "projected_norms": "norms/projected", "key_squares": "norms/key_squares",
              "value_squares": "norms/value_squares", "output_projection": "output_projection",
              "frequencies": "rotation/frequencies", "rotation_scale": "rotation/scale",
              "query_scaling": "rotation/query_scaling",
              "decode_queries": "decode/queries", "decode_outputs": "decode/outputs", "decode_lse": "decode/lse",
              "decode_keys": "decode/keys", "decode_values": "decode/values"}

    def __init__(self, trace, number):
        self.trace, self.number, self._group = trace, number, trace.h5[f"layers/{number:03d}"]

    def __getattr__(self, name):
        if name not in self._names:
            raise AttributeError(name)
        return _array(self._group[self._names[name]]) if self._names[name] in self._group else None

    @property
    def window(self):
        """Keys that a row sees, in a sliding layer; 0: all."""
        return self.trace.model["window"] if self.number in self.trace.model["sliding"] else 0

    @property
    def kept(self):
        """Positions that each KV head kept in the run."""
        return _ragged(self._group["kept"], "positions")

    def attention(self, head, rows=None):
        """Weights of recorded query rows of the prompt on its entries, [rows, tokens], of one query head. rows: indices of
        trace.rows; None: all."""
        t = self.trace
        rows = np.arange(len(t.rows)) if rows is None else np.asarray(rows)
        kv = head // (t.model["heads"] // t.model["kv_heads"])
        s = t.logits_of(self.queries[rows, head] @ self.keys[kv].T)
        at, j = t.rows[rows][:, None], np.arange(len(t.tokens))[None]
        s[(j > at) | (j <= at - (self.window or at.max() + 1))] = -np.inf
        a = np.exp(s - s.max(1, keepdims=True))
        return a / a.sum(1, keepdims=True)


class Trace(_File):
    kind = "trace"

    def __init__(self, path):
        super().__init__(path)
        self.model, self.recording, self.policy = (self.json(n) for n in ("model", "recording", "policy"))
        self.tokens, self.rows = self.h5["tokens"][...], self.h5["rows"][...]
        self.answers = self.json("answers") if "answers" in self.h5 else []
        decode = self.h5.get("decode", {})
        self.decode = {n: decode[n][...] for n in decode}  # "positions", "answers", "tokens" of rows after the prompt
        steps, timings = self.h5.get("steps", {}), self.h5.get("timings", {})
        # A step is a question or a token of an answer: "rows" (of decode) that it ends with, "top_ids", "top_logits", "lse"
        self.steps = {n: steps[n][...] for n in steps}
        self.timings = {n: timings[n][...] for n in timings}  # seconds, [ranks, ...]: "prefill" by layer, "steps"

    @property
    def logits(self):
        """Logits that follow the prompt, [vocabulary]; None: the run was killed before."""
        return self.h5["logits"][0] if "logits" in self.h5 else None

    @property
    def layers(self):
        return [n for n in super().layers if f"layers/{n:03d}/prefill" in self.h5]

    def layer(self, number):
        return TraceLayer(self, number)

    def logits_of(self, products):
        """Logits of products of queries and keys."""
        s, cap = products * self.model["scale"], self.model["softcap"]
        return cap * np.tanh(s / cap) if cap else s


class Figure:
    """A labelled array. dims: {"policy": [names], "budget": [numbers], "layer": range(30), ...} in the order of values' axes."""

    def __init__(self, values, dims, attributes):
        self.values, self.dims, self.attributes = values, dims, attributes

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def sel(self, **points):
        """The part at these points of some dims (blanks in names are written as _), such as sel(policy="h2o", layer=3).
        KeyError with the names that there are."""
        values, dims = self.values, dict(self.dims)
        for name, point in points.items():
            name = _known(dims, name.replace("_", " ") if name not in dims else name, "dimension")
            there = list(dims[name])
            values = np.take(values, there.index(_known(there, point, name)), axis=list(dims).index(name))
            del dims[name]
        return Figure(values, dims, self.attributes)

    def mean(self, *names):
        """The mean over these dims; over all of them without names."""
        if not names:
            return float(np.nanmean(self.values))
        labels = list(self.dims)
        dims = {n: d for n, d in self.dims.items() if n not in names}
        axes = tuple(labels.index(_known(labels, n, "dimension")) for n in names)
        return Figure(np.nanmean(self.values, axis=axes), dims, self.attributes)


class Analysis(_File):
    kind = "analysis"

    def __init__(self, path):
        super().__init__(path)
        self.summary = self.json("summary") if "summary" in self.h5 else {}

    @property
    def figures(self):
        """Names of the figures."""
        return sorted(self.h5["figures"]) if "figures" in self.h5 else []

    def __getitem__(self, name):
        group = self.h5["figures"][_known(self.figures, name, "figure")]
        dims = {d["name"]: d.get("labels") or d.get("values") or list(range(d["count"]))
                for d in json.loads(_text(group["dims"]))}
        texts = {k: v.decode() if isinstance(v, bytes) else v for k, v in group.attrs.items()}
        return Figure(_array(group["values"]), dims, texts)


def _new_file(path, kind):
    h5 = _h5_file(path, "w")
    h5.attrs["longhaul"], h5.attrs["schema"], h5.attrs["created_by"] = np.bytes_(kind), np.int64(1), np.bytes_("longhaul.py")
    return h5


def _put(group, name, values, kind):
    """A dataset of "f32", "i32" or "i64"."""
    dtype = {"f32": np.float32, "i32": np.int32, "i64": np.int64}[kind]
    group.create_dataset(name, data=np.ascontiguousarray(values, dtype)).attrs["dtype"] = np.bytes_(kind)


def write_scores(path, scores):
    """Writes scores of entries for `longhaul replay --scores`: a dict of layer number to an array [kv_heads, tokens]; entries with
    larger scores stay."""
    with _new_file(path, "scores") as h5:
        for layer, values in scores.items():
            _put(h5, f"layers/{layer:03d}/scores", values, "f32")


def write_keep_sets(path, tokens, kept):
    """Writes keep sets for `--keep-sets-from` of generate and eval. tokens: ids of the prompt [tokens]; kept: of every layer, of
    every KV head, the positions that stay, such as kept[layer][head]; or a boolean array [layers, heads, tokens]."""
    with _new_file(path, "keep-sets") as h5:
        _put(h5, "tokens", tokens, "i32")
        for layer, heads in enumerate(kept):
            sets = [np.flatnonzero(s) if np.asarray(s).dtype == bool else np.unique(np.asarray(s, np.int64)) for s in heads]
            group = h5.create_group(f"layers/{layer:03d}/kept")
            _put(group, "offsets", np.cumsum([0] + [len(s) for s in sets]), "i64")
            _put(group, "positions", np.concatenate(sets), "i32")


def _attention(queries, keys, values, first, scale, softcap, window):
    """Attention of rows at positions first, first + 1, … of a query head: weights [rows, n], outputs [rows, d], lse [rows]."""
    logits = (queries @ keys.T) * scale
    if softcap:
        logits = softcap * np.tanh(logits / softcap)
    at, j = first + np.arange(len(queries))[:, None], np.arange(len(keys))[None]
    logits[(j > at) | ((j <= at - window) if window else False)] = -np.inf
    top = logits.max(axis=1, keepdims=True)
    weights = np.exp(logits - top)
    sums = weights.sum(axis=1, keepdims=True)
    weights /= sums
    return weights, weights @ values, (top + np.log(sums))[:, 0]


def _layer_arrays(layer, prompt, scale, softcap, window, block=256):
    """The arrays of a layer that a trace has, by name. layer: as write_trace takes it."""
    q, k, v = (np.asarray(layer[name], np.float32) for name in ("queries", "keys", "values"))
    heads, n, d = q.shape
    group = heads // len(k)
    outputs, lse = np.empty((n, heads, d), np.float32), np.empty((n, heads), np.float32)
    sums, squares, counts = (np.zeros((len(k), prompt), np.float32) for _ in range(3))
    for first in range(0, n, block):
        rows = slice(first, min(first + block, n))
        at = np.arange(rows.start, rows.stop)
        visible = np.minimum(at + 1, window or n)[:, None]
        for g in range(len(k)):
            mean = np.zeros((len(at), n), np.float32)
            for h in range(g * group, (g + 1) * group):
                weights, outputs[rows, h], lse[rows, h] = _attention(q[h, rows], k[g], v[g], first, scale, softcap, window)
                mean += weights / group
            mean = mean[at < prompt, :prompt]
            sums[g] += mean.sum(axis=0)
            squares[g] += (mean * mean).sum(axis=0)
            counts[g] += (mean > 1 / visible[at < prompt]).sum(axis=0)
    projection = np.asarray(layer["output_projection"], np.float32)
    projected = np.zeros((len(k), prompt), np.float32)
    for h in range(heads):
        projected[h // group] += np.abs(v[h // group, :prompt] @ projection[:, h * d:(h + 1) * d].T).sum(axis=1) / group
    arrays = {"prefill/queries": q[:, :prompt].transpose(1, 0, 2), "prefill/outputs": outputs[:prompt], "prefill/lse": lse[:prompt],
              "prefill/keys": k[:, :prompt], "prefill/values": v[:, :prompt], "columns/sums": sums, "columns/squares": squares,
              "columns/counts": counts, "norms/projected": projected, "norms/key_squares": (k[:, :prompt] ** 2).sum(axis=-1),
              "norms/value_squares": (v[:, :prompt] ** 2).sum(axis=-1), "output_projection": projection,
              "rotation/frequencies": layer["frequencies"], "rotation/scale": [layer.get("rotation_scale", 1)]}
    if n > prompt:
        arrays.update({"decode/queries": q[:, prompt:].transpose(1, 0, 2), "decode/outputs": outputs[prompt:],
                       "decode/lse": lse[prompt:], "decode/keys": k[:, prompt:].transpose(1, 0, 2),
                       "decode/values": v[:, prompt:].transpose(1, 0, 2)})
    return arrays


def write_trace(path, tokens, layers, prompt, *, scale=None, softcap=0.0, window=0, sliding=()):
    """Writes a trace of level `full` for `longhaul replay`, from a forward pass of any other program (docs/traces.md; 40 lines for
    transformers in examples/trace_transformers.py).

    tokens: ids [n], the prompt and what was answered, which the full cache saw; prompt: how many of them are the prompt.
    layers: of each layer a dict of `queries` [heads, n, d] and `keys` [kv_heads, n, d], both rotated, `values` [kv_heads, n, d],
    `output_projection` [hidden, heads * d], `frequencies` [d / 2] of the rotary embedding and its `rotation_scale` (1). scale of the
    logits (1 / sqrt(d)), softcap (0: none); window of the layers that are `sliding`. Attention is worked out here."""
    tokens, layers = np.asarray(tokens), list(layers)
    heads, n, d = np.shape(layers[0]["queries"])
    if n != len(tokens) or not 0 < prompt <= n:
        raise ValueError(f"there are {len(tokens)} tokens, {n} rows of queries and a prompt of {prompt}")
    scale = d ** -0.5 if scale is None else scale
    model = {"identity": "0" * 16, "layers": len(layers), "heads": heads, "kv_heads": len(layers[0]["keys"]), "head_dim": d,
             "hidden": len(layers[0]["output_projection"]), "scale": scale, "softcap": softcap, "window": window,
             "sliding": sorted(sliding)}
    recording = {"level": "full", "dtype": "f32", "prompt_tokens": prompt, "run_tokens": n, "window": min(512, prompt),
                 "column_rows": prompt, "seed": 0, "deterministic": False, "asked": 0, "questions": [],
                 "layers": list(range(len(layers)))}
    with _new_file(path, "trace") as h5:
        for name, value in (("model", model), ("recording", recording), ("policy", {"name": "full"}), ("answers", [])):
            h5[name] = json.dumps(value)
        _put(h5, "tokens", tokens[:prompt], "i32")
        _put(h5, "rows", np.arange(prompt), "i32")
        if n > prompt:
            _put(h5, "decode/positions", np.arange(prompt, n), "i32")
            _put(h5, "decode/answers", np.zeros(n - prompt), "i32")
            _put(h5, "decode/tokens", tokens[prompt:], "i32")
        for number, layer in enumerate(layers):
            group = h5.create_group(f"layers/{number:03d}")
            for name, values in _layer_arrays(layer, prompt, scale, softcap, window if number in sliding else 0).items():
                _put(group, name, values, "f32")
            kept = group.create_group("kept")
            _put(kept, "offsets", np.arange(model["kv_heads"] + 1) * prompt, "i64")
            _put(kept, "positions", np.tile(np.arange(prompt), model["kv_heads"]), "i32")


def open(path):  # pylint: disable=redefined-builtin
    """The file as what it is."""
    with _h5_file(path, "r") as h5:
        kind = h5.attrs.get("longhaul", b"")
    kind = kind.decode() if isinstance(kind, bytes) else kind
    for cls in (Checkpoint, Cache, KeepSets, Trace, Analysis):
        if cls.kind == kind:
            return cls(path)
    raise FileError(f"'{path}' is no checkpoint, cache, trace, analysis or keep sets of Longhaul")

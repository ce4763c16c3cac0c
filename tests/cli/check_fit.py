#!/usr/bin/env python3
"""Fits biases and values once more, with numpy in double precision: check_fit.py TRACE CACHE. The trace has all query
rows of the prompt, in f32, and the cache is what a run of the same prompt kept, whose policy fits. Ends with 77 where
numpy or h5py are missing."""
import json
import sys

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(77)

AHEAD, LOW, HIGH = 256, np.exp(-3.0), np.exp(3.0)
BIAS = {"ridge": 1e-2, "steps": 3}

trace, cache = h5py.File(sys.argv[1]), h5py.File(sys.argv[2])
model, recording = (json.loads(trace[n][()]) for n in ("model", "recording"))
parts = json.loads(cache["policy"][()])
L, KV, D, G = (recording["prompt_tokens"], model["kv_heads"], model["head_dim"], model["heads"] // model["kv_heads"])
MOST = next((n for n in (256, 128) if n * L <= 2**19), 64)  # reference rows
N = min(L, MOST if parts["rows-at"] == "own" else int(parts["rows"].split(":")[1]))
VALUES = {"ridge": float(parts["ridge"] or 0), "steps": 3}


def rotate(x, angles, scale):
    """Halves of the last dimension of x [rows, heads, dim], as far as there are frequencies."""
    half = angles.shape[1]
    c, s = np.cos(angles)[:, None] * scale, np.sin(angles)[:, None] * scale
    low, high = x[..., :half], x[..., half:2 * half]
    return np.concatenate([low * c - high * s, high * c + low * s, x[..., 2 * half:]], -1)


def rows_after(group):
    """[KV heads, rows x group, dim]: rows of the prompt, where they would stand after it; and their positions."""
    step = -(-N // MOST)  # of more than MOST rows, every so many
    some = [(r + 1) * step - 1 for r in range(N // step)]
    at = np.array([(r + 1) * L // N - 1 for r in some])
    to = np.array([L + -(-(r + 1) * AHEAD // N) - 1 for r in some])
    f, scale = group["rotation/frequencies"][...], float(group["rotation/scale"][0])
    q = group["prefill/queries"][...].astype("f8")[np.searchsorted(trace["rows"][...], at)]
    back, on = (np.float32(n)[:, None] * f for n in (at, to))  # angles are of f32
    q = rotate(rotate(q, -back.astype("f8"), 1 / scale), on.astype("f8"), scale)
    q = q.reshape(len(some), KV, G, D).transpose(1, 0, 2, 3).reshape(KV, len(some) * G, D)
    return q, np.repeat(to, G)


def conjugate_gradients(a, y, x0, ridge, steps):
    """Of |a x - y|^2 + t |x - x0|^2 from x0 on, preconditioned by the diagonal."""
    diagonal = (a * a).sum(0)
    t = ridge * diagonal.mean()
    w = 1 / (diagonal + t)
    x, r = x0.copy(), a.T @ (y - a @ x0)
    p = w[:, None] * r
    energy = (r * p).sum(0)
    for _ in range(steps):
        ap = a @ p
        step = energy / np.maximum((ap * ap).sum(0) + t * (p * p).sum(0), 1e-300)
        x += step * p
        r -= step * (a.T @ ap + t * p)
        now = (r * w[:, None] * r).sum(0)
        p = w[:, None] * r + now / np.maximum(energy, 1e-300) * p
        energy = now
    return x


def fit(q, positions, k, v, kept, window):
    """Biases and values of the kept entries, and the residuals before and after."""
    s = model["scale"] * q @ k.T
    if model["softcap"]:
        s = model["softcap"] * np.tanh(s / model["softcap"])
    if window:
        s[np.arange(L) <= positions[:, None] - window] = -np.inf
    s = np.exp(s - s.max(1, keepdims=True))
    s /= s.sum(1, keepdims=True)
    a, output, bias, values = s[:, kept], s @ v, np.zeros(len(kept)), v[kept]
    if parts["fit"] in ("bias", "both"):
        missing = 1 - a.sum(1, keepdims=True)
        x = conjugate_gradients(a, missing, np.zeros((len(kept), 1)), **BIAS)
        x = np.clip(x, LOW - 1, HIGH - 1)
        m = a @ x
        x *= np.clip((missing * m).sum() / max((m * m).sum(), 1e-300), 0, 1)
        bias = np.log1p(x[:, 0])
    a = a * np.exp(bias)
    a /= np.maximum(a.sum(1, keepdims=True), 1e-300)
    before = np.linalg.norm(a @ values - output)
    if parts["fit"] in ("values", "both"):
        values = conjugate_gradients(a, output, values, **VALUES)
    return bias, values, before, np.linalg.norm(a @ values - output)


worst, before, after = 0.0, 0.0, 0.0
for l in range(model["layers"]):
    group, there = trace[f"layers/{l:03d}"], cache[f"layers/{l:03d}"]
    window = model["window"] if l in model["sliding"] else 0
    q, positions = rows_after(group)
    offsets = there["offsets"][...]
    for g in range(KV):
        at = slice(offsets[g], offsets[g + 1])
        kept = there["positions"][at]
        kept = kept[kept < L]
        bias, values, b, a = fit(q[g], positions, group["prefill/keys"][g].astype("f8"),
                                 group["prefill/values"][g].astype("f8"), kept, window)
        n = len(kept)
        stored = there["bias"][at][:n] if "bias" in there else np.zeros(n)
        for mine, other in ((stored, bias), (there["v"][at][:n], values)):
            worst = max(worst, np.abs(mine - other).max() / max(1.0, np.abs(other).max()))
        before, after = before + b, after + a
print(f"{worst:.2e} of the largest from numpy; residual of the rows {before:.4f} before, {after:.4f} after")
sys.exit(not (worst < 1e-4 and after <= before))

"""Serves the score of a Python file to `longhaul … --policy FILE.py`, which starts this module on every rank.

The socket is standard input. First a JSON text about the score, then for each head a message of src/policies/python_score.c (eleven
numbers, then arrays) and its answer: 0 and the scores, or 1 and a text. Texts come after their length, an int64."""
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import traceback
from types import SimpleNamespace

import numpy as np

from .library import READS
from .policy import ARRAYS, Entries, Score, words_of

_HEAD = struct.Struct("=10qd")
_NUMBERS = ("layer", "kv_head", "count", "head_dim", "tokens", "window", "group", "rows", "hidden_size", "reads", "softcap")


def _find(path):
    """The one score that a file defines."""
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    scores = list({id(x): x for x in vars(module).values() if isinstance(x, Score)}.values())
    if len(scores) != 1:
        names = ", ".join(s.__name__ for s in scores) or "none"
        raise ValueError(f"the file must have one function that is marked with @longhaul.score, and has {names}")
    return scores[0]


def _about(score):
    line = (score.__doc__ or "").strip().split("\n")[0].rstrip(".")
    return {"name": score.__name__.strip("_").lower().replace("_", "-"), "help": line or "a score in Python", "reads": score.reads,
            "parts": words_of(None, score.parts)}


def _read(file, bytes_):
    data = file.read(bytes_)
    if len(data) < bytes_:
        sys.exit(0)  # the run has ended
    return data


def _entries(file):
    head = SimpleNamespace(**dict(zip(_NUMBERS, _HEAD.unpack(_read(file, _HEAD.size)))))
    names = ["positions", "keys", "values"] + ["first_seen", "last_seen", "row_positions"] * bool(head.reads)
    names += [name for name, bit in READS.items() if head.reads & bit]
    arrays = {}
    for name in names:
        shape = tuple(getattr(head, size) for size in ARRAYS[name][0])
        kind = np.int32 if name in ("positions", "first_seen", "last_seen", "row_positions") else np.float32
        arrays[name] = np.frombuffer(bytearray(_read(file, int(np.prod(shape)) * 4)), kind).reshape(shape)
    return Entries(head, lambda name, shape: arrays.get(name))


def _text(text):
    raw = text.encode(errors="replace")[:100_000]
    return struct.pack("=q", len(raw)) + raw


def _answer(score, entries):
    try:
        return struct.pack("=q", 0) + np.ascontiguousarray(score(entries), np.float32).tobytes()
    except Exception as error:  # pylint: disable=broad-except
        traceback.print_exc()
        return struct.pack("=q", 1) + _text(f"{type(error).__name__}: {error}")


def main(path):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides what Ctrl-C ends
    line = socket.socket(fileno=os.dup(0))
    with line, line.makefile("rb") as file:
        try:
            score = _find(path)
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            traceback.print_exc()
            line.sendall(_text(json.dumps({"error": f"{type(error).__name__}: {error}"})))
            return
        line.sendall(_text(json.dumps(_about(score))))
        while True:
            line.sendall(_answer(score, _entries(file)))


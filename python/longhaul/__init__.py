"""Longhaul from Python: language models over very long prompts, with the key-value cache evicted by policy.

    import numpy as np, longhaul

    @longhaul.score
    def knorm(entries):
        return -np.linalg.norm(entries.keys, axis=-1)

    engine = longhaul.Engine("model.h5")
    answer = engine.complete(text, policy=longhaul.Policy(score=knorm, budget="20%"))
    print(answer.text, answer.entries_kept, "of", answer.entries)

and its files as numpy arrays (Trace, Analysis, KeepSets, Cache, Checkpoint; needs h5py). Under `mpirun -n 4 python script.py`
every rank makes the same calls. docs/python.md"""
from .engine import (Answer, Completion, Engine, Forecast, Session, Tokenizer, forecast, init, rank, size, step_together)
from .errors import (CommError, Error, FileError, InputError, InternalError, Interrupted, OutOfMemory, UsageError, WriteError)
from .files import (Analysis, Cache, Checkpoint, Figure, KeepSets, Trace, open, write_keep_sets, write_scores, write_trace)
from .policy import Entries, Policy, Score, score

__version__ = "0.2.0"
__all__ = ["Answer", "Analysis", "Cache", "Checkpoint", "CommError", "Completion", "Engine", "Entries", "Error", "Figure",
           "FileError", "Forecast", "InputError", "InternalError", "Interrupted", "KeepSets", "OutOfMemory", "Policy", "Score",
           "Session", "Tokenizer", "Trace", "UsageError", "WriteError", "forecast", "init", "open", "rank", "score", "size",
           "step_together", "write_keep_sets", "write_scores", "write_trace"]

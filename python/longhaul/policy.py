"""Policies: which entries of the cache stay, by a score of Longhaul or by a numpy function."""
import ctypes
import numbers

import numpy as np

from . import library
from .library import OK, lib

_FAILED = 2  # any status but LH_OK; the exception is kept


def copied(pointer, shape):
    """The numbers at a pointer of the library, as an array of one's own; None for NULL."""
    if not pointer:
        return None
    if 0 in shape:
        return np.empty(shape, np.ctypeslib.as_array(pointer, (1,)).dtype)
    return np.ctypeslib.as_array(pointer, shape).copy()


# Arrays of Entries by name: the sizes of their axes in the library, and the order of these axes here after [heads].
ARRAYS = {"keys": (("count", "head_dim"), (0, 1)), "values": (("count", "head_dim"), (0, 1)), "positions": (("count",), (0,)),
          "queries": (("rows", "group", "head_dim"), (1, 0, 2)), "attention": (("group", "count"), (0, 1)),
          "first_seen": (("rows",), (0,)), "last_seen": (("rows",), (0,)), "row_positions": (("rows",), (0,)),
          "hidden": (("rows", "hidden_size"), (0, 1))}


class Entries:
    """The entries of KV heads of a layer at the moment when they are evicted. n: entries of a head, d: its dimension; group:
    query heads that share a KV head; rows: the last rows of the prompt, or those that `window` and `rows` of the policy say.

    layer, kv_head         number of the layer in the model, and of the first of these KV heads
    shape                  (heads, n), which the scores have
    tokens                 tokens seen so far: positions are below
    keys, values           [heads, n, d] float32; keys are rotated
    positions              [heads, n] int32, in no particular order
    queries                [heads, group, rows, d] float32, rotated and scaled: query . key is a logit; with score(queries=True)
    first_seen, last_seen  [heads, rows] int32: a row sees the entries at these positions and between them
    softcap                0, or logits are softcap * tanh(query . key / softcap)
    attention              [heads, group, n] float32: softmax weights, summed over the rows; with score(attention=True)
    row_positions          [heads, rows] int32: positions of the observed rows in the prompt
    hidden                 [heads, rows, hidden size] float32: what the layer's query, key and value projections read at these
                           positions (the output of its input norm), the same for all heads; with score(hidden=True)

    Arrays are copies that may be kept. A call has the heads that have equal numbers of entries, which may be one."""

    def __init__(self, head, array):
        """head: numbers of the library's struct; array(name, shape): the array that it has there, or None."""
        self._head, self._array = head, array
        self.layer, self.kv_head, self.tokens, self.softcap = head.layer, head.kv_head, head.tokens, head.softcap
        self.shape = (1, head.count)

    def __getattr__(self, name):
        if name not in ARRAYS:
            raise AttributeError(f"entries have no {name!r}: there are layer, kv_head, shape, tokens, softcap, "
                                 f"{', '.join(ARRAYS)}")
        sizes, axes = ARRAYS[name]
        array = self._array(name, tuple(getattr(self._head, s) for s in sizes))
        if array is None:
            raise AttributeError(f"the score reads no {name}: mark it with @longhaul.score("
                                 f"{name if name in library.READS else 'queries'}=True)")
        array = array.transpose(axes)[None]
        setattr(self, name, array)
        return array


class Score:
    """A function of Entries that returns numbers [heads, n]: the entries with the largest stay. queries, attention, hidden: it
    reads these arrays, too. parts: of a policy, where the policy does not say otherwise."""

    def __init__(self, function, queries=False, attention=False, hidden=False, **parts):
        self.function, self.parts = function, parts
        read = {"queries": queries, "attention": attention, "hidden": hidden}
        self.reads = sum(library.READS[name] for name, wanted in read.items() if wanted)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "score")

    def __call__(self, entries):
        """The scores, checked: float32 [heads, n]."""
        result = np.asarray(self.function(entries), np.float32)
        if result.shape not in (entries.shape, entries.shape[1:]):
            raise ValueError(f"the score returns an array of shape {result.shape}, it must be {entries.shape}: [heads, n]")
        return result.reshape(entries.shape)

    def __repr__(self):
        return f"<longhaul.score {self.__name__}>"


def score(function=None, *, queries=False, attention=False, hidden=False, **parts):
    """Makes a function of Entries a score, for Policy(score=…), and for `longhaul … --policy FILE.py`, which takes the one
    score of a file. With hidden=True it evicts once, at the end of the prompt.

        @longhaul.score
        def knorm(entries):
            return -np.linalg.norm(entries.keys, axis=-1)

        @longhaul.score(attention=True, window=64, pool="avg")
        def snapkv(entries):
            return entries.attention.mean(axis=1)
    """
    if function is None:
        return lambda f: Score(f, queries, attention, hidden, **parts)
    return Score(function, queries, attention, hidden, **parts)


class _Scorer:
    """A Score as the library calls it. An exception ends the run and is raised by the call that evicted."""

    def __init__(self, function):
        self.score, self.error = function, None
        self.callback = library.SCORE(self._call)
        self.struct = library.Scorer(score=self.callback, reads=function.reads)

    def _call(self, _, entries, scores):
        try:
            head = entries.contents
            e = Entries(head, lambda name, shape: copied(getattr(head, name), shape))
            np.ctypeslib.as_array(scores, e.shape)[:] = self.score(e)
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error
            return _FAILED
        return OK

    def take_error(self):
        error, self.error = self.error, None
        return error


def words_of(name, parts):
    """A policy as on the command line."""
    words = [name] if name else []
    for part, value in parts.items():
        if value is None or value is False:
            continue
        words.append("--" + part.replace("_", "-"))
        if part == "budget" and isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
            value = f"{100 * float(value):.8g}%"
        if value is not True:
            text = str(value)
            words.append(f'"{text}"' if any(c.isspace() for c in text) else text)
    return " ".join(words)


class Policy:
    """Which entries stay.

        Policy("snapkv", budget=256)                     by name; parts are the options of the command line
        Policy("ada-snapkv --window 16 --budget 20%")    as on the command line
        Policy(score=knorm, budget=0.2, sinks=4)         a score of your own; budget: entries, "20%", a share below 1, or "512M"
        Policy(budget="10%")                             the default policy

    Parts: window=16, head_budget="adaptive", evict="every:64", … (`longhaul generate --policy help`)."""

    def __init__(self, name=None, *, score=None, **parts):  # pylint: disable=redefined-outer-name
        if score is not None and not isinstance(score, Score):
            score = Score(score)
        self.words = words_of(name, {**(score.parts if score else {}), **parts})
        self._scorer = None
        self._c = ctypes.c_void_p()
        if score is None:
            lib.lh_policy_parse(ctypes.byref(self._c), library.encoded(self.words, "the policy"))
        else:
            if name:
                raise library.BY_STATUS[2](f"policy '{name}' has a score: give a name or score=, not both")
            self._scorer = _Scorer(score)
            lib.lh_policy_of_scorer(ctypes.byref(self._c), ctypes.byref(self._scorer.struct),
                                    library.encoded(self.words, "the policy"))

    def entries(self, tokens):
        """Entries per KV head, on average, that are kept of a prompt of so many tokens; 0 if the budget is a size."""
        return lib.lh_policy_entries(self._c, tokens)

    def take_error(self):
        """The exception that the score has raised, once; None: it has not."""
        return self._scorer.take_error() if self._scorer else None

    def __repr__(self):
        return f"Policy({self.words!r}{', score=' + repr(self._scorer.score) if self._scorer else ''})"

    def __del__(self):
        if getattr(self, "_c", None):
            lib.lh_policy_close(self._c)
            self._c = None

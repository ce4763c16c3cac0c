"""Policies: which entries of the cache stay, by a score of Longhaul or by a numpy function."""
import ctypes

import numpy as np

from . import library
from .library import OK, lib

_FAILED = 2  # any status but LH_OK; the exception is kept


def copied(pointer, shape):
    """The numbers at a pointer of the library, as an array of one's own; None for NULL."""
    if not pointer:
        return None
    return np.ctypeslib.as_array(pointer, shape).copy() if 0 not in shape else np.empty(shape, np.ctypeslib.as_array(pointer, (1,)).dtype)


class Entries:
    """The entries of KV heads of a layer at the moment when they are evicted. n: entries of a head, d: its dimension.

    layer, kv_head  number of the layer in the model, and of the first of these KV heads
    keys, values    [heads, n, d] float32; keys are rotated
    positions       [heads, n] int32, in no particular order

    Arrays are copies that may be kept. A call has the heads that have equal numbers of entries, which may be one."""

    def __init__(self, entries):
        self._c = entries
        self.layer, self.kv_head, self.heads = entries.layer, entries.kv_head, 1
        self.shape = (1, entries.count)

    def _array(self, name, *shape):
        array = copied(getattr(self._c, name), shape)
        setattr(self, name, array)
        return array

    def __getattr__(self, name):
        n, d = self._c.count, self._c.head_dim
        shapes = {"keys": (1, n, d), "values": (1, n, d), "positions": (1, n)}
        if name not in shapes:
            raise AttributeError(f"entries have no {name!r}: there are layer, kv_head, heads, {', '.join(shapes)}")
        return self._array(name, *shapes[name])


class Score:
    """A function of Entries that returns numbers [heads, n]: the entries with the largest stay."""

    def __init__(self, function):
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "score")

    def __call__(self, entries):
        return self.function(entries)

    def __repr__(self):
        return f"<longhaul.score {self.__name__}>"


def score(function):
    """Makes a function of Entries a score for Policy(score=…).

        @longhaul.score
        def knorm(entries):
            return -np.linalg.norm(entries.keys, axis=-1)
    """
    return Score(function)


class _Scorer:
    """A Score as the library calls it. An exception ends the run and is raised by the call that evicted."""

    def __init__(self, function):
        self.function, self.error = function, None
        self.callback = library.SCORE(self._call)
        self.struct = library.Scorer(score=self.callback)

    def _call(self, _, entries, scores):
        try:
            e = Entries(entries.contents)
            result = np.asarray(self.function(e), np.float32)
            if result.shape not in (e.shape, e.shape[1:]):
                raise ValueError(f"the score returns an array of shape {result.shape}, it must be {e.shape}: [heads, n]")
            np.ctypeslib.as_array(scores, e.shape)[:] = result
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error
            return _FAILED
        return OK

    def raise_error(self):
        error, self.error = self.error, None
        if error is not None:
            raise error


def _words(name, parts):
    words = [name] if name else []
    for part, value in parts.items():
        if value is None or value is False:
            continue
        words.append("--" + part.replace("_", "-"))
        if part in ("budget",) and isinstance(value, float) and 0 < value < 1:
            value = f"{100 * value:.10g}%"
        if value is not True:
            text = str(value)
            words.append(f"'{text}'" if any(c.isspace() for c in text) else text)
    return " ".join(words)


class Policy:
    """Which entries stay.

        Policy("snapkv", budget=256)                     by name; parts are the options of the command line
        Policy("ada-snapkv --window 16 --budget 20%")    as on the command line
        Policy(score=knorm, budget=0.2, sinks=4)         a score of your own; budget: entries, "20%", or a share below 1
        Policy(budget="10%")                             the default policy

    Parts: window=16, head_budget="adaptive", evict="every:64", … (`longhaul generate --policy help`)."""

    def __init__(self, name=None, *, score=None, **parts):  # pylint: disable=redefined-outer-name
        self.words = _words(name, parts)
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
        """Entries per KV head, on average, that are kept of a prompt of so many tokens."""
        return lib.lh_policy_entries(self._c, tokens)

    def raise_error(self):
        """Raises what the score raised."""
        if self._scorer:
            self._scorer.raise_error()

    def __repr__(self):
        return f"Policy({self.words!r}{', score=' + repr(self._scorer.function) if self._scorer else ''})"

    def __del__(self):
        if getattr(self, "_c", None):
            lib.lh_policy_close(self._c)
            self._c = None

"""liblonghaul through ctypes: its structs and functions as longhaul.h declares them, and its failures as exceptions.

The library is that of the environment variable LONGHAUL_LIBRARY, else the one in this package, else the system's."""
import ctypes
import logging
import os
import sys
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

from .errors import BY_STATUS, InternalError

SONAME = "liblonghaul.so.0.2"
OK, EINTERRUPTED = 0, 75
FINISH = ("stop", "length", "interrupted")
READS = {"queries": 1, "attention": 2, "hidden": 4}  # LH_READS_…

log = logging.getLogger("longhaul")


class Struct(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **members):
        super().__init__(size=ctypes.sizeof(type(self)), **members)


PREFILL = CFUNCTYPE(c_int, c_void_p, c_int64, c_int64)
TOKEN = CFUNCTYPE(c_int, c_void_p, c_int64, c_int32, c_void_p, c_int64)
SINK = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class WorldOptions(Struct):
    _fields_ = [("size", c_size_t), ("comm_timeout_s", c_double), ("files", POINTER(c_char_p)), ("same", c_char_p),
                ("mpi_comm", c_void_p)]


class EngineOptions(Struct):
    _fields_ = [("size", c_size_t), ("model", c_char_p), ("tp", c_int64), ("device", c_char_p), ("share_device", c_int),
                ("dtype", c_char_p), ("kv_dtype", c_char_p), ("threads", c_int64), ("deterministic", c_int),
                ("memory", c_int64), ("chunk", c_int64), ("weights", c_char_p), ("score_weights", c_char_p)]


class EngineInfo(Struct):
    _fields_ = [("size", c_size_t), ("family", c_char_p), ("layers", c_int64), ("heads", c_int64), ("kv_heads", c_int64),
                ("head_dim", c_int64), ("hidden", c_int64), ("vocab", c_int64), ("max_positions", c_int64),
                ("window", c_int64), ("device", c_char_p), ("dtype", c_char_p), ("kv_dtype", c_char_p), ("has_chat", c_int),
                ("evicted_kv_dtype", c_char_p)]


class HeadEntries(Struct):
    _fields_ = [("size", c_size_t), ("layer", c_int64), ("kv_head", c_int64), ("count", c_int64), ("head_dim", c_int64),
                ("positions", POINTER(c_int32)), ("keys", POINTER(c_float)), ("values", POINTER(c_float)),
                ("tokens", c_int64), ("window", c_int64), ("group", c_int64), ("rows", c_int64), ("queries", POINTER(c_float)),
                ("attention", POINTER(c_float)), ("first_seen", POINTER(c_int32)), ("last_seen", POINTER(c_int32)),
                ("softcap", c_float), ("options", POINTER(c_double)), ("error", c_void_p), ("hidden_size", c_int64),
                ("row_positions", POINTER(c_int32)), ("hidden", POINTER(c_float))]


SCORE = CFUNCTYPE(c_int, c_void_p, POINTER(HeadEntries), POINTER(c_float))


class Scorer(Struct):
    _fields_ = [("size", c_size_t), ("self", c_void_p), ("score", SCORE), ("reads", c_int64)]


class LogitBias(ctypes.Structure):
    _fields_ = [("id", c_int32), ("bias", c_float)]


class Sampling(Struct):
    _fields_ = [("size", c_size_t), ("temperature", c_double), ("top_k", c_int64), ("top_p", c_double), ("min_p", c_double),
                ("repeat_penalty", c_double), ("seed", c_uint64), ("request", c_uint64), ("frequency_penalty", c_double),
                ("presence_penalty", c_double), ("bias", POINTER(LogitBias)), ("bias_count", c_int64)]


class Turn(ctypes.Structure):
    _fields_ = [("role", c_char_p), ("text", c_char_p)]


class CompletionOptions(Struct):
    _fields_ = [("size", c_size_t), ("prompt", c_char_p), ("turns", POINTER(Turn)), ("turn_count", c_int64),
                ("questions", POINTER(c_char_p)), ("question_count", c_int64), ("chat", c_int), ("system", c_char_p),
                ("policy", c_void_p), ("load_cache", c_char_p), ("save_cache", c_char_p), ("sampling", POINTER(Sampling)),
                ("max_new", c_int64), ("stops", POINTER(c_char_p)), ("stop_count", c_int64), ("logprobs", c_int),
                ("kept", c_int), ("self", c_void_p), ("prefill", PREFILL), ("token", TOKEN)]


class Answer(Struct):
    _fields_ = [("size", c_size_t), ("text", c_char_p), ("ids", POINTER(c_int32)), ("tokens", c_int64), ("finish", c_int),
                ("logprobs", POINTER(c_double))]


class Kept(ctypes.Structure):
    _fields_ = [("positions", POINTER(c_int32)), ("count", c_int64)]


class Completion(Struct):
    _fields_ = [("size", c_size_t), ("answers", POINTER(POINTER(Answer))), ("answer_count", c_int64),
                ("prompt_tokens", c_int64), ("new_tokens", c_int64), ("entries", c_int64), ("entries_kept", c_int64),
                ("kept", POINTER(Kept)), ("prefill_s", c_double), ("evict_s", c_double), ("decode_s", c_double)]


class SessionOptions(Struct):
    _fields_ = [("size", c_size_t), ("policy", c_void_p), ("prompt", c_int64), ("more", c_int64), ("block", c_int64),
                ("asks_later", c_int), ("restores", c_int), ("seed", c_uint64), ("together", c_int64), ("beside", c_void_p)]


class Progress(Struct):
    _fields_ = [("size", c_size_t), ("self", c_void_p), ("done", PREFILL)]


class Forecast(Struct):
    _fields_ = [("size", c_size_t), ("weights", c_int64), ("cache", c_int64), ("peak", c_int64), ("free", c_int64),
                ("fits", c_int)]


# Names of longhaul.h; tests/python/check_structs.py compares sizes and offsets.
STRUCTS = {"lh_world_options": WorldOptions, "lh_engine_options": EngineOptions, "lh_engine_info": EngineInfo,
           "lh_head_entries": HeadEntries, "lh_scorer": Scorer, "lh_logit_bias": LogitBias, "lh_sampling": Sampling, "lh_turn": Turn,
           "lh_completion_options": CompletionOptions, "lh_completion_answer": Answer, "lh_kept": Kept,
           "lh_completion": Completion, "lh_session_start_options": SessionOptions, "lh_forward_progress": Progress,
           "lh_forecast": Forecast}

_handle, _out, _ids = c_void_p, POINTER(c_void_p), POINTER(c_int32)

# Functions that return an lh_status, by their parameters.
_CALLS = {
    "lh_world_open": (_out, POINTER(WorldOptions)),
    "lh_engine_open": (_out, _handle, POINTER(EngineOptions)),
    "lh_engine_describe": (POINTER(EngineInfo), _handle),
    "lh_policy_parse": (_out, c_char_p),
    "lh_policy_of_scorer": (_out, POINTER(Scorer), c_char_p),
    "lh_complete": (POINTER(POINTER(Completion)), _handle, POINTER(CompletionOptions)),
    "lh_tokenizer_ids": (_handle, c_char_p, c_int64, c_int, POINTER(_ids), POINTER(c_int64)),
    "lh_tokenizer_text": (_handle, _ids, c_int64, _out),
    "lh_session_start": (_out, _handle, POINTER(SessionOptions)),
    "lh_session_prefill": (_handle, _ids, c_int64, POINTER(Progress)),
    "lh_session_block": (_handle, _ids, c_int64),
    "lh_sessions_step": (_out, _ids, c_int64),
    "lh_session_sample": (_handle, POINTER(Sampling), c_int64, _ids),
    "lh_session_logits": (_handle, POINTER(POINTER(c_float)), POINTER(c_int64)),
    "lh_session_snapshot": (_handle,),
    "lh_session_restore": (_handle,),
    "lh_session_fork": (_out, _handle, c_int64, c_int64),
    "lh_session_save": (_handle, c_char_p),
    "lh_session_load": (_out, _handle, c_char_p, POINTER(SessionOptions)),
    "lh_session_kept": (_handle, c_int64, c_int64, POINTER(_ids), POINTER(c_int64)),
    "lh_forecast_make": (POINTER(Forecast), POINTER(EngineOptions), POINTER(SessionOptions)),
}

# The others: what they return, and their parameters.
_FUNCTIONS = {
    "lh_error_message": (c_char_p,),
    "lh_error_trace": (c_char_p,),
    "lh_error_clear": (None,),
    "lh_version": (c_char_p,),
    "lh_log_set_level": (None, c_int),
    "lh_log_set_sink": (None, SINK, c_void_p),
    "lh_free": (None, c_void_p),
    "lh_world_rank": (c_int, _handle),
    "lh_world_size": (c_int, _handle),
    "lh_world_close": (c_int, _handle, c_int),
    "lh_engine_close": (None, _handle),
    "lh_policy_close": (None, _handle),
    "lh_policy_entries": (c_int64, _handle, c_int64),
    "lh_completion_close": (None, POINTER(Completion)),
    "lh_engine_tokenizer": (c_void_p, _handle),
    "lh_tokenizer_vocab": (c_int64, _handle),
    "lh_tokenizer_bos": (c_int32, _handle),
    "lh_tokenizer_adds_bos": (c_int, _handle),
    "lh_tokenizer_is_eos": (c_int, _handle, c_int32),
    "lh_tokenizer_special": (c_int32, _handle, c_char_p),
    "lh_session_close": (None, _handle),
    "lh_session_ids": (c_int64, _handle, POINTER(_ids)),
}


def _open():
    own = os.path.join(os.path.dirname(__file__), SONAME)
    path = os.environ.get("LONGHAUL_LIBRARY") or (own if os.path.exists(own) else SONAME)
    try:
        dll = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"liblonghaul cannot be opened ({error}): install Longhaul, or set LONGHAUL_LIBRARY to its "
                          f"{SONAME}") from None
    os.environ.setdefault("LONGHAUL_PYTHON", sys.executable or "python3")  # of policies in Python files, './mine.py'
    for name, types in _FUNCTIONS.items():
        function = getattr(dll, name)
        function.restype, function.argtypes = types[0], types[1:]
    for name, types in _CALLS.items():
        function = getattr(dll, name)
        function.restype, function.argtypes = c_int, types
    return dll


class _Library:
    """The functions of the library, which is opened with the first of them. Those that return a status raise."""

    def __getattr__(self, name):
        dll = _open()
        for function in _FUNCTIONS:
            setattr(self, function, getattr(dll, function))
        for function in _CALLS:
            setattr(self, function, _checked(getattr(dll, function)))
        return self.__getattribute__(name)


lib = _Library()


def _checked(function):
    def call(*arguments):
        st = function(*arguments)
        if st != OK:
            raise failure(st)
    return call


def failure(st):
    """The exception of a status, with the message of the last failure."""
    message = lib.lh_error_message().decode(errors="replace")
    trace = lib.lh_error_trace().decode(errors="replace")
    lib.lh_error_clear()
    return BY_STATUS.get(st, InternalError)(message or f"status {st}", trace)


_PYTHON_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


@SINK
def _sink(_, level, line):
    log.log(_PYTHON_LEVELS[min(level, 3)], "%s", line.decode(errors="replace"))


def messages_to_logging(on=True):
    """The engine's messages go to the logger "longhaul", from its level on."""
    lib.lh_log_set_level(max([i for i, level in enumerate(_PYTHON_LEVELS) if log.isEnabledFor(level)], default=0))
    lib.lh_log_set_sink(_sink if on else SINK(), None)


def encoded(text, what):
    """UTF-8 for a C string, None for None."""
    if text is None:
        return None
    raw = os.fsencode(text) if isinstance(text, os.PathLike) else text.encode() if isinstance(text, str) else text
    if not isinstance(raw, bytes):
        raise TypeError(f"{what} is {type(text).__name__}, it must be a text")
    if b"\0" in raw:
        raise ValueError(f"{what} has a NUL character")
    return raw


def texts(strings, what):
    """A C array of texts, or None."""
    if isinstance(strings, (str, bytes)):
        raise TypeError(f"{what}: a list of texts is needed, such as [{strings!r}]")
    return (c_char_p * len(strings))(*(encoded(s, what) for s in strings)) if strings else None

"""The engine: a model on the ranks of this run, completions, and sessions step by step."""
import atexit
import ctypes
import signal
import sys
import threading
import weakref
from ctypes import byref, c_int32, c_int64, c_void_p
from dataclasses import dataclass, field
from typing import List, Optional

import numpy as np

from . import library
from .errors import Error, Interrupted
from .library import EINTERRUPTED, OK, encoded, lib, texts
from .policy import Policy, copied

# ---- world: the ranks of the run ----


class _World:
    """The ranks, opened with the first engine and closed when Python ends."""

    def __init__(self):
        self.c, self.objects, self.status = None, weakref.WeakSet(), OK

    def open(self, comm=None, timeout=0):
        if self.c:
            return self.c
        library.messages_to_logging()
        options = library.WorldOptions(comm_timeout_s=timeout)
        if comm is not None:
            from mpi4py import MPI  # pylint: disable=import-outside-toplevel
            options.mpi_comm = MPI._addressof(comm)  # pylint: disable=protected-access
        c = c_void_p()
        try:
            lib.lh_world_open(byref(c), byref(options))
        except Error:
            lib.lh_world_close(c, OK)
            raise
        self.c = c
        hook = sys.excepthook

        def failed(kind, error, trace):
            self.status = error.status if isinstance(error, Error) else 1
            hook(kind, error, trace)
        sys.excepthook = failed
        leave = sys.exit

        def exiting(code=None):
            self.status = 0 if code is None else code if isinstance(code, int) else 1
            leave(code)
        sys.exit = exiting
        atexit.register(self.close)
        return c

    def close(self):
        for o in list(self.objects):
            o.close()
        sys.stdout.flush()
        sys.stderr.flush()  # closing may end the process: a rank that failed alone does not wait for the others
        library.messages_to_logging(False)
        lib.lh_error_clear()
        lib.lh_world_close(self.c, self.status)
        self.c = None


_world = _World()


def init(comm=None, timeout=0):
    """Joins the ranks before the first engine does. comm: an mpi4py communicator whose ranks run the model (else all ranks
    that mpirun or srun started); timeout: seconds that ranks wait for each other (600)."""
    if _world.c:
        raise library.BY_STATUS[2]("the ranks are joined already: init comes before the first engine")
    _world.open(comm, timeout)


def rank():
    """The number of this rank; 0 without a launcher."""
    return lib.lh_world_rank(_world.open())


def size():
    """The number of ranks."""
    return lib.lh_world_size(_world.open())


class _Handle:
    """An engine or a session, closed by close(), at the end of `with`, with its last reference, or when Python ends."""
    _what = _free = None

    def __init__(self):
        self._c = c_void_p()
        _world.objects.add(self)

    def _open(self):
        if not self._c:
            raise library.BY_STATUS[2](f"the {self._what} is closed")
        return self._c

    def close(self):
        """Frees its memory. An engine with open sessions is freed with the last of them."""
        if self._c:
            getattr(lib, self._free)(self._c)
            self._c = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_c", None) and _world.c:
            self.close()


# ---- results ----


@dataclass
class Answer:
    """text: of the answer; token_ids: int32 array; finish: "stop", "length" or "interrupted"; logprobs: float64 array [tokens],
    natural logarithms, on rank 0 where asked, else None."""
    text: str
    token_ids: np.ndarray
    finish: str
    logprobs: Optional[np.ndarray] = None


@dataclass
class Completion:
    """Answers and figures of Engine.complete. entries, entries_kept: key-value pairs of the whole model after the prompt.
    kept[layer][kv_head]: positions of the prompt that a head keeps, ascending; None where not asked.

    text, token_ids, finish and logprobs are those of the first answer."""
    answers: List[Answer]
    prompt_tokens: int
    new_tokens: int
    entries: int
    entries_kept: int
    prefill_s: float
    evict_s: float
    decode_s: float
    kept: Optional[List[List[np.ndarray]]] = field(default=None, repr=False)

    @property
    def text(self):
        return self.answers[0].text

    @property
    def token_ids(self):
        return self.answers[0].token_ids

    @property
    def finish(self):
        return self.answers[0].finish

    @property
    def logprobs(self):
        return self.answers[0].logprobs


def _answer(a):
    return Answer(a.text.decode(errors="replace"), copied(a.ids, (a.tokens,)) if a.tokens else np.empty(0, np.int32),
                  library.FINISH[a.finish], copied(a.logprobs, (a.tokens,)))


def _kept(c, info):
    heads = info.kv_heads
    return [[copied(c.kept[l * heads + h].positions, (c.kept[l * heads + h].count,)) for h in range(heads)]
            for l in range(info.layers)] if c.kept else None


def _completion(c, info):
    return Completion([_answer(c.answers[i].contents) for i in range(c.answer_count)], c.prompt_tokens, c.new_tokens, c.entries,
                      c.entries_kept, c.prefill_s, c.evict_s, c.decode_s, _kept(c, info))


# ---- calls with functions of Python in them ----

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty", "logit_bias",
            "seed", "request")


class _Listener:
    """Functions of Python that the library calls. What they raise ends the call and is raised by it; so Ctrl-C works, too."""

    def __init__(self, policies, on_prefill=None, on_token=None):
        self.policies, self.error, self.interrupted = [p for p in policies if p is not None], None, False
        self.prefill = library.PREFILL(lambda _, done, total: self._guard(on_prefill, done, total))
        self.token = library.TOKEN(lambda _, answer, i, text, n: self._guard(
            on_token, answer, i, ctypes.string_at(text, n).decode(errors="replace") if on_token and n else ""))

    def _guard(self, function, *arguments):
        if self.interrupted:
            return EINTERRUPTED
        try:
            if function and function(*arguments) is False:
                return EINTERRUPTED
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error
            return EINTERRUPTED
        return OK

    def _note(self, *_):
        self.interrupted = True

    def call(self, function, *arguments):
        """Ctrl-C is noted, and not raised, while the library is at work: ctypes drops what is raised as a callback begins."""
        takes = (threading.current_thread() is threading.main_thread()
                 and signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        if takes:
            signal.signal(signal.SIGINT, self._note)
        try:
            self._run(function, *arguments)
        finally:
            if takes:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.interrupted:
            raise KeyboardInterrupt

    def _run(self, function, *arguments):
        for policy in self.policies:
            policy.take_error()
        try:
            function(*arguments)
        except Error:
            for policy in self.policies:
                error = policy.take_error()
                if error is not None:
                    raise error from None
            if self.error is not None:
                raise self.error from None
            if self.interrupted:
                raise KeyboardInterrupt from None
            raise


def _sampling(options):
    """The struct of sampling options; logit_bias: {id: number added to its logit}."""
    if not options:
        return None
    bias = [library.LogitBias(token, value) for token, value in (options.pop("logit_bias", None) or {}).items()]
    unknown = set(options) - set(SAMPLING)
    if unknown:
        raise TypeError(f"no option of sampling is {sorted(unknown)[0]!r}: there are {', '.join(SAMPLING)}")
    return library.Sampling(bias=(library.LogitBias * len(bias))(*bias) if bias else None, bias_count=len(bias), **options)


def _ids(ids):
    array = np.ascontiguousarray(ids, np.int32).reshape(-1)
    return array, array.ctypes.data_as(ctypes.POINTER(c_int32)), len(array)


# ---- tokenizer ----


class Tokenizer:
    """The tokenizer of an engine's model. vocab: largest id + 1; bos: id, or None; adds_bos: prompts begin with it."""

    def __init__(self, engine, c):
        self._engine, self._c = engine, c
        self.vocab = lib.lh_tokenizer_vocab(c)
        bos = lib.lh_tokenizer_bos(c)
        self.bos = bos if bos >= 0 else None
        self.adds_bos = bool(lib.lh_tokenizer_adds_bos(c))

    def encode(self, text, special=True, continues=False):
        """Ids of a text, int32 [n], without a begin-of-sequence token. special: control tokens in the text are recognised;
        continues: it continues another text, so no blank is put in front of it."""
        raw = text.encode()
        self._engine._open()
        out, n = ctypes.POINTER(c_int32)(), c_int64()
        lib.lh_tokenizer_ids(self._c, raw, len(raw), int(special) | 2 * int(continues), byref(out), byref(n))
        ids = copied(out, (n.value,)) if n.value else np.empty(0, np.int32)
        lib.lh_free(out)
        return ids

    def decode(self, ids):
        """The text of ids, special tokens included."""
        self._engine._open()
        out = c_void_p()
        _, pointer, n = _ids(ids)
        lib.lh_tokenizer_text(self._c, pointer, n, byref(out))
        text = ctypes.string_at(out).decode(errors="replace")
        lib.lh_free(out)
        return text

    def is_eos(self, token):
        """Does this id end an answer?"""
        self._engine._open()
        return bool(lib.lh_tokenizer_is_eos(self._c, token))

    def special(self, text):
        """The id of a special token, such as "<|im_end|>"; None: there is none."""
        self._engine._open()
        token = lib.lh_tokenizer_special(self._c, encoded(text, "the token"))
        return token if token >= 0 else None


# ---- engine ----


class Engine(_Handle):
    """A model, ready to run on all ranks. Every rank makes the same calls with the same arguments.

    model: a checkpoint made by `longhaul import`, or "random:SHAPE". device: "auto", "cpu", "cuda"; dtype, kv_dtype: "auto",
    "f32", "bf16", kv_dtype also "q8", which is "auto" for caches that evict; threads of this rank, 0: its share of the
    cores; deterministic: the same bits on any number of ranks; memory: maximum bytes of a rank, 0: what is free; chunk:
    tokens of a prompt that go through a layer together, 0: chosen; weights: format of the weights of "random:SHAPE", such
    as "q4_K_M"; None: bf16; score_weights: a file of `longhaul learn`, None: the one beside the checkpoint, if it exists.

    Attributes: family, layers, heads, kv_heads, head_dim, hidden, vocab, max_positions, window, device, dtype, kv_dtype,
    evicted_kv_dtype, has_chat; rank, size; tokenizer (None: the model has none)."""

    _what, _free = "engine", "lh_engine_close"

    def __init__(self, model, *, device=None, dtype=None, kv_dtype=None, threads=0, deterministic=False, memory=0, chunk=0,
                 share_device=False, weights=None, score_weights=None):
        world = _world.open()
        options = library.EngineOptions(model=encoded(model, "model"), device=encoded(device, "device"),
                                        dtype=encoded(dtype, "dtype"), kv_dtype=encoded(kv_dtype, "kv_dtype"),
                                        threads=threads, deterministic=int(deterministic), memory=memory, chunk=chunk,
                                        share_device=int(share_device), weights=encoded(weights, "weights"),
                                        score_weights=encoded(score_weights, "score_weights"))
        super().__init__()
        lib.lh_engine_open(byref(self._c), world, byref(options))
        self._info = library.EngineInfo()
        lib.lh_engine_describe(byref(self._info), self._c)
        for name, _ in library.EngineInfo._fields_[1:]:
            value = getattr(self._info, name)
            setattr(self, name, value.decode() if isinstance(value, bytes) else value)
        self.has_chat = bool(self.has_chat)
        self.rank, self.size = rank(), size()
        tokenizer = lib.lh_engine_tokenizer(self._c)
        self.tokenizer = Tokenizer(self, tokenizer) if tokenizer else None

    def complete(self, prompt=None, *, questions=(), policy=None, system=None, chat=None, load_cache=None, save_cache=None,
                 max_new=128, stops=(), logprobs=False, kept=None, turns=None, on_prefill=None, on_token=None, **sampling):
        """A Completion: the prompt is prefilled and evicted, and continued, or each question is answered from it.

        prompt: text; questions: texts that come after the eviction. chat: True, False, or None: where the model has a chat
        format; system: its message. policy: None is the full cache. load_cache: a saved cache, which the prompt continues;
        save_cache: where to save it after the prompt. stops: texts that end an answer. kept: positions that heads keep
        (None: if there is a policy). on_prefill(done, total): tokens x layers; on_token(answer, id, text): final text, a call a
        token, on every rank; either may return False, on every rank, to end the call (Interrupted).
        Sampling: temperature (0: greedy), top_k, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty,
        logit_bias={id: number}, seed."""
        listener = _Listener([policy], on_prefill, on_token)
        draws = _sampling(sampling)
        turns = [library.Turn(encoded(t["role"], "role"), encoded(t["content"], "content")) for t in turns or ()]
        options = library.CompletionOptions(
            prompt=encoded(prompt, "prompt"), turns=(library.Turn * len(turns))(*turns) if turns else None,
            turn_count=len(turns), questions=texts(questions, "a question"), question_count=len(questions),
            chat=0 if chat is None else 1 if chat else 2, system=encoded(system, "system"),
            policy=policy._c if policy is not None else None, load_cache=encoded(load_cache, "load_cache"),
            save_cache=encoded(save_cache, "save_cache"), sampling=ctypes.pointer(draws) if draws else None,
            max_new=max_new, stops=texts(stops, "a stop"), stop_count=len(stops), logprobs=int(logprobs),
            kept=int(policy is not None if kept is None else kept), prefill=listener.prefill, token=listener.token)
        out = ctypes.POINTER(library.Completion)()
        try:
            listener.call(lib.lh_complete, byref(out), self._open(), byref(options))
        except Interrupted as error:
            error.completion = _completion(out.contents, self._info) if out else None
            raise
        finally:
            result = _completion(out.contents, self._info) if out else None
            lib.lh_completion_close(out)
        return result

    def chat(self, messages, **options):
        """A Completion that answers a conversation: messages as [{"role": "user", "content": "…"}, …]; options as complete."""
        return self.complete(turns=messages, **options)

    def session(self, ids, more=256, **options):
        """A Session that has prefilled these ids; options as Session."""
        s = Session(self, len(ids), more, **options)
        s.prefill(ids)
        return s

    def load(self, path, more=256, **options):
        """A Session from a saved cache, for `more` further tokens; options as Session."""
        return Session(self, 0, more, path=path, **options)


# ---- session ----


class Session(_Handle):
    """One sequence, step by step, on token ids.

    prompt: tokens that prefill() will get; more: maximum tokens after them; block: maximum tokens of a block() (more);
    asks_later: questions come after the prefill, which decides the default policy; restores: snapshot() and restore() will be
    called; together: maximum sessions of step_together(), this one, its forks and those beside it; beside: a session that this one
    steps together with; seed of the policy's random choices."""

    _what, _free = "session", "lh_session_close"

    def __init__(self, engine, prompt, more, *, policy: Optional[Policy] = None, block=None, asks_later=False, restores=False,
                 seed=0, together=0, beside=None, path=None):
        self.engine, self.policy, self._draws = engine, policy, 0
        options = library.SessionOptions(policy=policy._c if policy is not None else None, prompt=prompt, more=more,
                                         block=more if block is None else block, asks_later=int(asks_later),
                                         restores=int(restores), seed=seed, together=together,
                                         beside=beside._open() if beside is not None else None)
        super().__init__()
        if path is None:
            lib.lh_session_start(byref(self._c), engine._open(), byref(options))
        else:
            lib.lh_session_load(byref(self._c), engine._open(), encoded(path, "path"), byref(options))

    def _call(self, function, *arguments):
        _Listener([self.policy]).call(function, *arguments)

    def prefill(self, ids, on_prefill=None):
        """Prefills the prompt, once, then evicts. on_prefill(done, total): tokens x layers."""
        listener = _Listener([self.policy], on_prefill)
        array, pointer, n = _ids(ids)
        self._draws = 0
        progress = library.Progress(done=listener.prefill)
        listener.call(lib.lh_session_prefill, self._open(), pointer, n, byref(progress))
        del array

    def block(self, ids):
        """Appends tokens, such as a question."""
        array, pointer, n = _ids(ids)
        self._draws = 0
        self._call(lib.lh_session_block, self._open(), pointer, n)
        del array

    def step(self, token):
        """Appends a token."""
        step_together([self], [token])

    def sample(self, **sampling):
        """The next token from the last row of logits: greedy without temperature=…; the others as complete."""
        token = c_int32()
        draws = _sampling(sampling)
        lib.lh_session_sample(self._open(), byref(draws) if draws else None, self._draws, byref(token))
        self._draws += 1
        return token.value

    def logits(self):
        """Logits of the last row, float32 [vocabulary], on rank 0; None elsewhere. Collective."""
        out, rows = ctypes.POINTER(ctypes.c_float)(), c_int64()
        lib.lh_session_logits(self._open(), byref(out), byref(rows))
        return copied(out, (self.engine.vocab,))

    def snapshot(self):
        """Stores this state for restore(), in a session with restores=True."""
        lib.lh_session_snapshot(self._open())

    def restore(self):
        """Back to the snapshot, any number of times."""
        lib.lh_session_restore(self._open())
        self._draws = 0

    def fork(self, more=256, block=None):
        """A session that continues from this state and shares its entries. It begins with a token; meanwhile this one takes no
        tokens."""
        s = Session.__new__(Session)
        _Handle.__init__(s)
        s.engine, s.policy, s._draws = self.engine, self.policy, 0
        lib.lh_session_fork(byref(s._c), self._open(), more, more if block is None else block)
        return s

    def save(self, path):
        """Saves the state as a cache file, as `longhaul generate --save-cache`; Engine.load opens it on any number of ranks."""
        lib.lh_session_save(self._open(), encoded(path, "path"))

    def kept(self, layer, kv_head):
        """Positions that a KV head of the model holds now, ascending, int32."""
        out, n = ctypes.POINTER(c_int32)(), c_int64()
        lib.lh_session_kept(self._open(), layer, kv_head, byref(out), byref(n))
        positions = copied(out, (n.value,))
        lib.lh_free(out)
        return positions

    @property
    def token_ids(self):
        """All tokens so far, int32."""
        out = ctypes.POINTER(c_int32)()
        n = lib.lh_session_ids(self._open(), byref(out))
        return copied(out, (n,)) if n else np.empty(0, np.int32)


def step_together(sessions, tokens):
    """Appends a token to each of these sessions in one step, which reads the weights once. They are forks of one another, or
    were started beside one with together=…"""
    array, pointer, n = _ids(tokens)
    if n != len(sessions):
        raise library.BY_STATUS[2](f"{len(sessions)} sessions are given and {n} tokens")
    handles = (c_void_p * n)(*(s._open() for s in sessions))
    _Listener([s.policy for s in sessions]).call(lib.lh_sessions_step, handles, pointer, n)
    del array


@dataclass
class Forecast:
    """Bytes of the rank that needs the most: weights, cache (entries that are kept), peak; free: what it has."""
    weights: int
    cache: int
    peak: int
    free: int
    fits: bool


def forecast(model, prompt, more=256, *, policy=None, tp=1, device=None, dtype=None, kv_dtype=None, memory=0,
             weights=None, score_weights=None):
    """A Forecast of a prompt and `more` tokens on `tp` ranks, from the configuration of a model alone (checkpoint or folder)."""
    engine = library.EngineOptions(model=encoded(model, "model"), tp=tp, device=encoded(device, "device"),
                                   dtype=encoded(dtype, "dtype"), kv_dtype=encoded(kv_dtype, "kv_dtype"), memory=memory,
                                   weights=encoded(weights, "weights"),
                                   score_weights=encoded(score_weights, "score_weights"))
    run = library.SessionOptions(policy=policy._c if policy is not None else None, prompt=prompt, more=more)
    out = library.Forecast()
    lib.lh_forecast_make(byref(out), byref(engine), byref(run))
    return Forecast(out.weights, out.cache, out.peak, out.free, bool(out.fits))

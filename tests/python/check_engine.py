#!/usr/bin/env python3
"""The package against itself, the program and numpy, on any number of ranks: check_engine.py PROGRAM MODEL CHAT_MODEL FOLDER.
MODEL and CHAT_MODEL are small random models; the second has a tokenizer with a chat format."""
import json
import logging
import os
import signal
import subprocess
import sys
import threading

import longhaul
import numpy as np

program, model, chat_model, folder = sys.argv[1:5]
TEXT = "A text that is longer than the budget of its policy, so that some of its entries go. " * 3
RNG = np.random.default_rng(5)
PROMPT, MORE = 90, 24


def refused(kind, part, function, *arguments, **options):
    """The call raises an error of this kind whose message has a part."""
    try:
        function(*arguments, **options)
    except kind as error:
        assert part in str(error), f"{part!r} is not in {error!r}"
    else:
        raise AssertionError(f"{part!r}: nothing was raised")


def equal_kept(one, two):
    return all(np.array_equal(a, b) for l, m in zip(one, two) for a, b in zip(l, m))


@longhaul.score
def knorm(entries):
    assert entries.keys.shape == entries.values.shape == entries.shape + (entries.keys.shape[-1],)
    assert entries.positions.shape == entries.shape and 0 <= entries.layer
    return -np.linalg.norm(entries.keys, axis=-1)


@longhaul.score
def keydiff(entries):
    unit = entries.keys / np.linalg.norm(entries.keys, axis=-1, keepdims=True)
    mean = unit.mean(axis=1, keepdims=True)
    return -(unit * mean / np.linalg.norm(mean, axis=-1, keepdims=True)).sum(axis=-1)


@longhaul.score(attention=True)
def attended(entries):
    return entries.attention.mean(axis=1)


@longhaul.score(queries=True)
def asked(entries):
    """As attended, from the queries."""
    logits = np.einsum("hgrd,hnd->hgrn", entries.queries, entries.keys)
    at = entries.positions[:, None, None]
    seen = (at >= entries.first_seen[:, None, :, None]) & (at <= entries.last_seen[:, None, :, None])
    logits = np.where(seen, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)).sum(axis=2).mean(axis=1)


def projected(path):
    """A score of logits, from hidden states: these, projected by the weights of a checkpoint, are the queries of the engine."""
    weights = longhaul.Checkpoint(path)
    theta, hidden = weights.config["rope_theta"], weights.config["hidden_size"]

    def rotated(x, positions):
        half = x.shape[-1] // 2
        angle = positions[..., None] / theta ** (np.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)

    @longhaul.score(hidden=True, queries=True)
    def score(entries):
        _, group, rows, d = entries.queries.shape
        assert entries.hidden.shape == (1, rows, hidden) and entries.row_positions.shape == (1, rows)
        matrix = weights[f"layers/{entries.layer:03d}/q"].reshape(-1, group, d, hidden)[entries.kv_head]
        queries = rotated(np.einsum("hri,gdi->hgrd", entries.hidden, matrix), entries.row_positions[:, None]) / np.sqrt(d)
        assert np.allclose(queries, entries.queries, rtol=0, atol=3e-5 * np.abs(entries.queries).max())
        return np.einsum("hgrd,hnd->hn", queries, entries.keys)
    return score


def run_program(*arguments):
    """The program on one rank, whatever launched this one."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PMI_"))}
    env.update({k: v for k, v in os.environ.items() if k.startswith("OMPI_ALLOW")})
    return json.loads(subprocess.run([program, *arguments, "--json", "-q"], env=env, check=True, capture_output=True).stdout)


def check_completions(engine):
    # a score in numpy keeps what the engine's own keeps, and its answer is the same
    for name, own in (("knorm@kvpress", knorm), ("keydiff@kvpress", keydiff)):
        for parts in ({"budget": 20}, {"budget": 0.3, "head_budget": "adaptive"}, {"budget": "25%", "sinks": 2}, {"budget": "4.5K"}):
            mine = engine.complete(TEXT, policy=longhaul.Policy(score=own, **parts), max_new=8)
            theirs = engine.complete(TEXT, policy=longhaul.Policy(name, **parts), max_new=8)
            assert equal_kept(mine.kept, theirs.kept), (name, parts)
            assert mine.text == theirs.text and np.array_equal(mine.token_ids, theirs.token_ids)
            assert mine.entries_kept == sum(len(h) for l in mine.kept for h in l) < mine.entries
    snapkv = {"window": 16, "pool": "avg", "pool_size": 5}
    theirs = engine.complete(TEXT, policy=longhaul.Policy("snapkv@kvpress", budget=40, **snapkv), max_new=8)
    for own in (attended, asked):
        mine = engine.complete(TEXT, policy=longhaul.Policy(score=own, budget=40, **snapkv), max_new=8)
        assert equal_kept(mine.kept, theirs.kept) and mine.text == theirs.text, own
    # the program's answers
    for options, arguments in (({}, []), ({"system": "Be brief."}, ["--system", "Be brief."]), ({"chat": False}, ["--chat=off"])):
        done = engine.complete(TEXT, max_new=12, policy=longhaul.Policy("snapkv", budget=24, window=8), logprobs=True, **options)
        if engine.rank == 0:
            said = run_program("generate", "-m", chat_model, "-p", TEXT, "-n", "12", "--policy", "snapkv", "--budget", "24",
                               "--window", "8", "--deterministic", "--dtype", "f32", "--logprobs", *arguments)
            assert said["token_ids"] == done.token_ids.tolist() and said["text"] == done.text
            assert np.allclose(said["logprobs"], done.logprobs, atol=1e-8)
        else:
            assert done.logprobs is None
    # questions, streams, an end before the end
    heard, seen = [], []
    done = engine.complete(TEXT, questions=["Who?", "Why?"], policy=longhaul.Policy(budget=30), max_new=6,
                           on_token=lambda answer, token, text: heard.append((answer, text)),
                           on_prefill=lambda now, total: seen.append((now, total)))
    assert len(done.answers) == 2 and seen[-1][0] == seen[-1][1]
    for number, answer in enumerate(done.answers):
        assert "".join(text for a, text in heard if a == number) == answer.text
    heard.clear()
    try:
        engine.complete(TEXT, max_new=9, on_token=lambda *token: heard.append(token) or len(heard) < 4)
    except longhaul.Interrupted as error:
        assert len(error.completion.token_ids) == 4 and error.completion.finish == "interrupted"
    else:
        raise AssertionError("a function that returns False ends nothing")
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Who?"}]
    assert engine.chat(turns, max_new=5).prompt_tokens > engine.complete("Who?", max_new=5).prompt_tokens
    # random draws are those of a seed
    drawn = [engine.complete(TEXT, max_new=8, temperature=1.5, seed=seed).token_ids.tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    first = int(engine.complete(TEXT, max_new=1).token_ids[0])
    assert first not in engine.complete(TEXT, max_new=8, logit_bias={first: -1e3}).token_ids
    refused(TypeError, "no option of sampling is 'temprature'", engine.complete, TEXT, temprature=1)
    # a saved cache
    path = os.path.join(folder, "completion.h5")
    one = engine.complete(TEXT, questions=["Who?"], policy=longhaul.Policy("snapkv --budget 24"), max_new=6, save_cache=path)
    two = engine.complete(load_cache=path, questions=["Who?"], max_new=6)
    assert one.text == two.text


def check_errors(engine):
    class Mine(Exception):
        pass

    def fail(_):
        raise Mine("of the score")

    def stop(*_):
        raise KeyboardInterrupt
    refused(longhaul.UsageError, "did you mean 'snapkv'", longhaul.Policy, "snapvk", budget=3)
    refused(ValueError, "unknown", longhaul.Policy, "snapvk", budget=3)
    refused(longhaul.UsageError, "a score: give a name or score=", longhaul.Policy, "snapkv", score=knorm, budget=3)
    refused(longhaul.UsageError, "needs a budget", longhaul.Policy, score=knorm)
    refused(longhaul.UsageError, "prompt is NULL", engine.complete)
    refused(longhaul.UsageError, "prompt is empty", engine.complete, "")
    refused(longhaul.UsageError, "questions[0] is empty", engine.complete, "a", questions=[""])
    refused(TypeError, "prompt is int, it must be a text", engine.complete, 5)
    refused(longhaul.FileError, "absent.h5", longhaul.Engine, "absent.h5")
    refused(longhaul.UsageError, "dtype 'f64'", longhaul.Engine, model, dtype="f64")
    refused(Mine, "of the score", engine.complete, TEXT, policy=longhaul.Policy(score=fail, budget=9))
    refused(ValueError, "it must be (1, ", engine.complete, TEXT, policy=longhaul.Policy(score=lambda e: np.zeros(3), budget=9))
    refused(longhaul.UsageError, "scores must be finite", engine.complete, TEXT,
            policy=longhaul.Policy(score=lambda e: np.full(e.shape, np.nan), budget=9))
    refused(AttributeError, "entries have no 'queris'", engine.complete, TEXT,
            policy=longhaul.Policy(score=lambda e: e.queris, budget=9))
    refused(AttributeError, "mark it with @longhaul.score(queries=True)", engine.complete, TEXT,
            policy=longhaul.Policy(score=lambda e: e.queries, budget=9))
    refused(AttributeError, "mark it with @longhaul.score(hidden=True)", engine.complete, TEXT,
            policy=longhaul.Policy(score=lambda e: e.hidden, budget=9))
    refused(KeyboardInterrupt, "", engine.complete, TEXT, on_token=stop)
    refused(KeyboardInterrupt, "", engine.complete, TEXT, on_prefill=stop)
    refused(TypeError, "a list of texts is needed", engine.complete, TEXT, questions="Who?")
    refused(longhaul.UsageError, "init comes before", longhaul.init)
    # one rank fails alone, in a score or in a function that hears tokens: the others fail with it, and all work on
    for function in ("score", "on_token", "on_prefill"):
        def alone(*_):
            if engine.rank == engine.size - 1:
                raise Mine("of one rank")
        options = {"policy": longhaul.Policy(score=lambda e: (alone(), -np.ones(e.shape))[1], budget=9)} if function == "score" \
            else {function: alone}
        try:
            engine.complete(TEXT, **options)
        except Mine:
            assert engine.rank == engine.size - 1
        except longhaul.Error:
            assert engine.rank < engine.size - 1
        else:
            raise AssertionError(function)
    assert engine.complete(TEXT, max_new=2).new_tokens == 2  # it works on


def check_changed_file(engine):
    """A file of a score that changes is another score for the policies that are made then."""
    path, policies = os.path.join(folder, "changing.py"), []
    for sign in ("-", "+"):
        with open(path, "w", encoding="utf-8") as file:
            file.write("import numpy as np\nimport longhaul\n\n\n@longhaul.score\ndef changing(entries):\n"
                       f"    return {sign}np.linalg.norm(entries.keys, axis=-1)\n")
        policies.append(longhaul.Policy(path, budget=20))
    policies.append(longhaul.Policy("knorm@kvpress", budget=20))
    kept = [engine.complete(TEXT, policy=policy, max_new=2).kept for policy in policies]
    assert equal_kept(kept[0], kept[2]) and not equal_kept(kept[0], kept[1])


def check_interrupt(engine):
    """Ctrl-C ends a call, and no score is left out."""
    policy = longhaul.Policy(score=knorm, budget=30)
    ids = RNG.integers(3, 90, PROMPT)
    with engine.session(ids, MORE, policy=policy) as s:
        right = [s.kept(l, h) for l in range(engine.layers) for h in range(engine.kv_heads)]
    ended = threading.Event()

    def press():
        while not ended.wait(0.0005):
            os.kill(os.getpid(), signal.SIGINT)
    presses, interrupted = threading.Thread(target=press), 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    s = None
    for turn in range(30):
        try:
            if turn == 0:
                presses.start()
            s = engine.session(ids, MORE, policy=policy)
            kept = [s.kept(l, h) for l in range(engine.layers) for h in range(engine.kv_heads)]
            assert all(np.array_equal(a, b) for a, b in zip(kept, right)), "other entries are kept"
        except KeyboardInterrupt:
            interrupted += 1
    while True:
        try:
            ended.set()
            presses.join()
            break
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted > 0


def check_hidden(engine):
    score = projected(chat_model)

    @longhaul.score(hidden=True, rows="last:999")
    def probed(entries):
        assert np.array_equal(entries.row_positions[0], np.arange(entries.tokens))  # every token of a shorter prompt
        return entries.hidden[0][entries.positions[0], entries.kv_head][None]
    engine.complete(TEXT, policy=longhaul.Policy(score=probed, budget=40), max_new=2)
    for parts in ({}, {"window": 9, "rows": "last:20"}, {"rows": "sample:7"}, {"rows": "last:999"}, {"proxies": "10%"},
                  {"head_budget": "adaptive", "layer_budget": "adaptive"}):
        engine.complete(TEXT, policy=longhaul.Policy(score=score, budget=40, **parts), max_new=2, questions=["Why?"])
    with engine.session(RNG.integers(3, 90, PROMPT), MORE, policy=longhaul.Policy(score=score, budget=40)) as session:
        answer(session, 3)
    refused(longhaul.UsageError, "'a score of hidden states' does not go with '--evict every", longhaul.Policy, score=score,
            budget=9, evict="every:2")


def answer(session, n):
    tokens = []
    for i in range(n):
        tokens.append(session.sample())
        if i + 1 < n:
            session.step(tokens[-1])
    return tokens


def check_sessions(engine):
    ids = RNG.integers(3, 90, PROMPT)
    policy = longhaul.Policy("snapkv", budget=30, window=8)
    session = engine.session(ids, MORE, policy=policy, restores=True)
    path = os.path.join(folder, "session.h5")
    session.save(path)
    kept = session.kept(1, 1)
    assert np.all(np.diff(kept) > 0) and kept[-1] < PROMPT and len(kept) == 30
    logits = session.logits()
    assert (logits is None) == (engine.rank != 0)
    session.snapshot()
    first = answer(session, 6)
    if engine.rank == 0:
        assert logits.shape == (engine.vocab,) and int(np.argmax(logits)) == first[0]
    session.restore()
    assert answer(session, 6) == first and np.array_equal(session.token_ids[:PROMPT], ids)
    with engine.load(path, MORE) as loaded:
        assert len(loaded.token_ids) == PROMPT and np.array_equal(loaded.kept(1, 1), kept) and answer(loaded, 6) == first
    refused(longhaul.UsageError, "layer 99", session.kept, 99, 0)
    session.close()
    refused(longhaul.UsageError, "the session is closed", session.step, 3)
    # a session that its own score or listener closes ends after the call
    class Closing:
        session = None

        def score(self, entries):
            self.session.close()
            return entries.positions.astype(np.float32)
    closing = Closing()
    for listener in (None, lambda *_: closing.session.close()):
        closing.session = longhaul.Session(engine, PROMPT, MORE, policy=longhaul.Policy(score=closing.score, budget=30))
        closing.session.prefill(ids, on_prefill=listener)
        refused(longhaul.UsageError, "the session is closed", closing.session.step, 3)
    # sessions that step together answer as each of them alone
    other = RNG.integers(3, 90, 70)
    starts, alone = (11, 12, 13), []
    for number, start in enumerate(starts):
        with engine.session(ids if number < 2 else other, MORE, policy=policy) as one:
            one.step(start)
            alone.append(answer(one, 6))
    root = engine.session(ids, MORE, policy=policy, together=3)
    group = [root.fork(MORE), root.fork(MORE), engine.session(other, MORE, policy=policy, beside=root)]
    refused(longhaul.UsageError, "2 forks", root.step, 3)
    tokens, together = list(starts), [[], [], []]
    for _ in range(6):
        longhaul.step_together(group, tokens)
        tokens = [s.sample() for s in group]
        for one, token in zip(together, tokens):
            one.append(token)
    assert together == alone, (together, alone)
    # a score of Python while decoding
    with engine.session(ids, MORE, policy=longhaul.Policy(score=knorm, budget=30, evict="every:4")) as mine, \
            engine.session(ids, MORE, policy=longhaul.Policy("knorm", budget=30, evict="every:4")) as theirs:
        assert answer(mine, 12) == answer(theirs, 12)
        assert np.array_equal(mine.kept(0, 0), theirs.kept(0, 0)) and len(mine.kept(0, 0)) <= 34
        mine.save(path)
        mine.step(3)
        right = answer(mine, 9)
    # the score is not in the file
    refused(longhaul.UsageError, "which is not in the file", engine.load, path, MORE)
    refused(longhaul.UsageError, "was made with the policy", engine.load, path, MORE,
            policy=longhaul.Policy(score=asked, budget=30, evict="every:4"))
    with engine.load(path, MORE, policy=longhaul.Policy(score=knorm, budget=30, evict="every:4")) as loaded:
        loaded.step(3)
        assert answer(loaded, 9) == right


def check_tokenizer(engine):
    t = engine.tokenizer
    ids = t.encode("Who did it?")
    assert ids.dtype == np.int32 and t.decode(ids) == "Who did it?" and len(t.encode("")) == 0
    end = t.special("<|im_end|>")
    assert t.is_eos(end) and t.encode("<|im_end|>").tolist() == [end] and len(t.encode("<|im_end|>", special=False)) > 1
    assert t.special("none such") is None and engine.has_chat and engine.layers > 0 and engine.vocab >= t.vocab


def main():
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("longhaul").addHandler(handler)
    logging.getLogger("longhaul").setLevel(logging.DEBUG)
    engine = longhaul.Engine(chat_model, deterministic=True, dtype="f32")
    assert any(m.startswith("loaded ") for m in messages) == (engine.rank == 0)
    assert (engine.rank, engine.size) == (longhaul.rank(), longhaul.size())
    logging.getLogger("longhaul").setLevel(logging.ERROR)
    for check in (check_tokenizer, check_completions, check_hidden, check_errors, check_sessions):
        check(engine)
    fits = longhaul.forecast(model, 1000, policy=longhaul.Policy(budget=0.1))
    assert fits.fits and 0 < fits.cache < fits.peak <= fits.free
    with longhaul.Engine(model) as plain:
        assert plain.complete(TEXT, max_new=3).new_tokens <= 3
    refused(longhaul.UsageError, "the engine is closed", plain.complete, "a")
    refused(longhaul.UsageError, "the engine is closed", plain.tokenizer.encode, "a")
    if engine.size == 1:
        check_changed_file(engine)
        check_interrupt(engine)


main()

#!/usr/bin/env python3
"""Tasks of lm-evaluation-harness on Longhaul, with the cache evicted by any policy, on any number of ranks:

  examples/lm_eval_model.py --model longhaul --model_args "model=m.h5,policy=snapkv --budget 20%" --tasks arc_easy --limit 100
  mpirun -n 4 python3 examples/lm_eval_model.py --model longhaul --model_args model=m.h5 --tasks gsm8k

Everything after the script is lm_eval's. Needs `pip install lm_eval` and the package longhaul. The context of a request is the
prompt, which is evicted; likelihoods are those of the tokens that follow. Choices of one question are forks of its cache, which
step together. Logits are on rank 0, so that likelihoods are right there alone: other ranks print nothing.
"""
import itertools
import os
import sys

import numpy as np
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

import longhaul


def log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max()
    return x - np.log(np.exp(x).sum())


@register_model("longhaul")
class Longhaul(TemplateLM):
    def __init__(self, model, policy=None, max_gen_toks=256, together=8, dtype=None, kv_dtype=None, **_):
        super().__init__()  # lm_eval's own options (device, batch_size) are no matter of the engine
        self.engine = longhaul.Engine(model, dtype=dtype, kv_dtype=kv_dtype)
        self.policy = longhaul.Policy(policy) if policy else None
        self.words, self.max_gen_toks, self.together = self.engine.tokenizer, int(max_gen_toks), int(together)

    @property
    def eot_token_id(self):
        return self.words.bos if self.words.bos is not None else 0

    def tok_encode(self, string, add_special_tokens=None, **_):
        ids = self.words.encode(string).tolist()
        begins = self.words.adds_bos and add_special_tokens is not False and ids[:1] != [self.words.bos]
        return [self.words.bos] + ids if begins else ids

    def _score(self, session, tokens, ended):
        """Adds the likelihood of the next token of each sequence: {index: [tokens left]}."""
        if self.engine.rank:
            session.logits()
            return 0.0, False
        logprobs = log_softmax(session.logits())
        return float(logprobs[tokens]), bool(ended and logprobs.argmax() == tokens)

    def _choices(self, context, continuations):
        """(log-likelihood, is it greedy) of some continuations of one context."""
        room = max(len(c) for c in continuations) + 1
        with self.engine.session(context, room, policy=self.policy, together=len(continuations)) as root:
            results = [self._score(root, c[0], True) for c in continuations]
            forks = [root.fork(room) for c in continuations if len(c) > 1]
            numbers = [i for i, c in enumerate(continuations) if len(c) > 1]
            for step in range(1, max(len(c) for c in continuations)):
                going = [(f, i) for f, i in zip(forks, numbers) if step < len(continuations[i])]
                longhaul.step_together([f for f, _ in going], [continuations[i][step - 1] for _, i in going])
                for fork, i in going:
                    one, greedy = self._score(fork, continuations[i][step], results[i][1])
                    results[i] = (results[i][0] + one, greedy)
            for fork in forks:
                fork.close()
        return results

    def _loglikelihood_tokens(self, requests, **_):
        results = [None] * len(requests)
        order = sorted(range(len(requests)), key=lambda i: requests[i][1])
        for context, same in itertools.groupby(order, key=lambda i: requests[i][1]):
            same = list(same)
            for first in range(0, len(same), self.together):
                part = same[first:first + self.together]
                for i, result in zip(part, self._choices(context, [requests[i][2] for i in part])):
                    results[i] = result
        return results

    def loglikelihood_rolling(self, requests, **_):
        """Each token after the first, from all before it that the model has positions for."""
        results = []
        for request in requests:
            ids = self.tok_encode(request.args[0])[:self.engine.max_positions - 1]
            results.append(self._choices(ids[:1], [ids[1:]])[0][0] if len(ids) > 1 else 0.0)
        return results

    def generate_until(self, requests, **_):
        texts = []
        for request in requests:
            prompt, how = request.args
            sampling = {"temperature": how.get("temperature", 0.0)} if how.get("do_sample") else {}
            until = how.get("until") or []
            done = self.engine.complete(prompt, chat=False, policy=self.policy, kept=False,
                                        max_new=how.get("max_gen_toks", self.max_gen_toks),
                                        stops=[until] if isinstance(until, str) else list(until), **sampling)
            texts.append(done.text)
        return texts


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate
    if longhaul.rank():
        sys.stdout = sys.stderr = open(os.devnull, "w")
    cli_evaluate()

"""A score in Python keeps what the preset of the same rule keeps, and a file of the program can be read: score.py MODEL
KEEP_SETS. Prints the answer once, on any number of ranks. Also a policy of the program: --policy ./score.py."""
import sys

import numpy as np

import longhaul


@longhaul.score
def own_norm(entries):
    return -np.linalg.norm(entries.keys, axis=-1)


def main(model, keep_sets):
    text = "A prompt that is longer than the budget of its policy: " + " ".join(str(i) for i in range(60))
    with longhaul.Engine(model, dtype="f32", kv_dtype="f32", deterministic=True) as engine:
        own = engine.complete(text, policy=longhaul.Policy(score=own_norm, budget=40), max_new=8)
        preset = engine.complete(text, policy=longhaul.Policy("knorm@kvpress", budget=40), max_new=8)
        assert np.array_equal(own.token_ids, preset.token_ids) and own.new_tokens == 8
        assert own.entries_kept == preset.entries_kept < own.entries
        stored = longhaul.KeepSets(keep_sets)
        assert stored.positions(0)[0].size == 40
        if engine.rank == 0:
            print(own.token_ids.tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])

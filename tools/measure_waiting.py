#!/usr/bin/env python3
"""Decoding beside other processes: how the program waits by itself, and with OMP_WAIT_POLICY=active and passive.

  tools/measure_waiting.py MODEL.h5 PROMPT.ids [--longhaul build/longhaul] [--threads 2] [--loads 0,2,4,8]
                           [--prompt-length 64] [--new 128] [--repeat 5]

PROMPT.ids holds token ids, separated by white space. A load of n is n processes that compute without end. Medians and
best of --repeat runs, which take turns. The machine has to be idle otherwise.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

WAYS = {"by itself": None, "active": "active", "passive": "passive"}


def decode_speed(options, ids, policy):
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    if policy:
        environment["OMP_WAIT_POLICY"] = policy
    command = [options.longhaul, "generate", "-m", options.model, "--prompt-tokens", ids, "-n", str(options.new + 1),
               "--ignore-eos", "--threads", str(options.threads), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return options.new / json.loads(done.stdout)["timing"]["decode_s"]


def measure(options, ids, load):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
    speeds = {way: [] for way in WAYS}
    try:
        for turn in range(options.repeat):
            for way in WAYS if turn % 2 == 0 else reversed(WAYS):
                speeds[way].append(decode_speed(options, ids, WAYS[way]))
    finally:
        for other in others:
            other.kill()
            other.wait()
    return speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("prompt")
    parser.add_argument("--longhaul", default="build/longhaul")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--loads", default="0,2,4,8")
    parser.add_argument("--prompt-length", type=int, default=64)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with open(options.prompt) as f:
        ids = f.read().split()[:options.prompt_length]
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as f:
        f.write(" ".join(ids))
        f.flush()
        print("Tokens per second in decoding, median (best):\n")
        print("| other processes | " + " | ".join(WAYS) + " | of the better median |")
        print("|---" * (len(WAYS) + 2) + "|")
        for load in map(int, options.loads.split(",")):
            speeds = measure(options, f.name, load)
            medians = {way: statistics.median(s) for way, s in speeds.items()}
            row = [f"{medians[way]:.1f} ({max(s):.1f})" for way, s in speeds.items()]
            share = medians["by itself"] / max(medians["active"], medians["passive"])
            print(f"| {load} | " + " | ".join(row) + f" | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()

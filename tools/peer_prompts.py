"""What tools/compare_kvpress.py, compare_openvino.py and measure_known_questions.py share: prompts and measures of Longhaul's
`eval`."""
import csv
import glob
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import longhaul


def add_options(parser):
    """What a comparison takes, whoever the peer is; returns the group of what is asked about."""
    parser.add_argument("-o", "--output", required=True)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--haystack", help="texts that needles are put into")
    parser.add_argument("--longhaul", default="build/longhaul")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--length", type=int, default=1536)
    parser.add_argument("--needles", type=int, default=12, help="needles, each at a depth and with a secret of its own")
    parser.add_argument("--max-new", type=int, default=24)
    return asked


def numbers(text):
    """A list of them, as on the command line."""
    return [int(x) for x in text.split(",")]


def evaluate(program, output, name, task, *options):
    """Rows of one `longhaul eval`, once; its prompts and what policies keep of them are in output/name."""
    answers = os.path.join(output, f"{name}.csv")
    if not os.path.exists(answers):
        subprocess.run([program, "eval", task, "--answers", answers, "--keep-sets", os.path.join(output, name), "-q", *options],
                       check=True, stdout=subprocess.DEVNULL)
    with open(answers, newline="") as f:
        return list(csv.DictReader(f))


def prompts(output, name):
    """(prompt, its token ids) of everything that the run has prefilled."""
    paths = glob.glob(os.path.join(glob.escape(output), name, "*.h5"))
    for prompt, path in sorted({re.sub(r"\.\d\d-.*", "", os.path.basename(p)): p for p in paths}.items()):
        with longhaul.KeepSets(path) as kept:
            yield prompt, kept.h5["tokens"][...].tolist()


def facts_of(kind, text):
    """The words of every fact of a kind (examples/facts.json) that a prompt has."""
    sentence = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(kind["fact"]))
    return [match.groupdict() for match in re.finditer(sentence, text)]


def kept_positions(output, name, prompt, policy, budget):
    """Positions that a policy keeps of a prompt, [layers][kv heads], or None."""
    found = glob.glob(glob.escape(os.path.join(output, name, prompt)) + f".*-{policy.replace('@', '_')}-{budget}.h5")
    if not found:
        return None
    with longhaul.KeepSets(found[0]) as kept:
        return [kept.positions(layer) for layer in range(len(kept.h5["layers"]))]


def needle_depth(i):
    """Depths that are spread evenly, whatever their number."""
    return f"{0.05 + 0.9 * ((0.5 + i * 0.618034) % 1):.3f}"


def needle_name(row):
    """The prompt of a row of `eval needle`."""
    return f"{row['length']}-{row['scenario']}-depth{row['depth'].replace('.', '_')}-seed{row['seed']}"


def task_name(row):
    """The prompt of a row of `eval tasks` on one file."""
    task = re.sub(r"[^A-Za-z0-9@_-]", "_", row["task"])
    return f"{row['length']}-{task}-{int(row['line']):04d}-{row['scenario']}"


def words(text):
    return re.findall(r"\w+", text.lower())


def contains(answer, secret):
    """1 if the answer contains the words of the secret in order and adjacent."""
    a, s = words(answer), words(secret)
    return int(any(a[i:i + len(s)] == s for i in range(len(a) - len(s) + 1)))


def share_contained(answer, right):
    """RULER's score: the share of the right answers that the answer contains, in %; case does not count."""
    return 100 * mean([text.lower() in answer.lower() for text in right])


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def interval(differences, draws=4000):
    """Their mean and its 95% interval, by bootstrap."""
    draw = random.Random(1)
    means = sorted(mean(draw.choices(differences, k=len(differences))) for _ in range(draws))
    return f"{mean(differences):+.2f} [{means[draws // 40]:.2f}, {means[-1 - draws // 40]:.2f}]"

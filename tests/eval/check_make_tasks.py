"""check_make_tasks.py TOOL LONGHAUL TINY_FOLDER: the prompts of tools/make_tasks.py against the published definitions of their tasks
(NVIDIA/RULER c3f5e3b; NeMo-Skills, ruler2; princeton-pli/LongProc 78e873a), and that 'longhaul eval tasks' asks them. TINY_FOLDER writes
the tiny model, whose tokens are bytes."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

TOOL, LONGHAUL, TINY = (os.path.abspath(path) for path in sys.argv[1:4])
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = re.compile(r"One of the special magic (?:number|uuid)s for (\S+) is: ([^.]+)\.")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
SQUAD = {"version": "v2.0", "data": [
    {"title": "A", "paragraphs": [
        {"context": "The tower is red.", "qas": [
            {"question": "Which colour has the tower?", "is_impossible": False, "answers": [{"text": "red"}, {"text": "Red"}]},
            {"question": "Who?", "is_impossible": True, "answers": []}]},
        {"context": "Its door is low.", "qas": []}]},
    {"title": "B", "paragraphs": [
        {"context": "A river is wide.", "qas": [{"question": "How wide?", "is_impossible": False, "answers": [{"text": "very"}]}]},
        {"context": "Its door is low.", "qas": []}, {"context": "Fish.", "qas": []}]}]}
HOTPOT = [{"_id": "1", "question": "Which came first?", "answer": "yes",
           "context": [["One", ["A first. ", "And more."]], ["Two", ["A second."]]]},
          {"_id": "2", "question": "Who?", "answer": "nobody", "context": [["Two", ["A second."]], ["Three", ["A third."]]]}]


def make(*options, length=4500, code=0):
    done = subprocess.run([sys.executable, TOOL, options[0], "--longhaul", LONGHAUL, "--tokenizer", "tiny", "--length", str(length),
                           *options[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == code, (options, done.returncode, done.stderr.decode())
    return done.stderr.decode() if code else [json.loads(line) for line in done.stdout.splitlines()]


def ruler(task, *more, length=4500):
    files = ["--haystack", "hay.txt", "--squad", "squad.json", "--hotpotqa", "hotpot.json"]
    return make("ruler", "--task", task, "--count", "2", *files, *more, length=length)


def check_sizes(records, length):
    """Bytes are tokens: prompt and answer fill the length."""
    for r in records:
        size = len((r["context"] + r["question"] + r["answer_prefix"]).encode()) + r["max_new_tokens"]
        assert length - 140 < size <= length, (r["task"], size)
        assert r["nominal_length"] == length


def check_niah():
    published = {"niah_single_1": (1, 1, 7), "niah_single_2": (1, 1, 7), "niah_single_3": (1, 1, 0), "niah_multikey_1": (4, 1, 7),
                 "niah_multivalue": (4, 4, 7), "niah_multiquery": (4, 4, 7)}
    for task, (needles, answers, digits) in published.items():
        records = ruler(task)
        check_sizes(records, 4500)
        for r in records:
            kind = ("uuid" if digits == 0 else "number") + ("" if answers == 1 else "s")
            query = re.search(r" for (.*) mentioned", r["question"]).group(1)
            one = answers == 1
            assert r["context"].startswith(f"{'A' if one else 'Some'} special magic {kind} {'is' if one else 'are'} hidden within the "
                                           f"following text. Make sure to memorize it. I will quiz you about the {kind} afterwards.\n")
            assert r["question"] == f"What {'is' if one else 'are all'} the special magic {kind} for {query} mentioned in the " \
                                    "provided text?"
            assert r["answer_prefix"] == f" The special magic {kind} for {query} mentioned in the provided text " \
                                         f"{'is' if one else 'are'}"
            found = NEEDLE.findall(r["context"])
            assert len(found) == needles and len(r["answers"]) == answers
            asked = re.split(r", (?:and )?", query)
            assert [v for k in asked for v in r["answers"] if (k, v) in found] == r["answers"]
            for value in r["answers"]:
                assert UUID.match(value) if digits == 0 else re.fullmatch(rf"[1-9]\d{{{digits - 1}}}", value)
            assert r["metric"] == "string-match-all" and r["max_new_tokens"] == 128
    hay = open("hay.txt").read().split()
    context = NEEDLE.sub("", ruler("niah_multikey_1")[0]["context"].split("\n", 1)[1]).split()
    assert context == (hay * 20)[:len(context)]  # the text itself, with needles between its sentences
    for task, kind, values in (("niah_multikey_2", "number", 1), ("niah_multikey_3", "uuid", 1), ("mk_niah_basic", "number", 1),
                               ("mv_niah_basic", "number", 4)):
        for r in ruler(task):
            key = re.search(r" for (\S+)", r["question"]).group(1)
            lines = r["context"].strip().split("\n")[1:]
            found = [NEEDLE.fullmatch(line).groups() for line in lines]
            assert sorted(v for k, v in found if k == key) == sorted(r["answers"]) and len(r["answers"]) == values
            assert not re.search(r"niah_basic", task) or (r["answer_prefix"] == "" and r["question"].endswith((" are", " is")))
            assert all(len(v) == {"niah_multikey_2": 7, "niah_multikey_3": 36}.get(task, 10) for _, v in found)


def check_lists():
    for r in ruler("vt"):
        example, text = r["context"].split("\n\nMemorize and track the chain(s)")
        chain = re.findall(r"VAR ([A-Z]{5}) = (?:VAR )?(\w+)", text)
        value = re.search(r"value (\d{5}) in the text above\.", r["question"]).group(1)
        assert [c[0] for c in chain] == r["answers"] and [c[1] for c in chain] == [value] + r["answers"][:-1]
        assert len(re.findall(r"VAR [A-Z]{3} = ", example)) == 5 and re.search(r"they are:  [A-Z]{3}( [A-Z]{3}){4}$", example)
        assert r["answer_prefix"].endswith(f" 5 variables are assigned the value {value}, they are: ")
        assert set(text.strip().split("\n")[1:]) - {NOISE} and r["max_new_tokens"] == 30
    for length, common, other, example in ((4000, 6, 1, 10 * 3 + 10), (12000, 30, 3, 10 * 10 + 30 * 3)):
        for r in ruler("cwe", length=length):
            lists = [re.findall(r"\d+\. (\S+)", part) for part in r["context"].split("Memorize the ones that appear most often.\n")[1:]]
            times = {w: lists[1].count(w) for w in lists[1]}
            assert sorted(w for w, n in times.items() if n == common) == sorted(r["answers"]) and len(r["answers"]) == 10
            assert set(times.values()) == {common, other} and len(lists[0]) - 10 == example  # and the example's answer
    for r in ruler("fwe", length=6000):
        words = r["context"].split("appeared coded words. ")[1].split()
        times = sorted(((words.count(w), w) for w in set(words)), reverse=True)
        assert times[0][1] == "..." and [w for _, w in times[1:4]] == r["answers"]
        for rank in range(4):  # ⌊n / (ζ(2) k²)⌋
            assert abs(times[rank][0] - times[0][0] / (rank + 1)**2) < 1
        assert math.isclose(times[0][0], len(words) * 6 / math.pi**2, rel_tol=0.2)


def check_documents():
    rule = "Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n"
    for task, seed, query, gold in (("qa_1", 0, "Which colour has the tower?", ":\nThe tower is red."),
                                    ("qa_1", 1, "How wide?", ":\nA river is wide."),
                                    ("qa_2", 0, "Which came first?", ":\nOne\nA first. And more.")):
        r = ruler(task, "--seed", "1", length=900)[seed]
        assert r["context"].startswith(f"{rule}The following are given documents.\n\nDocument 1:\n") and gold in r["context"]
        assert (r["question"], r["answer_prefix"], r["metric"]) == (f"{rule}Question: {query}", " Answer:", "string-match-part")
    assert ruler("qa_1", length=900)[0]["answers"] == ["red", "Red"]


def check_long_answers():
    for steps in (2, 20):
        for r in make("path", "--steps", str(steps), "--count", "2", length=9000):
            pairs = re.findall(r"^(.+) is a lively city\. You can travel from \1 to (.+) by (\w+)\.$", r["context"].split("[PROBLEM]")[1],
                               re.M)
            following = {a: (b, by) for a, b, by in pairs}
            assert len(following) == len(pairs)  # every city has one connection
            city, end = re.match(r"Now find the route from (.+) to (.+) based on", r["question"]).groups()
            for step in r["answers"]:
                to, by = following[city]
                assert step == f"From {city}, take a {by} to {to}."
                city = to
            assert city == end and end not in following and len(r["answers"]) == steps
            assert r["max_new_tokens"] == (1 + len("\n".join(r["answers"]))) * 5 // 4 + 16
        check_sizes([r], 9000)
    for keys in (1, 8):
        for r in make("kv", "--keys", str(keys), "--count", "2", length=5000):
            data = json.loads(r["context"].split("JSON data:\n")[1])
            asked = re.findall(r'"([^"]+)"', r["question"])
            assert [data[k] for k in asked] == r["answers"] and len(asked) == keys and len(data) > keys
        check_sizes([r], 5000)


def check_seeds_and_errors():
    one, again, later = (make("kv", "--count", "2", "--seed", seed, length=2000) for seed in ("5", "5", "6"))
    assert one == again and one[1] == later[0] and one[0] != later[0]
    assert [r["nominal_length"] for r in make("kv", "--count", "1", "--keys", "1", length="1k,2000")] == [1024, 2000]
    for options, says in ((("ruler", "--task", "qa_1"), "task 'qa_1' needs '--squad'"),
                          (("ruler", "--task", "vt,ruler"), "'--task' got 'ruler'"),
                          (("ruler", "--task", "qa_1", "--squad", "hotpot.json"), "'hotpot.json' has no question"),
                          (("path",), "the shortest prompt of task 'path'")):
        text = make(*options, length=600, code=1)
        assert says in text, text


def check_published_sample():
    """A file of RULER has the form of our records."""
    path = os.path.join(os.environ.get("LONGHAUL_TEST_DATA", os.path.join(os.path.dirname(TOOL), "../../shared/data")),
                        "tasks/ruler-4096/niah_multikey_3.jsonl")
    if not os.path.exists(path):
        return print(f"'{path}' skipped")
    published = json.loads(open(path, encoding="utf-8").readline())
    r = ruler("niah_multikey_3")[0]
    ours = r["context"] + r["question"] + r["answer_prefix"]

    def form(text):
        return re.sub(r"(One of [^\n]*\n)+", "NEEDLES\n", re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text))

    assert form(published["input"]) == form(ours), (form(published["input"]), form(ours))


def check_asking():
    with open("made.jsonl", "w", encoding="utf-8") as f:
        for r in make("ruler", "--task", "vt,niah_multikey_3", "--count", "1", length=3000) + make("kv", "--count", "1", length=3000):
            f.write(json.dumps(r) + "\n")
    subprocess.run([LONGHAUL, "import", "tiny", "-o", "tiny.h5", "-q"], check=True)
    done = subprocess.run([LONGHAUL, "eval", "tasks", "made.jsonl", "-m", "tiny.h5", "-n", "2", "-q", "--chat=off", "--policy", "h2o",
                           "--budget", "20%", "--json"], stdout=subprocess.PIPE, check=True)
    means = json.loads(done.stdout)["means"]
    assert {(m["task"], m["length"]) for m in means} == {(t, 3000) for t in ("vt", "niah_multikey_3", "kv", "average")}


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run([TINY, "tiny"], check=True)
    with open("hay.txt", "w", encoding="utf-8") as f:
        f.write(" ".join(f"Thing {i} of the list is number {i * 7 % 31}." for i in range(150)))
    for name, value in (("squad.json", SQUAD), ("hotpot.json", HOTPOT)):
        with open(name, "w", encoding="utf-8") as f:
            json.dump(value, f)
    check_niah()
    check_lists()
    check_documents()
    check_long_answers()
    check_seeds_and_errors()
    check_published_sample()
    check_asking()
print("make_tasks: passed")

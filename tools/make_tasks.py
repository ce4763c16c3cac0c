#!/usr/bin/env python3
"""Tasks for 'longhaul eval tasks', as JSON Lines on stdout. Prompts fill the lengths that are asked for, and are the same for the same
seed.

  tools/make_tasks.py ruler --length 4k,8k --count 20 --haystack essays/ --squad dev-v2.0.json --tokenizer m.h5 > ruler.jsonl
  tools/make_tasks.py path --length 8k --steps 40 --tokenizer m.h5 > path.jsonl     a route through a list of connections
  tools/make_tasks.py kv --length 8k --keys 8 --tokenizer m.h5 > kv.jsonl           values of keys in a JSON object

ruler: the thirteen tasks of RULER (Hsieh et al., arXiv 2404.06654; NVIDIA/RULER c3f5e3b) and the two basic ones of its second version
(NeMo-Skills, ruler2), with the published templates, distributions and lengths of answers. Python's package wonderwords has the published
words; without it a list of our own stands for them, and the task is called NAME@words. A haystack that is not PaulGrahamEssays.json makes
it NAME@text. path: path_traversal of LongProc (Ye et al., arXiv 2501.05414; princeton-pli/LongProc 78e873a) with cities of our own and a
route of a chosen length. kv: several keys of the JSON object of "Lost in the Middle" (Liu et al., arXiv 2307.03172).

Tokens are counted by 'longhaul tokenize' with the tokenizer of --tokenizer (a checkpoint, a GGUF, a Hugging Face folder or a
tokenizer.json); without it, as a quarter of the bytes. --reserve keeps tokens free for a chat format. Needs only Python's standard library.
"""
import argparse
import json
import math
import os
import random
import re
import string
import subprocess
import sys
import uuid

NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."

# Everyday words, none of which contains another.
ADJECTIVES = """
amber ancient autumn bitter blunt brave bright brisk broad broken calm careful cheerful chilly clever cloudy coastal
copper crimson crooked curious dapper distant dusty eager earnest elegant emerald empty endless faint famous fancy
fearless fierce flat foggy fragile frozen gentle giant gloomy golden graceful grateful hasty heavy hidden hollow
honest humble icy ivory jagged jolly keen lavish lazy lively lonely loyal lucky lunar marble mellow mighty misty
modest narrow nimble noble northern orange pale patient plain pleasant polished proud purple quaint quiet rapid rare
restless ripe robust rough royal rural rusty scarlet secret serene shallow sharp shiny silent silver simple sleepy
slender smooth snowy solemn spotted steady steep stormy sturdy sunny swift tall tame tender tidy tiny upright velvet
violet vivid wandering warm weary wide wild windy wise wooden yellow young
""".split()
NOUNS = """
acorn anchor apron attic bakery balcony bamboo banjo barrel basket beacon blanket blossom bonfire bottle boulder
bracelet breeze bridge bucket button cabin cactus camera candle canoe canyon carpet castle cedar cellar chapel
cherry chimney cinema clock clover coffee comet compass copy corner cottage cradle crayon cricket crystal curtain
dagger dairy desert diamond dragon drawer drum eagle elbow engine envelope fabric falcon farmer feather fence ferry
fiddle flute forest fountain fossil galaxy garage garden garlic gate glacier goblet granite guitar hammer harbour
harvest hazel helmet honey hotel island jacket jewel journal jungle kettle kitchen kite ladder lagoon lantern
leather lemon library lizard locket lumber magnet mango maple market meadow medal melody mirror mitten monsoon
mountain museum napkin needle nectar notebook oak oasis ocean office olive onion orchard oven oyster paddle palace
parcel parrot pasture pebble pencil pepper piano pickle pillow pirate planet pocket poem pond portrait pottery
prairie pumpkin puzzle quarry quilt rabbit radio railway raven ribbon river robin rocket saddle sailor salmon sandal
satchel saucer scarf school scissors shadow shelter shovel signal sketch spider spoon statue stove street sugar
summit table teapot temple theatre thicket thunder ticket timber tower tractor trumpet tunnel turnip umbrella uncle
vase village violin volcano wagon walnut willow window winter wizard zipper
""".split()

def fail(text):
    sys.exit(f"make_tasks.py: {text}")


# ---- words, texts and documents ----

def published_words():
    """The lists of the package wonderwords (nouns, adjectives, verbs), or None."""
    try:
        from wonderwords.random_word import _get_words_from_text_file as words
    except ImportError:
        return None
    return [words(name) for name in ("nounlist.txt", "adjectivelist.txt", "verblist.txt")]


class Words:
    def __init__(self):
        lists = published_words()
        self.published = lists is not None
        nouns, adjectives, verbs = lists or (NOUNS, ADJECTIVES, [])
        self.compounds = sorted({f"{a}-{n}" for a in adjectives for n in nouns})
        self.plain = sorted(set(nouns + adjectives + verbs))


def read_haystack(path):
    """Words of a file, of the '*.txt' and '*.md' of a folder, or of RULER's PaulGrahamEssays.json."""
    if os.path.isdir(path):
        names = sorted(n for n in os.listdir(path) if n.lower().endswith((".txt", ".md", ".markdown")) and n[0] != ".")
        if not names:
            fail(f"the folder '{path}' of '--haystack' has no *.txt or *.md")
        text = "\n\n".join(open(os.path.join(path, n), encoding="utf-8", errors="replace").read() for n in names)
    else:
        text = open(path, encoding="utf-8", errors="replace").read()
        if path.endswith(".json"):
            text = json.loads(text)["text"]
    words = text.split()
    return words if words else fail(f"'{path}' of '--haystack' has no words")


def read_squad(path):
    """Documents, and questions as (question, answers, own documents, related documents)."""
    articles = json.load(open(path, encoding="utf-8"))
    articles = articles.get("data", []) if isinstance(articles, dict) else []
    documents = sorted({p["context"] for a in articles for p in a["paragraphs"]})
    place = {d: i for i, d in enumerate(documents)}
    questions = []
    for article in articles:
        of_article = [place[p["context"]] for p in article["paragraphs"]]
        for paragraph in article["paragraphs"]:
            own = place[paragraph["context"]]
            for q in paragraph["qas"]:
                if not q.get("is_impossible") and q["answers"]:
                    questions.append((q["question"], [a["text"] for a in q["answers"]], [own],
                                      list(dict.fromkeys(i for i in of_article if i != own))))
    return (documents, questions) if questions else fail(f"'{path}' has no question with an answer: it is not SQuAD's file")


def read_hotpotqa(path):
    records = json.load(open(path, encoding="utf-8"))
    records = records if isinstance(records, list) else []
    texts = [[f"{title}\n{''.join(sentences)}" for title, sentences in r["context"]] for r in records]
    documents = sorted({t for all_of_it in texts for t in all_of_it})
    place = {d: i for i, d in enumerate(documents)}
    questions = [(r["question"], [r["answer"]], [place[t] for t in own], []) for r, own in zip(records, texts)]
    return (documents, questions) if questions else fail(f"'{path}' has no question with an answer: it is not HotpotQA's file")


# ---- tasks: functions of (random numbers, units of haystack, maximum length) that make a record ----

def new_uuid(draw):
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def sentences_of(words):
    """A sentence ends with '.', '!' or '?', and closing quotes and brackets."""
    out, begin = [], 0
    for i, word in enumerate(words):
        if re.search(r"[.!?][\"')\]”’]*$", word) or i + 1 == len(words):
            out.append(" ".join(words[begin:i + 1]))
            begin = i + 1
    return out


def in_lines(draw, lines, inserted):
    """The lines, with others in their order before distinct ones that are drawn."""
    places = sorted(draw.sample(range(len(lines)), len(inserted)))
    for number, (place, line) in enumerate(zip(places, inserted)):
        lines.insert(place + number, line)
    return "\n".join(lines)


class Niah:
    """Needle in a haystack (niah.py): `keys` keys with `values` values each, of which `queries` are asked for."""
    max_new, metric = 128, "string-match-all"

    def __init__(self, hay, key="words", value="numbers", keys=1, values=1, queries=1, version=1):
        self.hay, self.key, self.value, self.version = hay, key, value, version
        self.keys, self.values, self.queries = keys, values, queries
        self.least = keys * values

    def draw_value(self, draw):
        if self.value == "uuids":
            return new_uuid(draw)
        digits = 7 if self.version == 1 else 10
        return str(draw.randint(10**(digits - 1), 10**digits - 1))

    def needle(self, key, value):
        return f"One of the special magic {self.value} for {key} is: {value}."

    def make(self, draw, units, sources):
        def new_key():
            return new_uuid(draw) if self.key == "uuids" else draw.choice(sources.words.compounds)

        keys, others = [], []
        while len(keys) < self.keys:
            keys += [key for key in [new_key()] if key not in keys]
        while self.hay == "needle" and len(others) * self.values < units:
            others += [key for key in [new_key()] if key not in keys]
        values = {k: [self.draw_value(draw) for _ in range(self.values)] for k in keys}
        needles = [self.needle(k, v) for k in keys for v in values[k]]
        draw.shuffle(needles)
        if self.hay == "essay":
            context = self.in_essay(draw, sources.haystack, units, needles)
        else:
            lines = [self.needle(others[i // self.values], self.draw_value(draw)) for i in range(units)] \
                if self.hay == "needle" else [NOISE] * units
            draw.shuffle(lines)
            context = in_lines(draw, lines, needles)
        asked = draw.sample(keys, self.queries)
        query = ", ".join(asked[:-1]) + ", and " + asked[-1] if len(asked) > 1 else asked[0]
        return self.record(context, query, [v for k in asked for v in values[k]])

    def in_essay(self, draw, words, units, needles):
        repeated = (words * (units // len(words) + 1))[:units]
        sentences = sentences_of(repeated)
        depths = sorted(draw.sample([round(i * 100 / 39) for i in range(40)], len(needles)))
        ends = [0] + [int(len(sentences) * (d / 100)) for d in depths] + [len(sentences)]
        parts = []
        for i in range(1, len(ends)):
            parts.append(" ".join(sentences[ends[i - 1]:ends[i]]))
            parts += needles[i - 1:i]
        return " ".join(parts)

    def record(self, context, query, answers):
        one, kind = len(answers) == 1, self.value[:-1] if len(answers) == 1 else self.value
        them = "them" if self.version == 2 and not one else "it"
        head = f"{'A' if one else 'Some'} special magic {kind} {'is' if one else 'are'} hidden within the following text. " \
               f"Make sure to memorize {them}. I will quiz you about the {kind} afterwards.\n"
        question = f"What {'is' if one else 'are all'} the special magic {kind} for {query} mentioned in the provided text?"
        prefix = f" The special magic {kind} for {query} mentioned in the provided text {'is' if one else 'are'}"
        if self.version == 2:  # question and beginning of the answer in one line of the user
            question, prefix = question + prefix, ""
        return {"context": f"{head}{context}\n", "question": question, "answer_prefix": prefix, "answers": answers}


class Tracking:
    """Variable tracking (variable_tracking.py): a chain of assignments in lines of noise, after an example."""
    max_new, metric, least = 30, "string-match-all", 5
    example_tokens, example_units = 500, None

    def chain(self, draw, letters):
        names = []
        while len(names) < 5:
            name = "".join(draw.choices(string.ascii_uppercase, k=letters))
            names += [name] if name not in names else []
        value = str(draw.randint(10000, 99998))
        lines = [f"VAR {names[0]} = {value}"] + [f"VAR {b} = VAR {a} " for a, b in zip(names, names[1:])]
        return names, value, lines

    def text(self, draw, chain, units):
        context = in_lines(draw, [NOISE] * units, chain[2])
        return f"Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{context}\n"

    def question(self, value):
        return f"Question: Find all variables that are assigned the value {value} in the text above."

    def prefix(self, value):
        return " Answer: According to the chain(s) of variable assignment in the text above, 5 variables are assigned the " \
               f"value {value}, they are: "

    def example(self, draw, chain, units):
        return self.text(draw, chain, units) + self.question(chain[1]) + self.prefix(chain[1])

    def find_example_units(self, sources):
        """As much noise as fits into the tokens of an example, and a line for each assignment at least."""
        draw = random.Random("example")
        counts = sources.count([self.example(draw, self.chain(draw, 3), units) for units in range(5, 30)])
        self.example_units = 5 + max([i for i, n in enumerate(counts) if n <= self.example_tokens], default=0)

    def make(self, draw, units, sources):
        if self.example_units is None:
            self.find_example_units(sources)
        shown = self.chain(draw, 3)
        example = self.example(draw, shown, self.example_units) + "".join(f" {name}" for name in shown[0]) + "\n\n"
        chain = self.chain(draw, 5)
        return {"context": example + self.text(draw, chain, units), "question": self.question(chain[1]),
                "answer_prefix": self.prefix(chain[1]), "answers": chain[0]}


class CommonWords:
    """Common words (common_words_extraction.py): ten words of a numbered list are more frequent than the others."""
    max_new, metric, least = 120, "string-match-all", 11
    head = "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that " \
           "appear most often.\n"
    question = "Question: What are the 10 most common words in the above list?"
    prefix = " Answer: The top 10 words that appear most often in the list are:"

    def draw_list(self, draw, sources, words, common, other):
        vocabulary = sources.words.plain if words <= len(sources.words.plain) else sources.words.compounds
        if words > len(vocabulary):
            return None
        drawn = draw.sample(vocabulary, words)
        words = drawn[:10] * common + drawn[10:] * other
        draw.shuffle(words)
        return drawn[:10], self.head + " ".join(f"{i + 1}. {w}" for i, w in enumerate(words)) + "\n"

    def make(self, draw, units, sources):
        brief = sources.length < 4096
        common, shown = self.draw_list(draw, sources, *((20, 3, 1) if brief else (40, 10, 3)))
        answer = " ".join(f"{i + 1}. {w}" for i, w in enumerate(common))
        drawn = self.draw_list(draw, sources, units, *((6, 1) if brief else (30, 3)))
        if drawn is None:
            return None
        return {"context": f"{shown}{self.question}{self.prefix} {answer}\n{drawn[1]}", "question": self.question,
                "answer_prefix": self.prefix, "answers": drawn[0]}


class FrequentWords:
    """Frequent words (freq_words_extraction.py): coded words by a zeta distribution; the first is noise."""
    max_new, metric, least = 50, "string-match-all", 32

    def make(self, draw, units, sources):
        n = max((sources.length - self.max_new) // 50, 5)
        words = ["..."]
        while len(words) < n:
            word = "".join(draw.choices(string.ascii_lowercase, k=6))
            words += [word] if word not in words[1:4] else []
        times = [int(units / (math.pi**2 / 6) / (k + 1)**2) for k in range(n)]
        text = [w for w, t in zip(words, times) for _ in range(t)]
        draw.shuffle(text)
        return {"context": "Read the following coded text and track the frequency of each coded word. Find the three most "
                           f"frequently appeared coded words. {' '.join(text)}\n",
                "question": "Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most "
                            "frequently appeared words in the above coded text?",
                "answer_prefix": " Answer: According to the coded text above, the three most frequently appeared words are:",
                "answers": words[1:4]}


class Questions:
    """Questions (qa.py): documents, among them those with the answer, in random order."""
    max_new, metric, least = 32, "string-match-part", 1
    rule = "Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n"

    def __init__(self, source):
        self.source = source

    def make(self, draw, units, sources):
        documents, questions = sources.documents[self.source]
        question, answers, own, related = questions[sources.number % len(questions)]
        units = max(units, len(own))
        if units >= len(documents):
            chosen = [i % len(documents) for i in range(units)]
        elif units - len(own) > len(related):
            others = sorted(set(range(len(documents))) - set(own) - set(related))
            chosen = own + related + draw.sample(others, units - len(own) - len(related))
        else:
            chosen = own + draw.sample(related, units - len(own))
        draw.shuffle(chosen)
        context = "\n\n".join(f"Document {i + 1}:\n{documents[d]}" for i, d in enumerate(chosen))
        return {"context": f"{self.rule}The following are given documents.\n\n{context}\n\n",
                "question": f"{self.rule}Question: {question}", "answer_prefix": " Answer:", "answers": answers}


ROUTE = """[TASK]
In a completely hypothetical world, there are a number of cities. Each city has a one-way connection to only one other city via a specific \
transit method (bus, train, plane, or ferry). Your task is to provide a route from a city to another city. You should follow the specific \
instruction provided later and output the route following the format provided in the instruction.


[IMPORTANT NOTES]
- All connections are one-way. If city A is connected to city B, you can travel from A to B, but not the other way around.
- Because each city is connected to only one other city, so there's only one possible route. To find the route, you can simply start from \
the starting city, identify the next city it's connected to, and repeat the process until you reach the destination city.
- Please follow the exact format specified below when outputting the route.


[OUTPUT FORMAT]
Please mark the route with <Route> and </Route> tags. The route should be in the following format, where one line is one step of the route:
<Route>
From <CITY_NAME>, take a <TRANSIT_METHOD> to <CITY_NAME>.
...
From <CITY_NAME>, take a <TRANSIT_METHOD> to <CITY_NAME>.
</Route>


[EXAMPLE]
In a hypothetical world, there are a number of cities. Each city has a one-way connection to only one other city via a specific transit \
method. The details of the cities are as follows:
Fort Worth is a lively city. You can travel from Fort Worth to Manchester by ferry.
Leeds is a lively city. You can travel from Leeds to London by bus.
Manchester is a lively city. You can travel from Manchester to Indianapolis by plane.
Houston is a lively city. You can travel from Houston to London by ferry.
Charlotte is a lively city. You can travel from Charlotte to Charlotte by bus.
London is a lively city. You can travel from London to San Antonio by train.
San Antonio is a lively city. You can travel from San Antonio to Kitchener by train.
Seattle is a lively city. You can travel from Seattle to London by train.
Indianapolis is a lively city. You can travel from Indianapolis to Houston by ferry.

Now find the route from Manchester to Kitchener based on the information above.

<Route>
From Manchester, take a plane to Indianapolis.
From Indianapolis, take a ferry to Houston.
From Houston, take a ferry to London.
From London, take a train to San Antonio.
From San Antonio, take a train to Kitchener.
</Route>


[PROBLEM]
In a hypothetical world, there are a number of cities. Each city has a one-way connection to only one other city via a specific transit \
method. The details of the cities are as follows:
"""
REMINDERS = """ based on the information above. Some reminders:
- All connections are one-way. You can solve the problem by iteratively finding the next city to travel to until you reach the destination \
city.
- Follow the specific format for the route output. Mark the route with <Route> and </Route> tags.

"""


class Route:
    """path_traversal of LongProc: every city has one connection, and the answer names every step of the only route."""
    max_new, metric, least = None, "leading-lines", 1

    def __init__(self, steps):
        self.steps = steps

    def make(self, draw, units, sources):
        cities = self.steps + 1 + units
        if cities > len(ADJECTIVES) * len(NOUNS):
            return None
        names = draw.sample([f"{a} {n}".title() for a in ADJECTIVES for n in NOUNS], cities)
        methods = [draw.choice(["bus", "train", "plane", "ferry"]) for _ in range(cities)]
        others = [draw.randrange(cities - 1) for _ in range(cities)]  # any city but its own
        targets = [i + 1 if i < self.steps else other + (other >= i) for i, other in enumerate(others)]
        order = [i for i in range(cities) if i != self.steps]  # the destination has no connection
        draw.shuffle(order)
        lines = [f"{names[i]} is a lively city. You can travel from {names[i]} to {names[targets[i]]} by {methods[i]}."
                 for i in order]
        steps = [f"From {names[i]}, take a {methods[i]} to {names[i + 1]}." for i in range(self.steps)]
        return {"context": ROUTE + "\n".join(lines) + "\n\n",
                "question": f"Now find the route from {names[0]} to {names[self.steps]}{REMINDERS}",
                "answer_prefix": "<Route>\n", "answers": steps}


class KeyValues:
    """A JSON object of UUIDs; the answer lists the values of several keys."""
    max_new, metric, least = None, "string-match-all", 1

    def __init__(self, keys):
        self.keys = keys

    def make(self, draw, units, sources):
        pairs = [(new_uuid(draw), new_uuid(draw)) for _ in range(self.keys + units)]
        asked, order = pairs[:self.keys], pairs[:]
        draw.shuffle(order)
        data = ",\n ".join(f'"{k}": "{v}"' for k, v in order)
        quoted = ", ".join(f'"{k}"' for k, _ in asked)
        return {"context": "Extract the values corresponding to the specified keys in the JSON object below.\n\nJSON data:\n"
                           f"{{{data}}}\n\n",
                "question": f"Keys: {quoted}\n", "answer_prefix": "Corresponding values:", "answers": [v for _, v in asked]}


RULER = {
    "niah_single_1": Niah("noise"),
    "niah_single_2": Niah("essay"),
    "niah_single_3": Niah("essay", value="uuids"),
    "niah_multikey_1": Niah("essay", keys=4),
    "niah_multikey_2": Niah("needle"),
    "niah_multikey_3": Niah("needle", key="uuids", value="uuids"),
    "niah_multivalue": Niah("essay", values=4),
    "niah_multiquery": Niah("essay", keys=4, queries=4),
    "vt": Tracking(),
    "cwe": CommonWords(),
    "fwe": FrequentWords(),
    "qa_1": Questions("squad"),
    "qa_2": Questions("hotpotqa"),
    "mk_niah_basic": Niah("needle", version=2),
    "mv_niah_basic": Niah("needle", values=4, version=2),
}


# ---- lengths ----

class Sources:
    """What tasks are made of, and the prompt that is being made: its maximum length and its number."""

    def __init__(self, options):
        self.options = options
        self.words = Words()
        self.haystack = read_haystack(options.haystack) if getattr(options, "haystack", None) else None
        self.own_text = self.haystack and not options.haystack.endswith("PaulGrahamEssays.json")
        self.documents = {}
        if getattr(options, "squad", None):
            self.documents["squad"] = read_squad(options.squad)
        if getattr(options, "hotpotqa", None):
            self.documents["hotpotqa"] = read_hotpotqa(options.hotpotqa)

    def count(self, texts):
        """Tokens of every text."""
        if not self.options.tokenizer:
            return [-(-len(t.encode()) // 4) for t in texts]
        lines = "".join(json.dumps(t) + "\n" for t in texts)
        command = [self.options.longhaul, "tokenize", "-q", "-m", self.options.tokenizer, "--jsonl"]
        done = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        return [line.count(b",") + (line != b"[]") for line in done.stdout.splitlines()]


def text_of(record):
    return record["context"] + record["question"] + record["answer_prefix"]


class Fitter:
    """Makes the records of one task and length."""

    def __init__(self, name, task, length, sources):
        self.name, self.task, self.length, self.sources = name, task, length, sources

    def make(self, number, units):
        """The record of a number with this haystack; None if there are too few words for it."""
        self.sources.length, self.sources.number = self.length, number
        seed = f"{self.name} {self.length} {self.sources.options.seed + number}"
        record = self.task.make(random.Random(seed), units, self.sources)
        return record and {"task": self.label(), **record, "metric": self.task.metric, "nominal_length": self.length}

    def label(self):
        t, s = self.task, self.sources
        essay = isinstance(t, Niah) and t.hay == "essay"
        own_words = not s.words.published and (isinstance(t, CommonWords) or isinstance(t, Niah) and t.key == "words")
        return self.name + ("@text" if essay and s.own_text else "@words" if own_words and not essay else "")

    def sizes(self, records):
        """Tokens of prompt and answer; sets the maximum of the answer: the task's, or a quarter more than the right one."""
        counts = self.sources.count([text_of(r) for r in records])
        for r in records:
            r["max_new_tokens"] = self.task.max_new
        if self.task.max_new is None:
            joined = {"leading-lines": "\n", "string-match-all": ", "}[self.task.metric]
            for r, n in zip(records, self.sources.count([" " + joined.join(r["answers"]) for r in records])):
                r["max_new_tokens"] = n * 5 // 4 + 16
        return [n + r["max_new_tokens"] + self.sources.options.reserve for n, r in zip(counts, records)]

    def fits(self, units):
        """True for every number of units with which the first prompt fits."""
        records = [self.make(0, u) for u in units]
        sizes = iter(self.sizes([r for r in records if r]))
        return [bool(r) and next(sizes) <= self.length for r in records]

    def find_units(self):
        low, high = self.task.least, None
        if not self.fits([low])[0]:
            fail(f"the shortest prompt of task '{self.name}' and an answer do not fit into '--length {self.length}'")
        while high is None:
            tries = [low * 2**i for i in range(1, 5)]
            good = self.fits(tries)
            low = max([u for u, ok in zip(tries, good) if ok], default=low)
            high = min([u for u, ok in zip(tries, good) if not ok], default=None)
        while low + 1 < high:
            tries = sorted({low + (high - low) * i // 9 for i in range(1, 9)} - {low})
            good = self.fits(tries)
            low = max([u for u, ok in zip(tries, good) if ok], default=low)
            high = min([u for u, ok in zip(tries, good) if not ok and u > low], default=high)
        return low

    def records(self, count):
        units = [self.find_units()] * count
        records, late = [None] * count, list(range(count))
        while late:
            for i in late:
                records[i] = self.make(i, units[i])
            sizes = self.sizes([records[i] for i in late])
            late = [i for i, size in zip(late, sizes) if size > self.length]
            for i in late:  # a little less haystack, as published
                if units[i] == self.task.least:
                    fail(f"prompt {i} of task '{self.name}' does not fit into '--length {self.length}'")
                units[i] = max(units[i] - 1 - units[i] // 64, self.task.least)
        return records


def lengths_of(text):
    out = []
    for item in text.split(","):
        found = re.fullmatch(r"(\d+)([kM]?)", item)
        if not found or int(found.group(1)) == 0:
            fail(f"'--length' got '{item}', it must be comma-separated numbers of tokens, such as 2000 or 8k (of 1024)")
        out.append(int(found.group(1)) * {"": 1, "k": 1024, "M": 1024**2}[found.group(2)])
    return out


def ruler_tasks(options):
    """The tasks of the list, or all whose files are given."""
    needs = {"essay": options.haystack, "squad": options.squad, "hotpotqa": options.hotpotqa}
    options_of = {"essay": "--haystack", "squad": "--squad", "hotpotqa": "--hotpotqa"}
    chosen, missing = {}, []
    for name in options.task.split(",") if options.task else RULER:
        if name not in RULER:
            fail(f"'--task' got '{name}', it must be a list of: {', '.join(RULER)}")
        need = getattr(RULER[name], "hay", getattr(RULER[name], "source", None))
        if need not in needs or needs[need]:
            chosen[name] = RULER[name]
        elif options.task:
            fail(f"task '{name}' needs '{options_of[need]}'")
        else:
            missing.append(f"{name} ({options_of[need]})")
    if missing:
        print(f"left out, because their files are not given: {', '.join(missing)}", file=sys.stderr)
    return chosen


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="kind", required=True, metavar="ruler|path|kv")
    kinds = {name: commands.add_parser(name) for name in ("ruler", "path", "kv")}
    for kind in kinds.values():
        kind.add_argument("--length", default="4096", help="tokens of prompt and answer, such as 4k,8k (default: 4096)")
        kind.add_argument("--count", type=int, default=10, help="prompts of every task and length (default: 10)")
        kind.add_argument("--seed", type=int, default=42, help="seed of the first prompt (default: 42)")
        kind.add_argument("--tokenizer", help="checkpoint, GGUF, Hugging Face folder or tokenizer.json")
        kind.add_argument("--reserve", type=int, default=0, metavar="TOKENS", help="tokens of a chat format")
        kind.add_argument("--longhaul", default=os.environ.get("LONGHAUL", os.path.join(here, "build", "longhaul")),
                          help="program that counts tokens (default: $LONGHAUL, else build/longhaul)")
    kinds["ruler"].add_argument("--task", help=f"comma-separated names (default: all whose files are given): {', '.join(RULER)}")
    kinds["ruler"].add_argument("--haystack", help="text in place of the published essays: a file or a folder")
    kinds["ruler"].add_argument("--squad", help="the JSON file of SQuAD 2.0, for qa_1 (published: dev-v2.0.json)")
    kinds["ruler"].add_argument("--hotpotqa", help="the JSON file of HotpotQA, for qa_2 (published: hotpot_dev_distractor_v1.json)")
    kinds["path"].add_argument("--steps", type=int, default=40, help="steps of the route (default: 40)")
    kinds["kv"].add_argument("--keys", type=int, default=8, help="keys whose values are asked for (default: 8)")
    options = parser.parse_args()
    tasks = ruler_tasks(options) if options.kind == "ruler" else \
        {"path": Route(options.steps)} if options.kind == "path" else {"kv": KeyValues(options.keys)}
    sources = Sources(options)
    for length in lengths_of(options.length):
        for name, task in tasks.items():
            for record in Fitter(name, task, length, sources).records(options.count):
                print(json.dumps(record, ensure_ascii=False))


if __name__ == "__main__":
    main()

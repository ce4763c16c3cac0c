#!/usr/bin/env python3
"""Chat templates as transformers renders them (jinja2, ImmutableSandboxedEnvironment).

    tools/render_templates.py write                 expected.jsonl of tests/text/template for its *.jinja, expected.jsonl
                                                    and changed.jsonl of tests/text/chat for those of src/text/chat
    tools/render_templates.py compare FOLDER [--longhaul build/longhaul] -m TOKENIZER
                                                    every *.jinja of a folder, through `longhaul tokenize`, byte for byte

The clock of a template is a constant of longhaul's, 26 July 2024; templates that ask whether there is one are told no."""
import argparse
import datetime
import glob
import json
import os
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FORMATS = os.path.join(ROOT, "src", "text", "chat")
CONSTRUCTS = os.path.join(ROOT, "tests", "text", "template")
CHATS = os.path.join(ROOT, "tests", "text", "chat")

# What people put before and after the template of a model.
CHANGES = [
    ("{{ 'ZZ' }}", ""),
    ("", "{{ 'ZZ' }}"),
    ("{%- set messages = messages[-1:] -%}", ""),
    ("{%- filter upper -%}", "{%- endfilter -%}"),
    ("{%- set messages = [{'role': 'system', 'content': 'Be brief.'}] + messages -%}", ""),
    ("{%- set add_generation_prompt = false -%}", ""),
    ("{%- set enable_thinking = false -%}", ""),
    ("{%- set date_string = '26 Nov 2026' -%}", ""),
]


class Generation(jinja2.ext.Extension):
    """{% generation %}: what the assistant generates; its body is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Refused(Exception):
    pass


def refuse(message):
    raise Refused(message)


def source_of(path):
    with open(path, newline="", encoding="utf-8") as f:
        return f.read()


def template_of(source):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    if "strftime_now is " not in source:
        env.globals["strftime_now"] = lambda form: datetime.datetime(2024, 7, 26).strftime(form)
    return env.from_string(source)


def message(role):
    return lambda text: {"role": role, "content": text}


def conversations():
    user, assistant, system, tool = map(message, ("user", "assistant", "system", "tool"))
    lists = [
        [user("Hello!")],
        [system("You are terse."), user("What is 2 + 2?")],
        [user("Hi"), assistant("Hello, how can I help?"), user("Tell me a joke.")],
        [system(""), user(" \u3000spaces \n\n"), assistant("\n trimmed? \n"),
         user("line\n\n\ttab <|im_end|> {{ x }} é 漢字 'q\" \\ ")],
        [system("sys"), user("q"), assistant("<think>\nhm\n</think>\n\nanswer"), user("next"),
         assistant("<think>more</think>done"), user("last?")],
        [user("q"), assistant("a")],
        [user("q"), tool('{"x": 1}'), assistant("a"), user("<tool>b</tool>")],
        [assistant("first"), user("q")],
        [user("a"), user("b")],
        [message("someone")("x")],
    ]
    return [(m, asks) for m in lists for asks in (True, False)]


def render(template, messages, asks, bos, eos):
    """(text, None), or (None, the template's own message), or (None, "") where Python fails in another way."""
    try:
        return template.render(messages=messages, add_generation_prompt=asks, tools=None, documents=None,
                               bos_token=bos, eos_token=eos), None
    except Refused as refused:
        return None, str(refused)
    except Exception:  # what Python says then is its own affair
        return None, ""


def row(path, messages, asks, text, error, **members):
    line = {"format": os.path.basename(path)[:-6], **members, "messages": messages, "add_generation_prompt": asks}
    line.update({"expected": text} if text is not None else {"error": error})
    return line


def templates(folder):
    return [(path, source_of(path)) for path in sorted(glob.glob(os.path.join(folder, "*.jinja")))]


def renderings(folder):
    for path, source in templates(folder):
        template = template_of(source)
        for messages, asks in conversations():
            yield row(path, messages, asks, *render(template, messages, asks, "<s>", "</s>"))


def changed_renderings(folder):
    """Of one conversation, where the change makes a difference."""
    user, assistant = map(message, ("user", "assistant"))
    messages = [user("Hi"), assistant("Hello"), user("Why <|im_end|>?")]
    for path, source in templates(folder):
        unchanged = render(template_of(source), messages, True, "<s>", "</s>")
        for before, after in CHANGES:
            changed = render(template_of(before + source + after), messages, True, "<s>", "</s>")
            if changed != unchanged:
                yield row(path, messages, True, *changed, before=before, after=after)


def write():
    for rows, folder, name in ((renderings(CONSTRUCTS), CONSTRUCTS, "expected"), (renderings(FORMATS), CHATS, "expected"),
                               (changed_renderings(FORMATS), CHATS, "changed")):
        count = 0
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as out:
            for line in rows:
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
        print(f"{out.name}: {count} renderings")


def compare(folder, longhaul, tokenizer):
    lines = "".join(json.dumps({"messages": m, "add_generation_prompt": asks}) + "\n" for m, asks in conversations())
    agree = differ = unread = 0
    special = {}
    for name in ("bos", "eos"):
        special[name] = ""
    with open(os.path.join(tokenizer, "tokenizer_config.json"), encoding="utf-8") as f:
        config = json.load(f)
    for name in special:
        token = config.get(name + "_token") or ""
        special[name] = token["content"] if isinstance(token, dict) else token
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        try:
            template = template_of(source_of(path))
        except jinja2.TemplateSyntaxError as error:
            print(f"{path}: jinja2 does not read it: {error}")
            unread += 1
            continue
        run = subprocess.run([longhaul, "tokenize", "-m", tokenizer, "--chat", "--chat-template", path, "--jsonl", "--text"],
                             input=lines, capture_output=True, text=True, check=False)
        got = [json.loads(line) for line in run.stdout.splitlines()]
        for i, (messages, asks) in enumerate(conversations()):
            want, _ = render(template, messages, asks, special["bos"], special["eos"])
            if i < len(got) and got[i] == want:
                agree += 1
            else:
                differ += 1
                print(f"{path}, conversation {i}:\n  jinja2   {want!r}\n  longhaul "
                      f"{got[i] if i < len(got) else run.stderr.strip()!r}")
    print(f"{agree} renderings agree, {differ} differ, {unread} templates unread")
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    tasks.add_parser("write")
    task = tasks.add_parser("compare")
    task.add_argument("folder")
    task.add_argument("--longhaul", default="build/longhaul")
    task.add_argument("-m", dest="tokenizer", required=True, help="folder with tokenizer.json and tokenizer_config.json")
    a = parser.parse_args()
    if a.task == "write":
        return write()
    return compare(a.folder, a.longhaul, a.tokenizer)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The structs of longhaul/library.py have the sizes and offsets that a C compiler gives those of longhaul.h, and the package
declares every function of the header: check_structs.py CC INCLUDE FOLDER."""
import os
import re
import subprocess
import sys

import longhaul
from longhaul import library

compiler, include, folder = sys.argv[1:4]
with open(os.path.join(os.path.dirname(library.__file__), "..", "pyproject.toml"), encoding="utf-8") as project:
    assert f'\nversion = "{longhaul.__version__}"\n' in project.read()
assert longhaul.__version__ == library.lib.lh_version().decode()
assert library.SONAME == "liblonghaul.so." + longhaul.__version__.rsplit(".", 1)[0]
lines = []
for name, struct in library.STRUCTS.items():
    lines.append(f'printf("{name} . %zu\\n", sizeof({name}));')
    lines += [f'printf("{name} {field[0]} %zu\\n", offsetof({name}, {field[0]}));' for field in struct._fields_]
source = os.path.join(folder, "structs.c")
with open(source, "w") as c:
    c.write("#include <longhaul/longhaul.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(lines) + "\n}\n")
subprocess.run([compiler, "-std=c17", "-Wall", "-Werror", "-I", include, source, "-o", source[:-2]], check=True)
for line in subprocess.run([source[:-2]], check=True, capture_output=True, text=True).stdout.splitlines():
    name, field, number = line.split()
    struct = library.STRUCTS[name]
    own = library.ctypes.sizeof(struct) if field == "." else getattr(struct, field).offset
    assert own == int(number), f"{name}.{field} is at {number} in longhaul.h and at {own} in library.py"

with open(os.path.join(include, "longhaul", "longhaul.h")) as header:
    text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
declared = set(re.findall(r"\b(lh_[a-z0-9_]+)\(", text)) - {"lh_struct"}
known = set(library._CALLS) | set(library._FUNCTIONS)
left_out = {"lh_status_name", "lh_session_step"}  # errors are classes; step_together is the same call
assert declared - known == left_out, f"longhaul.h has {declared - known - left_out}, which library.py does not declare"
assert known <= declared, f"library.py declares {known - declared}, which longhaul.h does not have"

#!/usr/bin/env bash
# What the loader is told by the built files: binaries.sh FILE…
# No element of RUNPATH may be empty or relative, which the loader takes for the current folder: a program must not load a
# library that lies beside somebody's model.
set -euo pipefail
fail() {
    printf 'binaries.sh: %s\n' "$*" >&2
    exit 1
}

for file in "$@"; do
    dynamic=$(readelf -dW "$file")
    # ":" at the end makes the last element one of several, so that an empty one is not lost.
    path=$(sed -nE 's/.*\((RUNPATH|RPATH)\).*\[(.*)\]$/\2:/p' <<<"$dynamic")
    while read -r -d : element; do
        case $element in
        /* | "\$ORIGIN"*) ;;
        *) fail "$file: RUNPATH '${path%:}' has the element '$element', which depends on the current folder" ;;
        esac
    done <<<"$path"
done

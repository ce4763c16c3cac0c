#!/usr/bin/env bash
# RUNPATH and hardening of program and library: binaries.sh HARDENING FILE…
# No element of RUNPATH may be empty or relative, which the loader takes for the current folder: a program must not load a
# library that lies beside somebody's model. HARDENING: what the build has, such as relro,stack-protector,fortify,cet.
set -euo pipefail
hardening=$1
shift
fail() {
    printf 'binaries.sh: %s\n' "$*" >&2
    exit 1
}

# has FILE NAME PATTERN COMMAND…: the output of the command on the file matches.
has() {
    local file=$1 name=$2 pattern=$3 text
    shift 3
    text=$("$@" "$file")
    grep -qE -- "$pattern" <<<"$text" || fail "$file is built without $name: '$*' shows no '$pattern'"
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
    for name in ${hardening//,/ }; do
        case $name in
        relro)
            has "$file" "$name" GNU_RELRO readelf -lW
            has "$file" "$name" 'BIND_NOW|FLAGS_1.* NOW' readelf -dW
            ;;
        stack-protector) has "$file" "$name" __stack_chk_fail readelf --dyn-syms -W ;;
        fortify) has "$file" "$name" '__(mem|str|snprintf|fprintf|vsnprintf|printf)[a-z]*_chk' readelf --dyn-syms -W ;;
        # The notes of the file lack it where the C library's start files do: a function of ours tells.
        cet) has "$file" "$name" endbr64 objdump -d --disassemble=lh_world_open ;;
        *) fail "unknown hardening '$name'" ;;
        esac
    done
    [[ $(readelf -hW "$file") =~ Type:\ +DYN ]] || fail "$file is not position-independent"
done

#!/usr/bin/env bash
# Installs a build into an empty folder, and builds and runs a program against what is there: install.sh BUILD COMPILER
set -euo pipefail
build=$1 compiler=$2
prefix=$(mktemp -d /tmp/longhaul-install-XXXXXX)
trap 'rm -rf "$prefix"' EXIT

cmake --install "$build" --prefix "$prefix" >/dev/null
[ -s "$prefix/share/man/man1/longhaul.1" ]
[ -s "$prefix/share/bash-completion/completions/longhaul" ]
"$prefix/bin/longhaul" --version

config=$(dirname "$(find "$prefix" -name longhaul.pc)")
flags() { PKG_CONFIG_PATH=$config pkg-config "$@" longhaul; }
cat >"$prefix/try.c" <<'C'
#include <longhaul.h>
#include <stdio.h>

int main(void)
{
    lh_policy policy;
    lh_status st = lh_policy_resolve(&policy, &(lh_policy_options){.policy = "snapkv", .budget = "20%"});
    printf("%s: %s keeps %lld of 1000\n", lh_version(), policy.name, (long long)lh_policy_entries(&policy, 1000));
    return st;
}
C
# shellcheck disable=SC2046
"$compiler" -std=c17 -Wall -Wextra -Werror "$prefix/try.c" -o "$prefix/try" $(flags --cflags --libs)
answer=$(LD_LIBRARY_PATH=$(flags --variable=libdir) "$prefix/try")
echo "$answer"
[[ $answer == *"snapkv keeps 200 of 1000" ]]

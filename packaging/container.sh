#!/usr/bin/env bash
# Inside a container of Debian 12 (or a later one, or Ubuntu 24.04), as root, in a copy of the sources: installs what
# building needs, builds, installs under /usr/local, and removes what running does not need. With a CUDA toolkit in the
# container the CUDA backend is built, too. Containerfile and longhaul.def call it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
build=$(mktemp -d)

kept=$(apt-mark showmanual)
apt-get update
apt-get install -y --no-install-recommends build-essential cmake ninja-build pkg-config libopenmpi-dev openmpi-bin \
    libhdf5-openmpi-dev libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libdnnl-dev libedit-dev
cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D LH_TESTS=OFF -D LH_CUDA=AUTO
cmake --build "$build"
cmake --install "$build"
ldconfig

# Only what was there before, mpirun with what Open MPI loads by itself, and the packages of the libraries that the
# program is linked with stay.
libraries=$(ldd /usr/local/bin/longhaul /usr/local/lib/liblonghaul.so | awk '/=> \// { sub("^/(usr/)?", "", $3); print "*/" $3 }' | sort -u)
mapfile -t needed < <(xargs dpkg-query --search <<<"$libraries" 2>/dev/null | cut -d : -f 1 | sort -u)
apt-mark auto '.*' >/dev/null
# shellcheck disable=SC2086 # words
apt-mark manual $kept openmpi-bin "${needed[@]}" >/dev/null
apt-get purge -y --auto-remove -o APT::AutoRemove::RecommendsImportant=false
apt-get clean
rm -rf "$build" /var/lib/apt/lists/*
longhaul info

#!/usr/bin/env bash
# The Python package on 1 to 3 ranks: python.sh PROGRAM LIBRARY TINY_FOLDER SOURCE COMPILER MPIEXEC. Ends with 77, skipped,
# where there is no python3 with numpy.
set -euo pipefail
program=$1 library=$2 tiny_folder=$3 source=$4 compiler=$5 mpiexec=$6
here=$(dirname "${BASH_SOURCE[0]}")
folder=$(mktemp -d /tmp/longhaul-python-XXXXXX)
trap 'rm -rf "$folder"' EXIT
export PYTHONPATH=$source/python LONGHAUL_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1
python=$(command -v python3) # mpiexec, called by its path, puts its own folder first into PATH
"$python" -c 'import numpy' 2>/dev/null || {
    echo "python3 with numpy is needed: apt-get install python3-numpy python3-h5py"
    exit 77
}
"$python" "$here/check_structs.py" "$compiler" "$source/include" "$folder"
(cd "$folder" && "$tiny_folder" chatml && "$program" import chatml -o chatml.h5 -q)
"$program" import --random tiny -o "$folder/tiny.h5" -q
for ranks in 1 2 3; do
    "$mpiexec" -n "$ranks" "$python" "$here/check_engine.py" "$program" "$folder/tiny.h5" "$folder/chatml.h5" "$folder" ||
        { echo "$ranks ranks"; exit 1; }
done
# a rank that fails alone ends the others; without a launcher there is no MPI
cat >"$folder/alone.py" <<END
import sys
import longhaul
engine = longhaul.Engine("$folder/tiny.h5")
if engine.rank == 1:
    raise ValueError("alone")
engine.complete("a text", max_new=4)
print("without MPI")
END
for way in 'raise ValueError("alone")' 'sys.exit("alone")'; do
    sed "s/raise ValueError(\"alone\")/$way/" "$folder/alone.py" >"$folder/way.py"
    if timeout 60 "$mpiexec" -n 2 "$python" "$folder/way.py" >"$folder/said" 2>&1 || [ $? = 124 ] || ! grep -q alone "$folder/said"; then
        echo "a rank that ends alone, $way: $(cat "$folder/said")"
        exit 1
    fi
done
[ "$("$python" "$folder/alone.py")" = "without MPI" ]
"$python" "$here/check_files.py" "$program" "$folder/tiny.h5" "$folder" "$mpiexec"
"$python" "$here/check_triattention.py" "$source/examples/triattention.py" "$folder"
# the same statistics from a trace, the same answer on one rank and two
if "$python" -c 'import h5py' 2>/dev/null; then
    head -c 400 "$here/python.sh" >"$folder/text"
    "$program" trace -m "$folder/chatml.h5" -f "$folder/text" --chat=off -n 1 --trace-rows 4096 -o "$folder/t.h5" -q
    "$python" "$source/examples/triattention.py" "$folder/t.h5" "$folder/chatml.npz"
    for ranks in 1 2; do
        TRIATTENTION=$folder/chatml.npz "$mpiexec" -n "$ranks" "$program" generate -m "$folder/chatml.h5" -f "$folder/text" --chat=off \
            -n 12 --ignore-eos --deterministic -q --budget 40 --policy "$source/examples/triattention.py --evict every:4" >"$folder/said.$ranks"
    done
    cmp "$folder/said.1" "$folder/said.2"
fi

#!/usr/bin/env bash
# shellcheck disable=SC2317 # functions that law and wait_for call
# The scripts of jobs/ on a real Slurm of four virtual nodes (cluster.sh): a run on all of them, its end and its return
# after a signal and after preemption; a trace, an evaluation, an array. A minute, most of it waiting.
#   jobs.sh LONGHAUL [long]   # long: also a node that fails, a time limit, and 128k tokens
# Prints a line and ends with code 77 where there is no Slurm.
set -euo pipefail
longhaul=$(readlink -f "$1") long=${2:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
jobs=$(cd "$here/../../jobs" && pwd -P)
PATH=$PATH:/usr/sbin:/sbin

skip() {
    echo "skipped: $*"
    exit 77
}
for program in slurmctld slurmd srun sbatch scontrol; do
    command -v "$program" >/dev/null || skip "Slurm is not installed (Debian: slurmctld slurmd slurm-client)"
done
grep -qw pmix <<<"$(srun --mpi=list 2>&1)" || [ -e /usr/lib/"$(uname -m)"-linux-gnu/slurm-wlm/mpi_pmix.so ] || skip "this Slurm has no PMIx"
unshare --uts --mount true 2>/dev/null ||
    skip "virtual nodes need root and namespaces, which this machine or container refuses"
grep -q 'libmpi\.so' <<<"$(ldd "$longhaul")" || skip "PMIx of this Slurm starts programs of Open MPI, and longhaul has another MPI"

folder=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-slurm-XXXXXX")
trap '"$here/cluster.sh" down "$folder/slurm"; rm -rf "$folder"' EXIT
trap 'exit 143' INT TERM # or bash would leave without it
export SLURM_CONF=$folder/slurm/slurm.conf LONGHAUL=$longhaul JOB_SMALL=1
# The nodes reach each other by the loopback interface alone, through libfabric: Open MPI's own TCP (btl tcp) of 4.1.4 crashes
# in MPI_Init now and then where ranks wait for processors (docs/troubleshooting.md).
export OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mtl_ofi_provider_include=tcp FI_TCP_IFACE=lo OMPI_MCA_oob_tcp_if_include=lo
unset "${!SLURM_JOB@}"
long_bytes=130900 # as many tokens of a tokenizer of bytes; the chat and the answer go up to 131,072
started=$SECONDS failed=0

say() { printf '%3d s  %s\n' "$((SECONDS - started))" "$*"; }

# law TEXT COMMAND…: the command must succeed.
law() {
    local text=$1
    shift
    if "$@" >/dev/null 2>&1; then
        say "ok: $text"
    else
        say "FAILED: $text"
        failed=1
    fi
}

# submit SCRIPT [ARGUMENT…]: one rank on each of four nodes; prints the number of the job.
submit() {
    local script=$1
    shift
    sbatch --parsable --nodes=4 --ntasks-per-node=1 --cpus-per-task=1 ${limit:+--time=$limit} ${signal:+--signal=$signal} \
        "$jobs/$script" "$@"
}

field() { scontrol show job "$1" | grep -o "\\b$2=[^ ]*" | cut -d= -f2-; }
is_state() { [ "$(field "$1" JobState)" = "$2" ]; }
has_text() { grep -aq -- "$2" "longhaul-$1.out"; }

# wait_for SECONDS COMMAND…: until it succeeds.
wait_for() {
    local until=$((SECONDS + $1))
    shift
    while ! "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.2
    done
}
is_over() { case $(field "$1" JobState) in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | OUT_OF_MEMORY) ;; *) false ;; esac; }

# ends_well JOB RESTARTS SECONDS
ends_well() {
    wait_for "$3" is_over "$1" || true
    law "job $1 is complete" is_state "$1" COMPLETED
    law "job $1 was restarted $2 times" [ "$(field "$1" Restarts)" = "$2" ]
    [ "$(field "$1" JobState)" = COMPLETED ] || tail -n 30 "longhaul-$1.out" | cut -c 1-200
}

not() { ! "$@"; }

has_state() { compgen -G "longhaul-$1-*.state.h5" >/dev/null; }

# A job whose answer takes some seconds, interrupted when its prompt has been read.
interrupted_job() {
    job=$(submit longhaul.sbatch -- --max-new 1200 --ignore-eos)
    law "job $job saves its state" wait_for 60 has_state "$job"
}
goes_on() {
    ends_well "$job" 1 90
    law "it went on from its state" has_text "$job" 'the run continues after'
    law "and left none" not has_state "$job"
}

mkdir "$folder/work"
cd "$folder/work"
"$here/cluster.sh" up "$folder/slurm"
say "four nodes are up"

say "SIGUSR1 to the batch shell, as --signal=B:USR1 sends it"
interrupted_job
first=$job
scancel --batch --signal=USR1 "$first"
say "a trace, an evaluation and an array of two jobs, meanwhile"
trace=$(submit trace.sbatch) eval=$(submit eval.sbatch)
array=$(sbatch --parsable --array=0-1 --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 "$jobs/array.sbatch")
# Two ranks on two nodes, as the plan says.
"$longhaul" import --random tiny -o tiny.h5 -q
line=$("$longhaul" plan -m tiny.h5 --context 6000 --budget 256 --tp 2 --memory 900M --sbatch 1 --threads 1 -n 4 -q | grep '^sbatch ')
line=${line/sbatch/sbatch --parsable} line=${line/DOCUMENT QUESTION/document.txt What?}
seq 1000 >document.txt
planned=$(JOB_SMALL=0 bash -c "${line/jobs\//$jobs\/}")
ends_well "$trace" 0 90
law "the page of the trace is there" test -s "longhaul-$trace.html"
ends_well "$eval" 0 90
law "the evaluation is there" "$longhaul" verify -q "longhaul-$eval.h5"
ends_well "$planned" 0 60
law "the line of plan has run on two ranks" has_text "$planned" '2 ranks x'
law "the parts of the array are joined" wait_for 60 test -s "longhaul-$array.jsonl"
law "each request has its line" [ "$(grep -c '"custom_id":' "longhaul-$array.jsonl")" = 12 ]
job=$first
goes_on
law "the answer has a file of its own" test -s "longhaul-$job.answer.txt"
law "and so have its ids" grep -q '"finish_reason":"length"' "longhaul-$job.answer.json"
law "it said that it was queued again" has_text "$job" 'interrupted: the job is queued again'
law "all ranks ended with code 75" [ "$(grep -ac 'Exited with exit code 75' "longhaul-$job.out")" = 4 ]
for r in 0 1 2 3; do law "rank $r has its log" test -e "longhaul-$job.$r.log"; done
law "which names node, rank and job" grep -q "n1 rank 0 job $job: prompt" "longhaul-$job.0.log"

say "preemption"
interrupted_job
srun --partition=urgent --nodes=4 --exclusive true
goes_on

if [ "$long" ]; then
    say "a node fails, and comes back"
    interrupted_job
    "$here/cluster.sh" kill "$folder/slurm" n3
    law "the job does not hang" wait_for 40 is_state "$job" PENDING
    law "it says which node it was" has_text "$job" 'Node failure on n3'
    "$here/cluster.sh" start "$folder/slurm" n3
    goes_on

    say "a time limit: one minute, with the signal 40 s before"
    limit=1 signal=B:USR1@40
    job=$(submit longhaul.sbatch -- --max-new 100000 --ignore-eos)
    law "the job is queued again" wait_for 90 has_text "$job" 'the job is queued again'
    law "and goes on from its state" wait_for 60 has_text "$job" 'the run continues after'
    law "it has not reached its limit" not has_text "$job" 'DUE TO TIME LIMIT'
    scancel "$job"

    say "128k tokens on four nodes"
    limit=30 signal=''
    JOB_SMALL=0
    { yes 'A line of a long document, of which 1,024 entries are kept per head.' || true; } | head -c "$long_bytes" >document.txt
    job=$(submit longhaul.sbatch tiny.h5 document.txt "What is it?" --budget 1024 -- --max-new 16)
    ends_well "$job" 0 1800
    grep -a '^prompt: ' "longhaul-$job.out"
fi

[ "$failed" = 0 ] && say "done"
exit "$failed"

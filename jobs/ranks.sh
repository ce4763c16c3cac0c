# shellcheck shell=bash disable=SC2034
# Sourced by longhaul.sbatch, array.sbatch, eval.sbatch, trace.sbatch and mpirun.sh: where the program is, ranks and their threads,
# signals, and a small model to try a script with. Needs `set -euo pipefail`.
#
#   LONGHAUL=PROGRAM  instead of the one on PATH, or of the build folder beside jobs/
#   RANKS=N HOSTS=a:2,b:2  without Slurm: ranks, and the hosts that mpirun starts them on
#   JOB_SMALL=1       a model of random weights and a text of its own, in ./longhaul-JOB.small
#   JOB_RESTARTS=N    how often an interrupted job is queued again (5)

jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
job=${SLURM_JOB_ID:-$(date +%Y%m%dT%H%M%S)-$$}
ranks=${SLURM_NTASKS:-${RANKS:-1}}

fail() {
    echo "error: $*" >&2
    exit 2
}

longhaul=${LONGHAUL:-$(command -v longhaul || echo "$jobs/../build/longhaul")}
command -v "$longhaul" >/dev/null ||
    fail "there is no program '$longhaul': put longhaul on PATH, or submit with LONGHAUL=/path/to/longhaul"

# Threads: as many as a task has cores. srun of Slurm 22.05 and later does not read SLURM_CPUS_PER_TASK, and would bind each
# rank to a single core. OMP_WAIT_POLICY is best unset: by themselves threads spin on idle cores and sleep on shared
# ones; `passive` is slower on the first, `active` on the second.
threads=()
if [ -n "${SLURM_JOB_ID:-}" ]; then
    export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-$((${SLURM_CPUS_ON_NODE:-1} * ${SLURM_NNODES:-1} / ranks))}
    [ "$SRUN_CPUS_PER_TASK" -ge 1 ] || SRUN_CPUS_PER_TASK=1
    threads=(--threads "$SRUN_CPUS_PER_TASK")
fi

# The time limit, which progress is compared with; 'Unknown' where there is none.
if [ -n "${SLURM_JOB_ID:-}" ]; then
    end=$({ scontrol show job "$SLURM_JOB_ID" 2>/dev/null || true; } | grep -o '\bEndTime=[^ ]*' | head -n 1 || true)
    [ -z "$end" ] || end=$(date -d "${end#EndTime=}" +%s 2>/dev/null || true)
    [ -z "$end" ] || export SLURM_JOB_END_TIME=$end
fi

# GPUs, if the job has some: one rank each.
device=()
[ -z "${SLURM_GPUS_PER_TASK:-}${SLURM_GPUS_ON_NODE:-}" ] || device=(--device cuda)

# What starts the ranks. PMIx connects them; --cpu-bind gives each the cores of its task; --wait ends those of other nodes,
# which would wait for one that has died. Not --kill-on-bad-exit: it kills ranks of an interrupted run that rank 0 has
# left with code 75, and srun returns 143 instead. mpirun by itself binds one or two ranks to a core each.
if [ -n "${SLURM_JOB_ID:-}" ] && command -v srun >/dev/null; then
    launch=(srun --mpi=pmix --cpu-bind=cores --kill-on-bad-exit=0 --wait=30)
else
    launch=(mpirun --bind-to none -n "$ranks" ${HOSTS:+--host "$HOSTS"})
fi

# On several nodes a rank shares the memory of its own node only, taken to be like that of this one: options for `plan`.
memory=()
if [ "${SLURM_NNODES:-1}" -gt 1 ] && [ ${#device[@]} = 0 ]; then
    free=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) # KiB
    limit=$((${SLURM_MEM_PER_NODE:-0} * 1024))
    [ "$limit" -gt 0 ] && [ "$limit" -lt "$free" ] && free=$limit
    memory=(--memory "$((free / ((ranks + SLURM_NNODES - 1) / SLURM_NNODES)))K")
fi

# run_ranks COMMAND OPTION…: runs it on all ranks, and returns its exit code. SIGUSR1 of this shell, which Slurm sends to
# it alone (--signal=B:USR1@…), is passed on to srun or mpirun, and these pass it on to every rank.
signalled='' launched=''
pass_on() {
    signalled=1
    [ -z "$launched" ] || kill -USR1 "$launched" 2>/dev/null || true
}
trap pass_on USR1
run_ranks() {
    local status asked=''
    [ -z "$signalled" ] || return 75 # it came before there were ranks
    "${launch[@]}" "$longhaul" "$@" ${threads[0]+"${threads[@]}"} <&0 &
    launched=$!
    while :; do # `wait` also ends when a signal comes
        signalled='' status=0
        wait "$launched" || status=$?
        [ "$signalled" ] || break
        asked=1
    done
    launched=''
    [ "$asked$status" != 1138 ] || status=75 # it came to ranks that were just starting, and ended them
    return "$status"
}

# end_job STATUS: ends the job with this exit code. After an interrupt (75) it is queued again, but not for ever.
end_job() {
    local status=$1
    if [ "$status" = 75 ] && [ -n "${SLURM_JOB_ID:-}" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "${JOB_RESTARTS:-5}" ]; then
        trap '' TERM # which ends the requeued job, and may come before scontrol has answered
        if scontrol requeue "$SLURM_JOB_ID"; then
            echo "interrupted: the job is queued again"
        else
            echo "interrupted, and Slurm did not queue the job again: submit it again to go on" >&2
        fi
    fi
    exit "$status"
}

# What JOB_SMALL=1 works on.
small_model=longhaul-$job.small/tiny.h5 small_text=longhaul-$job.small/text.txt
if [ "${JOB_SMALL:-0}" = 1 ]; then
    mkdir -p "$(dirname "$small_model")"
    [ -e "$small_model" ] || "$longhaul" import --random tiny -o "$small_model" -q
    seq -f 'This is sentence %g of a small text.' 100 >"$small_text"
fi

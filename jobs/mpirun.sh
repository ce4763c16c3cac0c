#!/usr/bin/env bash
# A command of longhaul on the ranks of plain mpirun: without a job manager, or under one that leaves starting to mpirun
# (where Open MPI was built for PBS, LSF or Grid Engine, it finds the hosts of the job by itself).
#
#   RANKS=2 jobs/mpirun.sh generate -m m.h5 -f book.txt -p "Who did it?" --budget 1024
#   RANKS=4 HOSTS=a:2,b:2 jobs/mpirun.sh generate …     # two ranks on each host
#   JOB_SMALL=1 RANKS=2 jobs/mpirun.sh                  # a model of random weights: does it run here?
#
# SIGUSR1 to this script ends the run with its results so far and code 75 (a PBS job: qsig -s SIGUSR1).
set -euo pipefail
# shellcheck source=jobs/ranks.sh
. "$(dirname "${BASH_SOURCE[0]}")/ranks.sh"

[ "${JOB_SMALL:-0}" != 1 ] || set -- generate -m "$small_model" -f "$small_text" -p "Which number is it?" --budget 256 \
    --max-new 8 "$@"
[ $# -ge 1 ] || fail "usage: RANKS=N jobs/mpirun.sh COMMAND [options of longhaul]"
run_ranks "$@"

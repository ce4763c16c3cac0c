/* plan_sbatch.h - what `plan --sbatch` prints: the line that submits jobs/longhaul.sbatch for a planned run. */
#ifndef LH_MAIN_PLAN_SBATCH_H
#define LH_MAIN_PLAN_SBATCH_H

#include "base/options.h"
#include "engine/plan.h"

typedef struct lh_plan_sbatch {
    int64_t nodes, ranks;   /* ranks: of all nodes */
    int64_t ranks_per_node; /* at most */
    int64_t node_bytes;     /* memory of a node, with what a process takes beside the plan; 0: the ranks have GPUs */
} lh_plan_sbatch;

/* Nodes with at most `ranks_per_node` ranks each, divided evenly. */
lh_plan_sbatch lh_plan_sbatch_of(const lh_plan *plan, int64_t ranks_per_node);

/* The line, without a line feed, appended to *out: Slurm's options, then the script with the policy, the types and the
 * length of the answer of the plan's command line. DOCUMENT and QUESTION stand for themselves, CHECKPOINT for a model
 * that is none yet. */
lh_status lh_plan_sbatch_line(lh_buf *out, const lh_plan_sbatch *job, const lh_plan_request *request,
                              const lh_options *options);

#endif

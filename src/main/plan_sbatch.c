/* plan_sbatch.c - nodes, ranks and memory of a planned run as options of Slurm. */
#include "main/plan_sbatch.h"

#include <string.h>

#include "base/minmax.h"

/* Of a rank beside its plan: the program, MPI, HDF5 and the buffers of both. */
static const int64_t PROCESS_BYTES = INT64_C(1) << 30;

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

lh_plan_sbatch lh_plan_sbatch_of(const lh_plan *plan, int64_t ranks_per_node)
{
    int64_t peak = 0;
    for (int64_t r = 0; r < plan->tp; r++) peak = lh_max_i64(peak, plan->ranks[r].peak);
    lh_plan_sbatch job = {.nodes = divide_up(plan->tp, ranks_per_node), .ranks = plan->tp};
    job.ranks_per_node = divide_up(job.ranks, job.nodes);
    if (plan->device != LH_DEVICE_CUDA) job.node_bytes = job.ranks_per_node * (peak + PROCESS_BYTES);
    return job;
}

/* Options of the model that a run must have like its plan, if they are given. */
static lh_status put_given(lh_buf *out, const lh_options *options)
{
    static const char *const names[] = {"dtype", "kv-dtype", "chunk", "deterministic"};
    lh_status st = LH_OK;
    json_t *record = NULL;
    LH_TRY_DONE(lh_options_json(options, &record));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(json_object_get(record, "options"), names[i]);
        if (!lh_options_given(options, names[i])) continue;
        LH_TRY_DONE(lh_buf_printf(out, " --%s", names[i]));
        if (json_is_string(value)) LH_TRY_DONE(lh_buf_printf(out, " %s", json_string_value(value)));
        if (json_is_integer(value)) LH_TRY_DONE(lh_buf_printf(out, " %lld", (long long)json_integer_value(value)));
    }
done:
    json_decref(record);
    return st;
}

lh_status lh_plan_sbatch_line(lh_buf *out, const lh_plan_sbatch *job, const lh_plan_request *request,
                              const lh_options *options)
{
    const char *model = request->engine->model, *end = strrchr(model, '.');
    const int imported = end && strcmp(end, ".h5") == 0 && !strpbrk(model, " '\"\\$`&;|<>()*?[]#~!\t\n");
    LH_TRY(lh_buf_printf(out, "sbatch --nodes=%lld --ntasks=%lld --ntasks-per-node=%lld", (long long)job->nodes,
                         (long long)job->ranks, (long long)job->ranks_per_node));
    if (job->node_bytes)
        LH_TRY(lh_buf_printf(out, " --mem=%lldG", (long long)divide_up(job->node_bytes, INT64_C(1) << 30)));
    else
        LH_TRY(lh_buf_puts(out, " --gpus-per-task=1"));
    LH_TRY(lh_buf_printf(out, " jobs/longhaul.sbatch %s DOCUMENT QUESTION --policy ", imported ? model : "CHECKPOINT"));
    LH_TRY(lh_policy_text(request->policy, out));
    LH_TRY(put_given(out, options));
    return lh_buf_printf(out, " --max-new %lld", (long long)request->max_new);
}

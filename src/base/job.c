#include "base/job.h"

#include <stdlib.h>
#include <time.h>

/* The first variable of a list, which ends with NULL, that is set and not empty; NULL: every variable is unset or
 * empty. */
static const char *first_set(const char *const *names)
{
    const char *value = NULL;
    for (; *names && !(value && *value); names++) value = getenv(*names);
    return value && *value ? value : NULL;
}

const char *lh_job_name(void)
{
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", NULL};
    return first_set(names);
}

const char *lh_job_task(void)
{
    static const char *const names[] = {"SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX", NULL};
    return first_set(names);
}

double lh_job_left_s(void)
{
    const char *end = getenv("SLURM_JOB_END_TIME");
    const long long at = end ? atoll(end) : 0;
    return at > 0 ? difftime((time_t)at, time(NULL)) : -1;
}

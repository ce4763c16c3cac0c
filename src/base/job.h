/* job.h - the job of a batch system that this process belongs to, from the environment. */
#ifndef LH_BASE_JOB_H
#define LH_BASE_JOB_H

/* Number of the job (Slurm, PBS, LSF), and of its task in an array of jobs; NULL: there is none. */
const char *lh_job_name(void);
const char *lh_job_task(void);

/* Seconds until the job reaches its time limit: SLURM_JOB_END_TIME, which jobs/ranks.sh sets where Slurm does not.
 * Negative: not known, or past. */
double lh_job_left_s(void);

#endif

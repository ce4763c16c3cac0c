/* plan_time.h - the time of a planned run (plan.h), from some of its layers: layers of the model's shape and formats,
 * with drawn weights and the share of a rank, are measured on this machine, with few and with many entries in their
 * caches. There are as many layers as do not fit in the processor's caches: one of a large model. */
#ifndef LH_ENGINE_PLAN_TIME_H
#define LH_ENGINE_PLAN_TIME_H

#include "engine/plan.h"

/* Without the communication between ranks, and without the work of evictions. */
typedef struct lh_plan_time {
    double prefill_s; /* of the prompt */
    double step_s;    /* of a token of the answer, in the middle of the answer */
    double decode_s;  /* of all tokens of the answer */
} lh_plan_time;

/* Takes some seconds and up to 2 GiB more than a layer, on this process alone. LH_ENOMEM; LH_EUSAGE if the plan's
 * device is not here. */
lh_status lh_plan_measure(lh_plan_time *out, const lh_plan_request *request, const lh_plan *plan);

/* A bound of decoding after the prompt: the bytes that a token reads, of all ranks if they share a memory, else the
 * maximum of a rank; the bytes that are read in a second; and the tokens per second that follow. */
typedef struct lh_plan_reads {
    double bytes, bytes_per_s, tokens_per_s;
} lh_plan_reads;

/* bytes_per_s: the rate of each rank's device; 0: the rate of this machine (read_rate.h), a memory that the ranks share
 * unless each rank has a GPU. */
lh_status lh_plan_read(lh_plan_reads *out, const lh_plan *plan, double bytes_per_s);

/* The time as JSON: `prefill_s`, `step_s`, `decode_s`. */
json_t *lh_plan_time_json(const lh_plan_time *time);

#endif

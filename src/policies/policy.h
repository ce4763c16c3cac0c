/* policy.h - eviction policies as rows of parts. A preset is a row of text, exactly what the command line would say; it
 * and the options that were given are resolved into numbers once, and everything else reads those. No MPI, no device,
 * no array of scores here. */
#ifndef LH_POLICIES_POLICY_H
#define LH_POLICIES_POLICY_H

#include <jansson.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* The parts of a policy as text, as its options are called: NULL where nothing was said. A preset is such a row, and so
 * are the options of a run. What neither says, but what they make necessary, comes from lh_policy_defaults. */
#define LH_POLICY_PARTS(X)                                                                                          \
    X(rows)                                                                                                         \
    X(statistic)                                                                                                    \
    X(group) X(group_stage) X(pool) X(pool_size) X(window) X(sinks) X(recents) X(alpha) X(safeguard) X(head_budget) \
        X(layer_budget) X(beta) X(select) X(evict) X(positions)

typedef struct lh_policy_parts {
#define LH_PART(part) const char *part;
    LH_POLICY_PARTS(LH_PART)
#undef LH_PART
} lh_policy_parts;

/* A preset. Without a statistic it evicts nothing. */
typedef struct lh_policy {
    const char *name, *summary, *paper;
    lh_policy_parts parts;
} lh_policy;

const lh_policy *lh_policy_find(const char *name); /* NULL when there is none */
const lh_policy *lh_policy_at(int i);              /* NULL behind the last */

extern const lh_policy_parts lh_policy_defaults;
/* What a budget without a policy means: a preset's name and what is changed in it. */
extern const lh_policy lh_policy_by_default;

/* What the user asked for. budget: entries or "20%"; NULL: none given. */
typedef struct lh_policy_options {
    const char *policy, *budget;
    lh_policy_parts parts;
} lh_policy_options;

typedef enum lh_score_source { LH_SCORE_NONE, LH_SCORE_POSITION, LH_SCORE_ATTENTION } lh_score_source;
typedef enum lh_heads_budget { LH_HEADS_UNIFORM, LH_HEADS_ADAPTIVE } lh_heads_budget;
typedef enum lh_layers_budget { LH_LAYERS_UNIFORM, LH_LAYERS_PYRAMID } lh_layers_budget;
typedef enum lh_safeguard { LH_SAFEGUARD_INTERP, LH_SAFEGUARD_FLOOR } lh_safeguard;

/* A decimal as it was written: value = digits / 10^scale, scale <= 18. Shares are taken of it in whole numbers. */
typedef struct lh_decimal {
    int64_t digits;
    int scale;
} lh_decimal;

/* A resolved policy. */
typedef struct lh_policy_plan {
    char name[64];
    int by_default;      /* 1: no policy was named, this is what a budget alone means */
    int evicts;          /* 0: `full`, nothing below means anything */
    int budget_is_share; /* budget_share (percent) of the prompt, else budget_entries */
    int64_t budget_entries;
    lh_decimal budget_share;
    lh_score_source source;
    int rows_is_share; /* rows_share (percent) of the prompt, else rows; see lh_policy_rows */
    int64_t rows;      /* observed rows; 0 for position scores */
    lh_decimal rows_share;
    int mean;                  /* divide by the rows really observed */
    int group_kind, pool_kind; /* lh_group_kind, lh_pool_kind of kernels/ops.h, as numbers */
    int group_after_pool;
    int64_t pool_size, window, sinks, recents; /* window is 0 for position scores */
    lh_heads_budget heads;
    lh_layers_budget layers;
    lh_safeguard safeguard;
    lh_decimal alpha;
    int64_t beta;
    int64_t every; /* decode: evict at every m-th generated token; 0: never */
} lh_policy_plan;

/* Resolve. Fails with LH_EUSAGE on an unknown preset (naming the nearest), a value that is none, an option that the
 * resolved policy would ignore, a budget of 0, a policy that evicts without a budget. options->policy NULL: `full`
 * without a budget, else the default policy. Equal plans are equal byte by byte. */
lh_status lh_policy_resolve(lh_policy_plan *out, const lh_policy_options *options);

/* The policy in words of the command line, as "ada-snapkv --pool-size 31 --budget 256": the preset and what differs
 * from it; appended. */
lh_status lh_policy_text(const lh_policy_plan *plan, lh_buf *out);

/* The resolved parts, complete, as JSON: new reference; parts that are not used are null. And back from what a cache
 * file stored (by_default is then 0): LH_EFILE when it cannot be, naming `name`. */
lh_status lh_policy_json(const lh_policy_plan *plan, json_t **out);
lh_status lh_policy_from_json(lh_policy_plan *out, const json_t *json, const char *name);

/* Entries per KV head for a prompt of `seen` tokens: at least 1; `seen` or more means nothing is evicted. `full`: as
 * many as were seen. */
int64_t lh_policy_entries(const lh_policy_plan *plan, int64_t seen);

/* Query rows to observe of a prompt of `seen` tokens, at most `seen`; 0 for position scores. */
int64_t lh_policy_rows(const lh_policy_plan *plan, int64_t seen);

/* floor(n * decimal) and floor(n * percent / 100), exact. n < 2^62. */
int64_t lh_decimal_of(lh_decimal share, int64_t n);
int64_t lh_percent_of(lh_decimal percent, int64_t n);

/* What an eviction finds: the budget of the layer, and `seen` tokens of which those before `visible_from` can no longer
 * be seen by the next row (0 but in sliding layers). */
typedef struct lh_protect_request {
    int64_t budget, seen, visible_from;
} lh_protect_request;

/* How the budget of one layer divides: protected entries and those that compete. Sinks that are out of sight take
 * nothing. */
typedef struct lh_protection {
    int64_t budget;  /* at most what can be seen */
    int64_t sinks;   /* s' that can be seen */
    int64_t recents; /* r' */
    int64_t base;    /* budget - sinks - recents: what a head may keep of the competing entries, on average */
} lh_protection;

lh_protection lh_policy_protect(const lh_policy_plan *plan, const lh_protect_request *request);

/* Budgets of all layers (entries per KV head, protected ones included), exact in total. sliding: [layers] or NULL;
 * window: their keys. Where nothing is evicted (seen <= C): C for every layer, the window at most for a sliding one. */
typedef struct lh_layers_request {
    int64_t layers, seen, window;
    const uint8_t *sliding;
} lh_layers_request;

void lh_policy_layers(const lh_policy_plan *plan, const lh_layers_request *request, int64_t *budgets);

/* AdaKV's `interp`: from counts[h] of the flat top-(heads * base) and room[h] (competing entries held) to budgets[h] of
 * competing entries, Σ = min(heads * base, Σ room). All heads of the layer, in global order. */
typedef struct lh_interp_request {
    int64_t heads, base;
    const int64_t *counts, *room;
} lh_interp_request;

void lh_policy_interp(const lh_policy_plan *plan, const lh_interp_request *request, int64_t *budgets);

/* What a user should know before a long run of `seen` tokens, as "window 64 is not smaller than the budget 32: …";
 * appended to *out as lines. */
lh_status lh_policy_warnings(const lh_policy_plan *plan, int64_t seen, lh_buf *out);

#endif

/* run_policies.h - one prompt with the caches of many policies: every task of `eval` is built on this.
 *
 * One prefill fills the caches of all policies that evict at its end; a policy that evicts during prefill has its own
 * prefill. A task visits the caches one after the other, generates from each or feeds it given tokens, and can go back
 * to the end of the prefill as often as it needs. */
#ifndef LH_LAB_EVAL_RUN_POLICIES_H
#define LH_LAB_EVAL_RUN_POLICIES_H

#include "engine/decode.h"
#include "engine/session.h"
#include "import/config.h"
#include "lab/eval/measures.h"
#include "lab/eval/resume.h"
#include "policies/list.h"

/* ---- progress: prefills and answers have different costs, so each is counted in its own unit and timed ---- */

typedef enum lh_work_kind { LH_WORK_PREFILL, LH_WORK_ANSWER, LH_WORK_KINDS } lh_work_kind;

/* Prefills in lh_prefill_cost, answers in tokens. */
typedef struct lh_work_pace {
    double done, total, seconds; /* seconds: that `done` took */
} lh_work_pace;

typedef struct lh_eval_work lh_eval_work;

/* Progress of a task, called on every rank at the same points, so that it may be collective; `advance` may be NULL. */
typedef struct lh_eval_progress {
    void *self;
    void (*advance)(void *self, const lh_eval_work *work);
} lh_eval_progress;

struct lh_eval_work {
    lh_eval_progress progress;
    int64_t prompts, prompt_total; /* prompts: finished prompts, also of an interrupted run */
    int64_t resumed;               /* prompts of the interrupted run; they are not in `pace` */
    lh_work_pace pace[LH_WORK_KINDS];
    double since_s; /* when the last step ended */
};

/* The cost of a prefill in multiplications per layer: projections and MLP are linear in the tokens, attention is
 * quadratic. */
double lh_prefill_cost(const lh_config *config, int64_t tokens);

/* Begins the clock, after the expected work was added to pace[].total. */
void lh_work_begin(lh_eval_work *work);

/* `amount` of this kind is done since the last call of a function of this section. */
void lh_work_advance(lh_eval_work *work, lh_work_kind kind, double amount);

/* Shows that `amount` of a step is done, which lh_work_advance will count when it has ended. */
void lh_work_show(const lh_eval_work *work, lh_work_kind kind, double amount);

/* A prompt is finished. */
void lh_work_finish_prompt(lh_eval_work *work);

/* Seconds of the remaining work; negative while a kind of work that remains has not been timed. */
double lh_work_left_s(const lh_eval_work *work);

/* ---- caches ---- */

/* Settings of every task. */
typedef struct lh_eval_setup {
    const lh_policy_list *policies;
    uint64_t seed; /* of the policies' random choices, and of random numbers of the task */
    int64_t max_new;
    int64_t together;  /* maximum number of caches that one prefill fills and memory holds; 0: all */
    lh_resume *resume; /* NULL: finished prompts are not kept; always on ranks other than 0 */
    lh_eval_progress progress;
    const char *model;      /* its name in the tables */
    int timed;              /* 0: times are left out, so that results are the same bytes */
    const char *keep_sets;  /* a folder for the keep sets (keep_files.h); NULL: none */
    const char *run;        /* resolved options, JSON: stored with them */
    lh_failures *unwritten; /* of writing them, the same on all ranks */
} lh_eval_setup;

/* A cache after the prefill of the prompt. */
typedef struct lh_cache_at {
    int64_t policy; /* index in the list */
    lh_session *session;
    int64_t cache;           /* index in the session */
    lh_eval_figures figures; /* decode_s is the task's to fill */
} lh_cache_at;

typedef struct lh_policies_request {
    const lh_eval_setup *setup;
    const char *name; /* of the prompt, as of lh_keep_file */
    const lh_tokens *prompt;
    int64_t question; /* tokens at the end of the prompt that are the question, 0: none */
    int64_t more;     /* maximum number of tokens after the prompt */
    int64_t block;    /* maximum tokens after the prompt in one forward pass, such as a question */
    int64_t rows;     /* maximum rows of logits that are kept (lh_likelihood_rows); 0: one */
    uint64_t seed;    /* of the policies' random choices */
    lh_eval_work *work;
} lh_policies_request;

/* Collective. Calls `visit` once for every policy, in the order of the list; policies that evict during prefill come
 * last, each after its own prefill. On each call the session is in its state at the end of the prefill. */
typedef lh_status (*lh_cache_visit)(void *self, const lh_cache_at *at);
lh_status lh_run_policies(lh_engine *engine, const lh_policies_request *request, lh_cache_visit visit, void *self);

/* Adds to the work what lh_run_policies does for a prompt of `tokens` tokens: its prefills, and from every cache an
 * answer of `answer` tokens. */
typedef struct lh_policies_plan {
    int64_t tokens, answer;
} lh_policies_plan;
void lh_policies_expect(lh_eval_work *work, const lh_eval_setup *setup, const lh_config *config,
                        const lh_policies_plan *plan);

/* On every rank, when all rows of a prompt are in the tables (ends with NULL; of rank 0): counts it as finished and
 * keeps it, unless one of its keep sets could not be written. */
void lh_eval_finish_prompt(const lh_eval_setup *setup, lh_eval_work *work, lh_table *const *tables);

/* LH_EUSAGE if the model has no tokenizer. */
lh_status lh_eval_check_tokenizer(const lh_engine *engine);

/* LH_EUSAGE if prompts of the lengths ('--length') and their answers are longer than the model allows, or a policy is
 * impossible for them. */
lh_status lh_eval_check_lengths(const lh_eval_setup *setup, const lh_config *config, const int64_t *lengths, int64_t n);

/* Collective. Sets at->figures to the cache as it is now: entries, bytes, time of its evictions; the other figures are
 * left unchanged. */
lh_status lh_cache_count(const lh_eval_setup *setup, lh_cache_at *at);

/* Seconds since `start_s` (base/clock.h) where times are wanted, else NAN. */
double lh_eval_seconds(const lh_eval_setup *setup, double start_s);

/* Collective. Restores the state at the end of the prefill. */
lh_status lh_cache_restart(const lh_cache_at *at);

/* Collective. Decodes greedily from the session's state and appends at most max_new tokens, including the one that ends
 * the answer (an end token of the model, or one of `ends`). The last token is not fed back. */
typedef struct lh_eval_answer {
    const lh_tokens *ends; /* NULL: none */
    int64_t max_new;
    lh_eval_work *work; /* advances by max_new even if the answer is shorter */
} lh_eval_answer;
lh_status lh_eval_generate(lh_session *session, const lh_eval_answer *how, lh_tokens *out);

/* Appends the text of n ids without special tokens; *out is a string afterwards even if that is empty. */
lh_status lh_eval_text(const lh_tokenizer *tok, const int32_t *ids, int64_t n, lh_buf *out);

/* ---- likelihood: given tokens are fed one after the other (teacher forcing), and the negative log-likelihood of each
 * is read off the logits before it. It ranks policies also where a model answers nothing exactly ---- */

/* Maximum tokens of a forward pass, and rows of logits in memory. */
enum { LH_LIKELIHOOD_BLOCK = 64 };

typedef struct lh_likelihood {
    const lh_tokens *ids;
    const lh_policy *policy; /* of the cache; one that evicts while decoding is fed token by token, others in blocks */
    lh_eval_work *work;      /* shows the tokens as answer tokens, and is not advanced; NULL: none */
    void *self;
    /* Called on rank 0 with the logits before ids[i], [vocab], in the order of i; NULL: not called. */
    void (*row)(void *self, int64_t i, const float *logits);
} lh_likelihood;

/* Collective. nll[i] = -ln p(ids[i] | everything before) in nats: [ids->n], written on rank 0 only. The first token is
 * read off the logits of the session; all but the last are fed. lh_policies_request.rows must be lh_likelihood_rows,
 * and .block at least as many. *best, on rank 0: how many of the ids have the largest logit, the lowest id among
 * equals; NULL: not counted. */
lh_status lh_likelihood_of(lh_session *session, const lh_likelihood *how, double *nll, int64_t *best);

/* Tokens of the largest block of so many tokens. */
int64_t lh_likelihood_rows(int64_t tokens);

/* Mean of n values, NAN if there are none. */
double lh_nll_mean(const double *nll, int64_t n);

/* ---- warnings ---- */

/* Logs the warnings of policies for prompts of the lengths: for each policy the warnings of the first length that has
 * any, since most hold for all lengths. Warnings that differ in numbers only are one line with several policies. */
lh_status lh_eval_warn_of_policies(const lh_policy_list *policies, const int64_t *lengths, int64_t n);

#endif

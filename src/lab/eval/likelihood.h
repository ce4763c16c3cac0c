/* likelihood.h - how likely given tokens are after what a cache holds: they are fed one after the other (teacher
 * forcing) and the negative log-likelihood of each is read off the logits before it, and whether the model would choose
 * it. Of the right answer in every task that has one, of a text in `ppl`, of the choices in `choice`: it ranks policies
 * also where a model answers nothing exactly. */
#ifndef LH_LAB_EVAL_LIKELIHOOD_H
#define LH_LAB_EVAL_LIKELIHOOD_H

#include "engine/session.h"
#include "lab/eval/work.h"

/* Tokens of one forward pass at most, and rows of logits in memory at once. */
enum { LH_LIKELIHOOD_BLOCK = 64 };

typedef struct lh_likelihood {
    const lh_tokens *ids;
    const lh_policy *policy; /* of the cache; one that evicts while decoding is fed token by token, others in blocks */
    lh_eval_work *work;      /* shows the tokens as those of an answer, and is not advanced; NULL: none */
} lh_likelihood;

/* Collective. nll[i] = -ln p(ids[i] | everything before) in nats: [ids->n], written on rank 0 only. The first token is
 * read off the logits as they are; all but the last are fed. lh_caches_request.rows must be lh_likelihood_rows, and
 * .block at least as many. *best, on rank 0: how many of the ids have the largest logit, the lowest id among equals;
 * NULL: not counted. */
lh_status lh_likelihood_of(lh_session *session, const lh_likelihood *how, double *nll, int64_t *best);

/* Tokens of its largest block. */
int64_t lh_likelihood_rows(int64_t tokens);

/* Mean of n values, NAN if there are none. */
double lh_nll_mean(const double *nll, int64_t n);

/* Of an answer: sums over its tokens, as of lh_likelihood_of. */
typedef struct lh_answer_likelihood {
    int64_t tokens, best;
    double nll;
} lh_answer_likelihood;

#endif

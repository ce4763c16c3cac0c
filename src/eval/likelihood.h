/* likelihood.h - how likely given tokens are after what a cache holds: they are fed one after the other (teacher
 * forcing) and the negative log-likelihood of each is read off the logits before it. Of the right answer in every task
 * that has one, of a text in `ppl`, of the choices in `choice`: it ranks policies also where a model answers nothing
 * exactly. */
#ifndef LH_EVAL_LIKELIHOOD_H
#define LH_EVAL_LIKELIHOOD_H

#include "base/mem.h"
#include "base/table.h"
#include "engine/session.h"
#include "eval/work.h"

/* Tokens of one forward pass at most, and rows of logits in memory at once. */
enum { LH_LIKELIHOOD_BLOCK = 64 };

typedef struct lh_likelihood {
    const lh_tokens *ids;
    const lh_policy *policy; /* of the cache; one that evicts while decoding is fed token by token, others in blocks */
    lh_eval_work *work;      /* shows the tokens as those of an answer, and is not advanced; NULL: none */
} lh_likelihood;

/* Collective. nll[i] = -ln p(ids[i] | everything before) in nats: [ids->n], written on rank 0 only. The first token is
 * read off the logits as they are; all but the last are fed. lh_caches_request.rows must be lh_likelihood_rows, and
 * .block at least as many. */
lh_status lh_likelihood_of(lh_session *session, const lh_likelihood *how, double *nll);

/* Tokens of its largest block. */
int64_t lh_likelihood_rows(int64_t tokens);

/* Mean of n values, NAN if there are none. */
double lh_nll_mean(const double *nll, int64_t n);

/* The column of a task's rows and of its means. */
#define LH_ANSWER_NLL_COLUMN                          \
    {                                                 \
        "answer_nll", "nats per token", LH_COLUMN_F64 \
    }

/* Means over answers; a right answer without tokens, NAN, does not count. All zero is none. */
typedef struct lh_nll_sum {
    double sum;
    int64_t n;
} lh_nll_sum;
void lh_nll_add(lh_nll_sum *sum, double nll);
double lh_nll_of_sum(const lh_nll_sum *sum); /* NAN if there are none */

/* Appends " 3.21", or " –" for NAN: the cell of a printed table. */
lh_status lh_nll_print(double nll, lh_buf *out);

#endif

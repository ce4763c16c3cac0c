/* similarity.c - ROUGE and BLEU, as similarity.h defines them. */
#include "lab/eval/similarity.h"

#include <math.h>
#include <string.h>

#include "lab/eval/text_metrics.h"

static double f1(int64_t matches, int64_t reference, int64_t candidate)
{
    if (matches == 0) return 0;
    double precision = (double)matches / (double)candidate, recall = (double)matches / (double)reference;
    return 2 * precision * recall / (precision + recall);
}

static lh_status rouge(lh_similarity *out, const char *const texts[2])
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    int64_t one, two, common;
    LH_TRY_DONE(lh_word_pair_make(&pair, texts, LH_CUT_ROUGE));
    LH_TRY_DONE(lh_word_pair_matches(&pair, 1, &one));
    LH_TRY_DONE(lh_word_pair_matches(&pair, 2, &two));
    LH_TRY_DONE(lh_word_pair_common(&pair, &common));
    out->rouge1 = f1(one, pair.n[0], pair.n[1]);
    out->rouge2 = f1(two, pair.n[0] - 1, pair.n[1] - 1);
    out->rougel = f1(common, pair.n[0], pair.n[1]);
done:
    lh_word_pair_clear(&pair);
    return st;
}

static lh_status bleu(lh_similarity *out, const char *const texts[2])
{
    lh_status st = LH_OK;
    lh_word_pair pair = {0};
    double logs = 0;
    int64_t matches, any = 0, missing = 1;
    int orders = 0;
    LH_TRY_DONE(lh_word_pair_make(&pair, texts, LH_CUT_13A));
    const int64_t r = pair.n[0], c = pair.n[1];
    while (orders < LH_MAX_NGRAM && c > orders) {
        LH_TRY_DONE(lh_word_pair_matches(&pair, orders + 1, &matches));
        any += matches;
        if (!matches) missing *= 2;
        logs += log((matches ? (double)matches : 1 / (double)missing) / (double)(c - orders));
        orders++;
    }
    double brevity = c < r && c > 0 ? exp(1 - (double)r / (double)c) : 1;
    out->bleu = any ? brevity * exp(logs / orders) : 0;
done:
    lh_word_pair_clear(&pair);
    return st;
}

lh_status lh_similarity_of(lh_similarity *out, const char *reference, const char *candidate)
{
    const char *const texts[2] = {reference, candidate};
    LH_TRY(rouge(out, texts));
    LH_TRY(bleu(out, texts));
    return LH_OK;
}

/* Of one of the right answers, if it is better. */
static lh_status compare_answer(lh_answer_score *best, const char *const texts[2])
{
    lh_status st = LH_OK;
    lh_word_pair squad = {0}, words = {0};
    int64_t matches, common;
    LH_TRY_DONE(lh_word_pair_make(&squad, texts, LH_CUT_SQUAD));
    LH_TRY_DONE(lh_word_pair_matches(&squad, 1, &matches));
    const int64_t n = squad.n[0];
    const int equal = n == squad.n[1] && memcmp(squad.ids[0], squad.ids[1], (size_t)n * sizeof(int32_t)) == 0;
    LH_TRY_DONE(lh_word_pair_make(&words, texts, LH_CUT_ROUGE));
    LH_TRY_DONE(lh_word_pair_common(&words, &common));
    best->exact |= equal;
    best->f1 = fmax(best->f1, equal ? 1 : f1(matches, n, squad.n[1]));
    best->rougel = fmax(best->rougel, f1(common, words.n[0], words.n[1]));
done:
    lh_word_pair_clear(&squad);
    lh_word_pair_clear(&words);
    return st;
}

lh_status lh_answer_score_of(lh_answer_score *out, const char *answer, const char *const *right, int64_t n)
{
    *out = (lh_answer_score){0};
    for (int64_t i = 0; i < n; i++) LH_TRY(compare_answer(out, (const char *const[2]){right[i], answer}));
    return LH_OK;
}

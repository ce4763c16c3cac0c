/* Files of score weights: what they hold is what was written, and shares of heads become integers of layers. */
#include "model/score_weights.h"

#include <string.h>
#include <unistd.h>

#include "evict/evict.h"
#include "suite.h"

enum { LAYERS = 3, HEADS = 2, DIM = 2 };
static const char path[] = "test_score_weights.h5";

typedef struct sample {
    float at[LAYERS * HEADS * 32];
    lh_score_weights weights;
} sample;

/* Shares 1/16, 2/16, … of heads. */
static void make(sample *s)
{
    const int64_t numbers = lh_learnt_numbers(DIM);
    *s = (sample){.weights = {.layers = LAYERS, .kv_heads = HEADS, .numbers = numbers, .model = 7}};
    s->weights.at = s->at;
    for (int64_t i = 0; i < LAYERS * HEADS * numbers; i++) s->at[i] = (float)i / 7 - 3;
    for (int64_t i = 0; i < LAYERS * HEADS; i++) *lh_score_weights_share(&s->weights, i) = (float)(i + 1) / 16;
}

static lh_status write_and_read(const sample *s, lh_score_weights *out)
{
    ck_assert_int_eq(lh_score_weights_write(&s->weights, path, NULL), LH_OK);
    const lh_status st = lh_score_weights_read(out, path);
    unlink(path);
    return st;
}

START_TEST(test_what_was_written_is_read)
{
    sample s;
    lh_score_weights w;
    make(&s);
    ck_assert_int_eq(write_and_read(&s, &w), LH_OK);
    ck_assert(w.layers == LAYERS && w.kv_heads == HEADS && w.numbers == s.weights.numbers && w.model == 7 && w.hash);
    ck_assert_int_eq(memcmp(w.at, s.at, (size_t)(LAYERS * HEADS * w.numbers) * sizeof *w.at), 0);
    for (int64_t l = 0; l < LAYERS; l++) ck_assert_int_eq(w.layer_shares[l], (4 * l + 3) * INT64_C(62500000));
    lh_score_weights_clear(&w);
}
END_TEST

static void refused(const sample *s, const char *words)
{
    lh_score_weights w;
    ck_assert_int_eq(write_and_read(s, &w), LH_EFILE);
    ck_assert_msg(strstr(lh_error_message(), path) && strstr(lh_error_message(), words), "%s", lh_error_message());
}

START_TEST(test_shares_that_divide_nothing_are_refused)
{
    static const float bad[] = {-0.25f, 1.5f};
    sample s;
    for (int i = 0; i < 2; i++) {
        make(&s);
        *lh_score_weights_share(&s.weights, HEADS + 1) = bad[i];
        refused(&s, "for the share of layer 1, KV head 1, it must be between 0 and 1");
    }
    for (int64_t i = 0; i < LAYERS * HEADS; i++) *lh_score_weights_share(&s.weights, i) = 0;
    refused(&s, "shares of layers that are all 0");
    make(&s);
    s.weights.numbers--;
    refused(&s, "15 numbers for each KV head, which are not those of this version");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_what_was_written_is_read, test_shares_that_divide_nothing_are_refused, NULL};
    return suite_run("score weights", tests);
}

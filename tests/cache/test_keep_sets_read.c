/* Keep sets of files: what fits comes back, and every way of not fitting is said. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/temporary.h"
#include "cache/keep_sets.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

enum { LAYERS = 3, HEADS = 2, TOKENS = 20, ENTRIES = 5 };

static const int32_t tokens[TOKENS] = {5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6};
static const uint8_t sliding[LAYERS] = {0, 1, 0};
/* the row after the prompt sees 10 keys of layer 1, its own included */
static const lh_keep_fit fit = {LAYERS, HEADS, sliding, 10, tokens, TOKENS};

/* A file of keep sets, and what of it is wrong. */
typedef struct wrong {
    const char *part;                   /* of the message; NULL: nothing is wrong */
    int64_t layers, heads, token_count; /* 0: as it should be */
    int32_t token;                      /* the last one; 0: as it should be */
    int64_t offsets[HEADS + 1];         /* of layer 1; all zero: as they should be */
    int32_t positions[ENTRIES];         /* of layer 1 */
} wrong;

static void put_layer(lh_h5 *h5, int64_t l, const wrong *w)
{
    static const int64_t of_two[] = {0, 2, ENTRIES}, of_one[] = {0, ENTRIES};
    static const int32_t two[] = {12, 19, 11, 15, 18}, one[] = {11, 12, 15, 18, 19}, early[] = {2, 9, 1, 5, 8};
    const int64_t heads = w->heads ? w->heads : HEADS, *offsets = heads == 1 ? of_one : of_two;
    const int32_t *positions = heads == 1 ? one : w->token_count ? early : two;
    const int mine = l == 1 && (w->offsets[HEADS] || w->offsets[0]);
    char name[64];
    snprintf(name, sizeof name, "/layers/%03d/kept/offsets", (int)l);
    OK(lh_h5_put(h5, name, &(lh_h5_shape){.type = LH_I64, .rank = 1, .dims = {heads + 1}},
                 mine ? w->offsets : offsets));
    snprintf(name, sizeof name, "/layers/%03d/kept/positions", (int)l);
    OK(lh_h5_put(h5, name, &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {ENTRIES}},
                 mine ? w->positions : positions));
}

static lh_status read_file(lh_keep_sets *sets, const wrong *w)
{
    lh_h5 *h5 = NULL;
    int32_t ids[TOKENS + 4] = {0};
    memcpy(ids, tokens, sizeof tokens);
    if (w->token) ids[TOKENS - 1] = w->token;
    OK(lh_h5_create(&h5, "k.h5", &(lh_h5_header){"keep-sets", 1, "{}"}));
    const int64_t n = w->token_count ? w->token_count : TOKENS + 4; /* the answer follows the prompt */
    OK(lh_h5_put(h5, "/tokens", &(lh_h5_shape){.type = LH_I32, .rank = 1, .dims = {n}}, ids));
    for (int64_t l = 0; l < (w->layers ? w->layers : LAYERS); l++) put_layer(h5, l, w);
    OK(lh_h5_commit(h5));
    OK(lh_h5_open(&h5, "k.h5", &(lh_h5_header){"keep-sets", 1, NULL}));
    lh_status st = lh_keep_sets_read(sets, h5); /* the file alone says what it needs */
    if (st == LH_OK) st = lh_keep_sets_check(sets, "k.h5", &fit);
    lh_h5_close(h5);
    return st;
}

static void enter_folder(void)
{
    char folder[TEMPORARY_BYTES];
    ck_assert_ptr_nonnull(mkdtemp(temporary_name(folder, "/tmp")));
    ck_assert_int_eq(chdir(folder), 0);
}

START_TEST(test_what_fits_is_read)
{
    lh_keep_sets sets = {0};
    enter_folder();
    OK(read_file(&sets, &(wrong){0}));
    ck_assert_int_eq(sets.layers, LAYERS);
    ck_assert(sets.tokens == TOKENS + 4 && memcmp(sets.ids, tokens, sizeof tokens) == 0);
    for (int64_t l = 0; l < LAYERS; l++) {
        const lh_positions *p = &sets.parts[LH_KEEP_KEPT][l];
        ck_assert(p->heads == HEADS && p->offsets[1] == 2 && p->offsets[2] == ENTRIES);
        ck_assert(p->positions[0] == 12 && p->positions[4] == 18);
    }
    lh_keep_sets_clear(&sets);
}
END_TEST

/* As a competition that guarantees heads nothing leaves it. */
START_TEST(test_a_head_may_keep_nothing)
{
    lh_keep_sets sets = {0};
    enter_folder();
    OK(read_file(&sets, &(wrong){.offsets = {0, 0, 5}, .positions = {11, 12, 15, 18, 19}}));
    ck_assert_int_eq(sets.parts[LH_KEEP_KEPT][1].offsets[1], 0);
    lh_keep_sets_clear(&sets);
}
END_TEST

START_TEST(test_what_does_not_fit_is_refused)
{
    static const wrong cases[] = {
        {.part = "of 4 layers, the model has 3", .layers = 4},
        {.part = "of 2 layers, the model has 3", .layers = 2},
        {.part = "of 1 heads in layer 0, the model has 2", .heads = 1},
        {.part = "of 12 tokens, the prompt has 20", .token_count = 12},
        {.part = "its token 19 is 77, that of the prompt is 6", .token = 77},
        {.part = "head 1 of layer 1 has offsets 2 to 4 of 5", .offsets = {0, 2, 4}, .positions = {12, 19, 11, 15, 18}},
        {.part = "head 1 of layer 1 has offsets 2 to 6 of 5", .offsets = {0, 2, 6}, .positions = {12, 19, 11, 15, 18}},
        {.part = "head 0 of layer 1 has offsets 1 to 2", .offsets = {1, 2, 5}, .positions = {12, 19, 11, 15, 18}},
        {.part = "head 0 of layer 1 has offsets 0 to 6 of 5", .offsets = {0, 6, 5}, .positions = {12, 19, 11, 15, 18}},
        {.part = "head 0 of layer 1 has offsets -1", .offsets = {-1, 2, 5}, .positions = {12, 19, 11, 15, 18}},
        {.part = "head 0 of layer 1 keeps 12 after 12", .offsets = {0, 2, 5}, .positions = {12, 12, 11, 15, 18}},
        {.part = "head 1 of layer 1 keeps 11 after 15", .offsets = {0, 2, 5}, .positions = {12, 19, 15, 11, 18}},
        {.part = "keeps position 20, the prompt has positions 0 to 19",
         .offsets = {0, 2, 5},
         .positions = {12, 20, 11, 15, 18}},
        {.part = "keeps position -1", .offsets = {0, 2, 5}, .positions = {12, 19, -1, 15, 18}},
        {.part = "keeps position 10, but its layer slides and sees positions from 11 on",
         .offsets = {0, 2, 5},
         .positions = {10, 19, 11, 15, 18}}};
    enter_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_keep_sets sets = {0};
        lh_status st = read_file(&sets, &cases[i]);
        ck_assert_msg(st == LH_EFILE && strstr(lh_error_message(), cases[i].part), "not '%s' but %d: %s", cases[i].part,
                      (int)st, lh_error_message());
        ck_assert_ptr_nonnull(strstr(lh_error_message(), "k.h5"));
        lh_keep_sets_clear(&sets);
        lh_error_clear();
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_what_fits_is_read, test_a_head_may_keep_nothing,
                                  test_what_does_not_fit_is_refused, NULL};
    return suite_run("keep sets of files", tests);
}

/* Laws of several questions about one context, at 1 to 4 ranks: decoded together they have the answers that one rank
 * alone gives to each of them, after a prefill or a saved cache, bit for bit in the reproducible order; whoever listens
 * hears answer after answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chunk.h"
#include "engine/generate.h"
#include "mpi_check.h"
#include "tiny_engine.h"
#include "tiny_model.h"

enum { CONTEXT = 560, QUESTIONS = 19, NEW = 9, VOCAB = 97, TOKENS = CONTEXT + 3 * QUESTIONS };

static const tiny_shape shapes[] = {
    {.name = "6/3", .heads = 6, .kv_heads = 3, .head_dim = 8, .layers = 2, .ff = 50, .vocab = VOCAB},
    {.name = "4/2 sliding",
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 8,
     .layers = 2,
     .ff = 50,
     .vocab = VOCAB,
     .window = 40},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const struct question_case {
    const char *policy, *budget, *evict;
} cases[] = {
    {"full", NULL, NULL}, {"ask-later", "300", NULL}, {"ada-snapkv", "50%", NULL}, {"streaming", "40", "every:2"}};
enum { CASES = sizeof cases / sizeof *cases };

static struct fixture {
    char folder[64], model[SHAPES][96], cache[96];
    int32_t ids[TOKENS];
    lh_tokens questions[QUESTIONS];
} fix;

static void make_fixture(void)
{
    mt_folder_make(fix.folder);
    snprintf(fix.cache, sizeof fix.cache, "%s/cache.h5", fix.folder);
    for (int i = 0; i < SHAPES; i++) {
        snprintf(fix.model[i], sizeof fix.model[i], "%s/model%d.h5", fix.folder, i);
        if (mt_rank() == 0) tiny_model_make(fix.model[i], &shapes[i]);
    }
    tiny_model_tokens(fix.ids, TOKENS, VOCAB);
    for (int64_t i = 0; i < QUESTIONS; i++) {
        const int64_t n = 1 + i * 7 % 11;
        fix.questions[i] = (lh_tokens){fix.ids + CONTEXT + 2 * i, n, n};
    }
    mt_try(lh_comm_barrier(mt_comm()));
}

static void remove_fixture(void)
{
    mt_folder_remove(fix.folder);
}

/* The first `count` questions about the context; answers end at a few tokens, so that they have many lengths. */
typedef struct request {
    lh_generate_request r;
    lh_policy policy;
} request;

static void make_request(request *q, int n, int64_t count)
{
    static int32_t ends[] = {3, 10, 21, 40, 41, 42, 60, 77};
    lh_policy_options o = {.policy = cases[n].policy, .budget = cases[n].budget};
    *q = (request){.r = {.prompt = {fix.ids, CONTEXT, CONTEXT},
                         .questions = fix.questions,
                         .question_count = count,
                         .max_new = NEW,
                         .ends = {ends, 8, 8},
                         .logprobs = 1,
                         .sampling = {.temperature = 0.9, .seed = 5, .top_p = 1, .repeat_penalty = 1},
                         .policy = &q->policy}};
    o.parts.evict = cases[n].evict;
    mt_try(lh_policy_resolve(&q->policy, &o));
}

/* ids: also on other ranks; log-probabilities are rank 0's. */
static void check_same(const lh_answer *got, const lh_answer *want, const char *what, int i)
{
    mt_check(got->finish == want->finish && got->ids.n == want->ids.n &&
                 memcmp(got->ids.ids, want->ids.ids, (size_t)got->ids.n * 4) == 0,
             "%s: other tokens in answer %d", what, i);
    mt_check(
        got->logprobs.bytes == want->logprobs.bytes &&
            (!got->logprobs.bytes || memcmp(got->logprobs.data, want->logprobs.data, (size_t)got->logprobs.bytes) == 0),
        "%s: other log-probabilities in answer %d", what, i);
}

/* Rank 0 alone asks question after question after the saved cache. */
static void compare_with_each_alone(int shape, const lh_generation *all, const char *what)
{
    lh_comm *self = NULL;
    if (mt_rank() != 0) return;
    mt_try(lh_comm_open_self(&self));
    lh_engine *engine = tiny_engine_open(self, &(lh_engine_options){.model = fix.model[shape], .deterministic = 1});
    for (int i = 0; i < QUESTIONS; i++) {
        lh_generation one = {0};
        request q;
        make_request(&q, 0, 1);
        q.r.policy = NULL;
        q.r.prompt = (lh_tokens){0};
        q.r.load_cache = fix.cache;
        q.r.questions = &fix.questions[i];
        q.r.sampling.request = (uint64_t)i;
        mt_try(lh_generate(engine, &q.r, &one));
        check_same(&all->answers[i], &one.answers[0], what, i);
        lh_generation_clear(&one);
    }
    lh_engine_close(engine);
    lh_comm_close(self);
}

START_TEST(test_questions_have_the_answers_that_each_has_alone)
{
    make_fixture();
    for (int s = 0; s < SHAPES; s++) {
        lh_engine *engine =
            tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[s], .deterministic = 1});
        for (int n = 0; n < CASES; n++) {
            char what[96];
            lh_generation all = {0}, again = {0};
            request q;
            int64_t tokens = CONTEXT;
            snprintf(what, sizeof what, "%s, %s", shapes[s].name, cases[n].policy);
            make_request(&q, n, QUESTIONS);
            q.r.save_cache = fix.cache;
            mt_try(lh_generate(engine, &q.r, &all));
            for (int i = 0; i < QUESTIONS; i++) tokens += fix.questions[i].n;
            mt_check(all.prompt_tokens == tokens, "%s: %d tokens of prompt", what, (int)all.prompt_tokens);
            compare_with_each_alone(s, &all, what);
            mt_try(lh_comm_barrier(mt_comm()));
            make_request(&q, n, QUESTIONS);
            q.r.policy = NULL;
            q.r.prompt = (lh_tokens){0};
            q.r.load_cache = fix.cache;
            mt_try(lh_generate(engine, &q.r, &again));
            for (int i = 0; i < QUESTIONS; i++) check_same(&again.answers[i], &all.answers[i], what, i);
            lh_generation_clear(&all);
            lh_generation_clear(&again);
        }
        lh_engine_close(engine);
    }
    remove_fixture();
    mt_end();
}
END_TEST

/* What a listener has heard. */
typedef struct heard {
    lh_tokens ids[QUESTIONS];
    int64_t latest;
    int in_order;
} heard;

static lh_status hear(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    heard *h = self;
    (void)text;
    (void)bytes;
    h->in_order &= answer >= h->latest;
    h->latest = answer;
    return id < 0 ? LH_OK : lh_tokens_push(&h->ids[answer], id);
}

/* The token that ends an answer is not heard. */
START_TEST(test_a_listener_hears_answer_after_answer)
{
    make_fixture();
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
    lh_generation all = {0};
    heard h = {.in_order = 1};
    request q;
    make_request(&q, 1, QUESTIONS);
    q.r.events = (struct lh_generate_events){.self = &h, .token = hear};
    mt_try(lh_generate(engine, &q.r, &all));
    mt_check(h.in_order, "answers are heard in another order");
    for (int i = 0; i < QUESTIONS; i++) {
        const lh_answer *a = &all.answers[i];
        mt_check(h.ids[i].n == a->ids.n - (a->finish == LH_FINISH_STOP) &&
                     memcmp(h.ids[i].ids, a->ids.ids, (size_t)h.ids[i].n * 4) == 0,
                 "answer %d: %d tokens are heard of %d", i, (int)h.ids[i].n, (int)a->ids.n);
        lh_tokens_clear(&h.ids[i]);
    }
    lh_generation_clear(&all);
    lh_engine_close(engine);
    remove_fixture();
    mt_end();
}
END_TEST

/* Memory for the run of two questions: others wait. */
START_TEST(test_questions_wait_for_memory)
{
    make_fixture();
    for (int n = 0; n < CASES; n += 3) { /* shared entries, and copied ones */
        lh_engine *engine =
            tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0], .deterministic = 1});
        lh_generation two = {0}, free_run = {0}, tight = {0};
        request q;
        make_request(&q, n, 2);
        mt_try(lh_generate(engine, &q.r, &two));
        make_request(&q, n, QUESTIONS);
        mt_try(lh_generate(engine, &q.r, &free_run));
        lh_engine_close(engine);
        int64_t memory = 0;
        for (int r = 0; r < mt_size(); r++) memory = two.peak_bytes[r] > memory ? two.peak_bytes[r] : memory;
        engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.model[0],
                                                                  .memory = memory + LH_CHUNK_SPARE_LEAST + (256 << 10),
                                                                  .deterministic = 1});
        mt_try(lh_generate(engine, &q.r, &tight));
        lh_engine_close(engine);
        for (int i = 0; i < QUESTIONS && tight.complete; i++)
            check_same(&tight.answers[i], &free_run.answers[i], cases[n].policy, i);
        lh_generation_clear(&two);
        lh_generation_clear(&free_run);
        lh_generation_clear(&tight);
    }
    remove_fixture();
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("questions");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_questions_have_the_answers_that_each_has_alone);
    tcase_add_test(all, test_a_listener_hears_answer_after_answer);
    tcase_add_test(all, test_questions_wait_for_memory);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}

/* defaults.c - structs of options that are all zero but for what is required do something sensible, and a wrong member
 * is called by its name: defaults MODEL. */
#include <longhaul/longhaul.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int faults;

static void check(int right, const char *what)
{
    if (right) return;
    fprintf(stderr, "defaults: %s; the last message is '%s'\n", what, lh_error_message());
    faults++;
}

/* The call fails as usage, and its message has the word and no option of the program. */
static void refused(lh_status st, const char *word)
{
    check(st == LH_EUSAGE, word);
    check(strstr(lh_error_message(), word) != NULL, word);
    check(!strstr(lh_error_message(), "--"), "an option in the words of the command line");
    lh_error_clear();
}

static lh_status complete(lh_engine *engine, const lh_completion_options *options)
{
    const lh_completion *answer = NULL;
    lh_status st = lh_complete(&answer, engine, options);
    if (st == LH_OK) check(answer->answer_count == 1 && answer->new_tokens <= 128, "an answer of more than 128 tokens");
    lh_completion_close(answer);
    return st;
}

static lh_status sample(lh_engine *engine, const lh_sampling *sampling)
{
    int32_t id = -1;
    lh_session *session = NULL;
    lh_status st = lh_session_start(&session, engine, &LH_STRUCT(lh_session_start_options, .prompt = 3, .more = 1));
    if (st == LH_OK) st = lh_session_prefill(session, (const int32_t[]){1, 2, 3}, 3, NULL);
    if (st == LH_OK) st = lh_session_sample(session, sampling, 0, &id);
    check(st != LH_OK || id >= 0, "no token");
    lh_session_close(session);
    return st;
}

/* *self: what the scorer does at the last KV head, which the last rank has. */
enum { SCORES, FAILS, DIVIDES };
static lh_status score(void *self, const lh_head_entries *e, float *scores)
{
    int what = e->kv_head == 1 ? *(int *)self : SCORES;
    for (int64_t i = 0; i < e->count; i++) scores[i] = (float)e->positions[i] / (what == DIVIDES ? 0.0f : 2.0f);
    return what == FAILS ? LH_EINPUT : LH_OK;
}

/* The attention of the last two rows, which adds up to the number of rows in each query head. */
static lh_status score_by_attention(void *self, const lh_head_entries *e, float *scores)
{
    double all = 0;
    for (int64_t i = 0; i < e->count; i++) scores[i] = 0;
    for (int64_t i = 0; i < e->count * e->group; i++) {
        scores[i % e->count] += e->attention[i];
        all += (double)e->attention[i];
    }
    check(self == NULL && e->rows == 2 && e->window == 2 && !e->queries && !e->options,
          "other rows than were asked for");
    check(e->last_seen[1] == e->tokens - 1 && e->first_seen[1] == 0, "the last row does not see all entries");
    check(fabs(all - (double)(e->group * e->rows)) < 1e-3, "attention does not add up to the rows");
    return LH_OK;
}

static lh_status complete_with(lh_engine *engine, const lh_scorer *scorer, const char *words)
{
    lh_policy *policy = NULL;
    lh_status st = lh_policy_of_scorer(&policy, scorer, words);
    if (st == LH_OK)
        st = complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a text of some tokens", .policy = policy,
                                         .max_new = 2));
    lh_policy_close(policy);
    return st;
}

static lh_status complete_scored(lh_engine *engine, int what)
{
    return complete_with(engine, &LH_STRUCT(lh_scorer, .self = &what, .score = score), "--budget 4");
}

int main(int argc, char **argv)
{
    lh_world *world = NULL;
    lh_engine *engine = NULL, *none = NULL;
    lh_policy *policy = NULL;
    const lh_sampling zero = {.size = sizeof zero};
    const char *model = argc > 1 ? argv[1] : "";
    lh_log_set_level(LH_LOG_WARN);
    check(lh_world_open(&world, NULL) == LH_OK, "no world");
    check(lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = model)) == LH_OK, "no engine");
    if (faults) return lh_world_close(world, LH_EINTERNAL);

    check(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a text")) == LH_OK, "no answer");
    check(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a text", .sampling = &zero)) == LH_OK,
          "no answer");
    check(sample(engine, &zero) == LH_OK, "a sampling of zeros is refused");
    check(sample(engine, &LH_STRUCT(lh_sampling, .temperature = 0.7)) == LH_OK, "a temperature alone is refused");

    refused(lh_policy_of_scorer(&policy, &(lh_scorer){.size = sizeof(lh_scorer)}, "--budget 4"), "no function");
    check(complete_scored(engine, SCORES) == LH_OK, "a scorer is refused");
    check(complete_scored(engine, FAILS) == LH_EINPUT && strstr(lh_error_message(), "KV head 1 of layer 0") != NULL,
          "a scorer that fails");
    refused(complete_scored(engine, DIVIDES), "scores must be finite");
    const lh_scorer reader = {.size = sizeof reader, .score = score_by_attention, .reads = LH_READS_ATTENTION};
    check(complete_with(engine, &reader, "--budget 4 --window 2") == LH_OK, "a scorer of rows is refused");
    refused(complete_with(engine, &LH_STRUCT(lh_scorer, .score = score, .reads = 8), "--budget 4"),
            "reads of the scorer");
    check(lh_policy_parse(&policy, "./missing.so --budget 4") == LH_EINPUT, "a plug-in that is missing");

    refused(complete(engine, &(lh_completion_options){.size = sizeof(lh_completion_options)}), "prompt");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .max_new = 1 << 30)), "max_new");
    refused(complete(engine, &LH_STRUCT(lh_completion_options, .prompt = "a", .max_new = -1)), "max_new");
    refused(complete(engine,
                     &LH_STRUCT(lh_completion_options, .prompt = "a", .sampling = &LH_STRUCT(lh_sampling, .top_k = 5))),
            "top_k");
    refused(sample(engine, &LH_STRUCT(lh_sampling, .temperature = 1, .top_p = 2)), "top_p");
    refused(sample(engine, &LH_STRUCT(lh_sampling, .repeat_penalty = -1)), "repeat_penalty");
    refused(lh_engine_open(&none, world, &(lh_engine_options){.size = sizeof(lh_engine_options)}), "model");
    refused(lh_engine_open(&none, world, &LH_STRUCT(lh_engine_options, .model = model, .dtype = "f64")), "dtype 'f64'");
    refused(lh_engine_open(&none, world, &LH_STRUCT(lh_engine_options, .model = model, .kv_dtype = "f64")),
            "kv_dtype 'f64'");
    refused(lh_engine_open(&none, world, &LH_STRUCT(lh_engine_options, .model = model, .device = "tpu")),
            "device 'tpu'");
    refused(lh_engine_open(&none, world, &LH_STRUCT(lh_engine_options, .model = model, .tp = 7)), "tp 7");
    check(lh_policy_parse(&policy, "snapkv") == LH_EUSAGE && strstr(lh_error_message(), "'--budget N'") != NULL,
          "a policy is not called as it is written");
    lh_error_clear();

    lh_engine_close(engine);
    return lh_world_close(world, LH_OK) || faults;
}

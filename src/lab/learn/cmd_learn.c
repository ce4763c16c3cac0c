/* cmd_learn.c - `learn`: the weights of '--statistic linear' for a model, from its own prefill of some texts. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "engine/world.h"
#include "lab/eval/input_files.h"
#include "lab/learn/learn.h"
#include "shell/shell.h"

struct learn_options {
    const char *output, *target;
    int64_t tokens, count;
    int json;
};

struct values {
    lh_shell_common common;
    lh_engine_options engine;
    struct learn_options learn;
};

#define FIELD(member) LH_FIELD(struct learn_options, member)
static const lh_option rows[] = {
    {.type = LH_OPT_STR,
     .letter = 'o',
     .name = "output",
     FIELD(output),
     .arg = "FILE",
     .writes = 1,
     .makes = "score-weights",
     .help = "File for the weights. Default: NAME.scores.h5 beside the checkpoint NAME.h5, where every run finds it."},
    {.type = LH_OPT_STR,
     .name = "target",
     FIELD(target),
     .arg = "POLICY",
     .def = LH_LEARN_TARGET,
     .help = "Policy whose scores are learnt, as a name with options."},
    {.type = LH_OPT_TOKENS,
     .name = "length",
     FIELD(tokens),
     .arg = "TOKENS",
     .def = "1500",
     .min = 256,
     .max = INT64_C(1) << 24,
     .help = "Tokens of a prompt, cut from the texts."},
    {.type = LH_OPT_I64,
     .name = "count",
     FIELD(count),
     .arg = "N",
     .def = "8",
     .min = 1,
     .max = 1 << 20,
     .help = "Maximum number of prompts, spread evenly over the texts. More texts of more kinds give better weights."},
    {.type = LH_OPT_FLAG, .name = "json", FIELD(json), .help = "Print one JSON object instead of text."},
    {0}};
#undef FIELD
static const lh_option_table table = {"learning", rows};
static const lh_option_group groups[] = {{&table, offsetof(struct values, learn)},
                                         {&lh_shell_engine_options, offsetof(struct values, engine)},
                                         {&lh_shell_common_options, offsetof(struct values, common)},
                                         {0}};
static const lh_example examples[] = {
    {"longhaul learn -m m.h5 books/", "weights from the texts of a folder, beside the model"},
    {"mpirun --bind-to none -n 4 longhaul learn -m m.h5 --count 32 books/ manual.md -o weights.h5",
     "from more prompts, on four ranks"},
    {"longhaul generate -m m.h5 -f book.txt --question 'Who is Ada?' --policy 'snapkv --statistic linear' --budget 10%",
     "a run that uses them"},
    {0}};
static const lh_syntax syntax = {
    .program = "longhaul",
    .name = "learn",
    .usage = "-m FILE TEXT|FOLDER… [options]",
    .summary = "Learn from a model's own texts which entries of its cache to keep",
    .text = "Scores that look back at the whole prompt know best which entries later questions need, and cost a second "
            "pass. This command lets the model read some texts, and fits a linear function of an entry's own key and "
            "value to such scores, for every KV head (ridge regression). '--statistic linear' then scores by it, at "
            "the end of a prompt and while decoding; '--learnt' uses it beside the attention of rows after the "
            "prompt. It also finds how the model's queries are distributed, which '--refit' draws from, and how many "
            "of the best entries each layer has, for '--layer-budget learnt'.\n\nThe texts "
            "should be of the kinds that prompts will have; a few thousand tokens are enough. "
            "The weights take some KiB to MiB, and are for this model alone.",
    .max_args = 64,
    .reads_args = 1,
    .groups = groups,
    .examples = examples};

typedef struct run {
    lh_call *call;
    struct values *v;
    lh_engine *engine;
    lh_policy target, rows;
    lh_profiles profiles;
    lh_texts texts;
    int32_t *ids;
    int64_t prompts;
    char *output, *record;
    lh_learn_result result;
    double seconds;
} run;

/* ---- prompts ---- */

static lh_status read_texts(run *r)
{
    const char *path;
    for (int64_t i = 0; (path = lh_options_arg(r->call->options, i)); i++) {
        lh_texts more = {0};
        LH_TRY(lh_texts_read(&more, "TEXT", path));
        lh_status st = lh_texts_append(&r->texts, &more);
        lh_texts_clear(&more);
        LH_TRY(st);
    }
    return LH_OK;
}

/* Windows of `tokens` tokens in a text, one after the other. */
static int64_t windows_in(const int64_t *starts, int64_t t, int64_t tokens)
{
    return (starts[t + 1] - starts[t]) / tokens;
}

/* On rank 0: the prompts, windows spread evenly over all that the texts have. */
static lh_status cut_prompts(run *r)
{
    lh_status st = LH_OK;
    const lh_tokenizer *tok = lh_engine_tokenizer(r->engine);
    const int has_bos = lh_tokenizer_adds_bos(tok) && lh_tokenizer_bos(tok) >= 0;
    const int64_t tokens = r->v->learn.tokens, of_text = tokens - has_bos;
    lh_tokens all = {0};
    int64_t *starts = NULL, n = 0;
    LH_TRY_DONE(lh_calloc(&starts, r->texts.n + 1, sizeof *starts));
    LH_TRY_DONE(lh_texts_encode(&r->texts, tok, &all, starts));
    for (int64_t t = 0; t < r->texts.n; t++) n += windows_in(starts, t, of_text);
    if (n == 0)
        LH_FAIL_DONE(LH_EINPUT, "no text has the %lld tokens of a prompt: give a longer one, or a smaller '--length'",
                     (long long)tokens);
    r->prompts = n < r->v->learn.count ? n : r->v->learn.count;
    LH_TRY_DONE(lh_calloc(&r->ids, r->prompts * tokens, sizeof *r->ids));
    for (int64_t p = 0; p < r->prompts; p++) {
        int64_t i = p * n / r->prompts, t = 0;
        for (int64_t has; i >= (has = windows_in(starts, t, of_text)); t++) i -= has;
        int32_t *at = r->ids + p * tokens;
        if (has_bos) *at++ = lh_tokenizer_bos(tok);
        memcpy(at, all.ids + starts[t] + i * of_text, (size_t)of_text * sizeof *at);
    }
done:
    lh_free(starts);
    lh_tokens_clear(&all);
    return st;
}

/* Collective. */
static lh_status share_prompts(run *r)
{
    lh_comm *comm = lh_engine_get(r->engine)->comm;
    lh_status st = lh_shell_first() ? cut_prompts(r) : LH_OK;
    LH_TRY(lh_comm_agree_untimed(comm, st));
    LH_TRY(lh_comm_bcast(comm, 0, &r->prompts, sizeof r->prompts));
    const int64_t count = r->prompts * r->v->learn.tokens;
    if (!lh_shell_first()) st = lh_calloc(&r->ids, count, sizeof *r->ids);
    LH_TRY(lh_comm_agree(comm, st));
    return lh_comm_bcast(comm, 0, r->ids, count * (int64_t)sizeof *r->ids);
}

/* ---- the run ---- */

/* All entries get scores, and it does not matter which entries stay; but a sliding layer whose window fits into the
 * budget has no scores. */
static lh_status resolve(lh_policy *out, const char *words, lh_profiles *profiles)
{
    const lh_status st =
        lh_policy_resolve(out, &(lh_policy_options){.policy = words, .budget = "5%", .profiles = profiles});
    if (st != LH_OK) return lh_fail_within(st, "with '--target %s' and a budget of 5%%", words);
    if (!out->evicts || out->block || lh_policy_has_scorer(out))
        LH_FAIL(LH_EUSAGE, "'--target %s' has no scores of its own at the end of a prompt: name another policy", words);
    return LH_OK;
}

static lh_status name_output(run *r)
{
    if (r->v->learn.output) return lh_strdup(&r->output, r->v->learn.output);
    LH_TRY(lh_score_weights_name(&r->output, r->v->engine.model));
    if (!r->output)
        LH_FAIL(LH_EUSAGE, "'%s' is no file beside which the weights could lie: name one with '--output'",
                r->v->engine.model);
    return LH_OK;
}

static lh_status open_all(run *r)
{
    lh_status st = LH_OK;
    const char *const files[] = {r->v->engine.model, NULL};
    if (!lh_options_arg(r->call->options, 0))
        LH_FAIL(LH_EUSAGE, "nothing to learn from: give a text, or a folder of texts");
    LH_TRY(resolve(&r->target, r->v->learn.target, &r->profiles));
    LH_TRY(resolve(&r->rows, LH_LEARN_ROWS, NULL));
    LH_TRY(name_output(r));
    LH_TRY(lh_shell_record(r->call, &r->record));
    LH_TRY(lh_shell_open_world(r->call, files));
    LH_TRY(lh_shell_same_policies(r->call, &r->profiles));
    if (lh_shell_first()) {
        st = read_texts(r);
        if (st == LH_OK) st = lh_file_claim(r->output, 1 << 16);
    }
    LH_TRY(lh_comm_agree_untimed(lh_world_comm(r->call->world), st));
    lh_interrupt_begin();
    LH_TRY(lh_engine_open_on(&r->engine, lh_world_comm(r->call->world), &r->v->engine));
    LH_TRY(lh_engine_size_policy(r->engine, &r->target));
    LH_TRY(share_prompts(r));
    if (r->v->learn.tokens > lh_engine_get(r->engine)->config->max_positions)
        LH_FAIL(LH_EUSAGE, "'--length %lld' is more than the %lld positions of the model",
                (long long)r->v->learn.tokens, (long long)lh_engine_get(r->engine)->config->max_positions);
    return LH_OK;
}

/* Over the KV heads that were learnt. Returns how many were not. */
static int64_t explained(const run *r, double *mean, double *least)
{
    const lh_score_weights *w = &r->result.weights;
    const int64_t all = w->layers * w->kv_heads;
    int64_t n = 0;
    *mean = 0;
    *least = 1;
    for (int64_t i = 0; i < all; i++) {
        const double x = (double)r->result.explained[i];
        if (x < 0) continue;
        n++;
        *mean += x;
        if (x < *least) *least = x;
    }
    if (n) *mean /= (double)n;
    return all - n;
}

/* [layers] for the report. */
static json_t *layer_shares(const run *r)
{
    json_t *all = json_array();
    const lh_score_weights *w = &r->result.weights;
    for (int64_t l = 0; l < w->layers; l++) {
        double sum = 0;
        for (int64_t h = 0; h < w->kv_heads; h++) sum += (double)*lh_score_weights_share(w, l * w->kv_heads + h);
        json_array_append_new(all, json_real(sum));
    }
    return all;
}

static lh_status print(const run *r)
{
    lh_status st = LH_OK;
    const lh_score_weights *w = &r->result.weights;
    const int64_t features = lh_feature_count(lh_engine_get(r->engine)->config->head_dim);
    const int64_t tokens = r->prompts * r->v->learn.tokens;
    double mean, least;
    lh_buf text = {0};
    json_t *object = NULL;
    const int64_t unscored = explained(r, &mean, &least);
    if (unscored)
        lh_warn(
            "%lld KV heads were not learnt, because their windows hold fewer entries than the budget: give a longer "
            "'--length'",
            (long long)unscored);
    if (r->v->learn.json) {
        object = json_pack("{ss, sI, sI, sI, sI, sf, sf, so, sf}", "output", r->output, "prompts",
                           (json_int_t)r->prompts, "tokens", (json_int_t)tokens, "kv_heads",
                           (json_int_t)(w->layers * w->kv_heads), "weights", (json_int_t)features, "explained", mean,
                           "explained_least", least, "layer_shares", layer_shares(r), "seconds", r->seconds);
        if (!object) LH_FAIL_DONE(LH_ENOMEM, "cannot allocate memory for the report");
        LH_TRY_DONE(lh_shell_write_json(object));
        goto done;
    }
    LH_TRY_DONE(lh_buf_printf(&text,
                              "%s: %lld weights for each of %lld KV heads, from %lld prompts, %lld tokens, in %.1f s\n"
                              "they explain %.2f of the variance of the scores of '%s' (mean of heads; least %.2f)\n",
                              r->output, (long long)features, (long long)(w->layers * w->kv_heads),
                              (long long)r->prompts, (long long)tokens, r->seconds, mean, r->v->learn.target, least));
    LH_TRY_DONE(lh_shell_write_plain(&text));
done:
    json_decref(object);
    lh_buf_clear(&text);
    return st;
}

static lh_status learn(run *r)
{
    const double start = lh_clock_s();
    const lh_learn_request request = {.ids = r->ids,
                                      .prompts = r->prompts,
                                      .tokens = r->v->learn.tokens,
                                      .target = &r->target,
                                      .rows = &r->rows,
                                      .profiles = &r->profiles,
                                      .ridge = 1e-3,
                                      .share = LH_LEARN_SHARE};
    LH_TRY(lh_learn(&r->result, r->engine, &request));
    r->seconds = lh_clock_s() - start;
    if (!lh_shell_first()) return LH_OK;
    LH_TRY(lh_score_weights_write(&r->result.weights, r->output, r->record));
    return print(r);
}

static lh_status run_learn(lh_call *call)
{
    run r = {.call = call, .v = call->values};
    lh_status st = open_all(&r);
    if (st == LH_OK) st = lh_comm_agree(lh_engine_get(r.engine)->comm, learn(&r));
    if (r.output && lh_shell_first()) lh_partial_drop(r.output);
    lh_learn_result_clear(&r.result);
    lh_engine_close(r.engine);
    lh_profiles_clear(&r.profiles);
    lh_texts_clear(&r.texts);
    lh_free(r.ids);
    lh_free(r.output);
    free(r.record);
    return st;
}

const lh_command lh_command_learn = {&syntax, sizeof(struct values), run_learn, NULL};

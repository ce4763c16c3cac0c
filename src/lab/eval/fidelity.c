/* fidelity.c - runs the task `fidelity`: cuts windows from the texts, lets the full cache generate the reference for
 * each window, forces it on the cache of every policy (KL divergence, same best token), and decodes again greedily
 * where a policy would have chosen another token. */
#include "lab/eval/fidelity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/markdown.h"
#include "engine/prompt.h"
#include "lab/eval/measures.h"
#include "lab/eval/text_metrics.h"
#include "model/sampler.h"

/* Columns of the tables. */
enum {
    W_POLICY,
    W_BUDGET,
    W_LENGTH,
    W_WINDOW,
    W_TOKENS,
    W_AGREEMENT,
    W_DIVERGED,
    W_ROUGE1,
    W_ROUGE2,
    W_ROUGEL,
    W_BLEU,
    W_KL,
    W_BEST,
    W_TEXT,
    W_FIGURES,
    W_COLUMNS = W_FIGURES + LH_FIGURES
};

enum { R_POLICY, R_BUDGET, R_LENGTH, R_WINDOW, R_ROUGE1, R_ROUGE2, R_ROUGEL, R_BLEU, R_TEXT, R_COLUMNS };

/* ---- windows ---- */

typedef struct window {
    lh_tokens ids;                   /* with the beginning-of-sequence token if the tokenizer adds one */
    lh_tokens context, question_ids; /* of the reconstruction: the window as a prompt, and the instruction */
    lh_buf text;                     /* rank 0 */
    int64_t length, number;
} window;

typedef struct run {
    lh_engine *engine;
    const lh_fidelity_request *request;
    lh_fidelity_result *out;
    lh_table *tables[3]; /* of the result, ends with NULL */
    window *windows;
    int64_t n;
    lh_eval_format chat; /* of the reconstruction */
    lh_eval_work work;
    const window *now;
    lh_session *session; /* of the full cache, while it generates */
    lh_tokens full;      /* the full cache's continuation of this window */
    float *full_logits;  /* [full.n - 1, vocab] after its tokens, rank 0 */
    lh_buf full_text;
} run;

static int is_root(const run *r)
{
    return lh_comm_rank(lh_engine_get(r->engine)->comm) == 0;
}

/* Where window `number` of the `count` windows begins, which are spread evenly over all that the texts have; -1 - n if
 * they have only n. */
static int64_t window_start(const run *r, const int64_t *starts, int64_t tokens, int64_t number)
{
    int64_t all = 0, wanted;
    for (int64_t t = 0; t < r->request->texts->n; t++) all += (starts[t + 1] - starts[t]) / tokens;
    if (all < r->request->count) return -all - 1;
    wanted = number * all / r->request->count;
    for (int64_t t = 0;; t++) {
        int64_t has = (starts[t + 1] - starts[t]) / tokens;
        if (wanted < has) return starts[t] + wanted * tokens;
        wanted -= has;
    }
}

static lh_status ask_to_repeat(run *r, window *w)
{
    lh_status st = LH_OK;
    const lh_fidelity_request *q = r->request;
    lh_tokens *questions = NULL;
    lh_buf question = {0};
    LH_TRY_DONE(r->chat.format ? lh_buf_puts(&question, q->repeat) : lh_buf_printf(&question, "\n\n%s\n\n", q->repeat));
    LH_TRY_DONE(lh_prompt_encode(lh_engine_tokenizer(r->engine),
                                 &(lh_prompt_text){.text = w->text.data,
                                                   .bytes = w->text.bytes,
                                                   .questions = (const char *const[]){question.data},
                                                   .question_count = 1,
                                                   .chat = r->chat.format != NULL,
                                                   .format = r->chat.format,
                                                   .arguments = r->chat.arguments},
                                 &w->context, &questions));
    w->question_ids = questions[0];
done:
    lh_free(questions);
    lh_buf_clear(&question);
    return st;
}

static lh_status cut_window(run *r, window *w, const lh_tokens *ids, const int64_t *starts)
{
    const lh_tokenizer *tok = lh_engine_tokenizer(r->engine);
    const int first = lh_tokenizer_adds_bos(tok) && lh_tokenizer_bos(tok) >= 0;
    const int64_t tokens = w->length - first;
    if (tokens < 1) LH_FAIL(LH_EUSAGE, "'--length %lld' leaves no token of text", (long long)w->length);
    const int64_t start = window_start(r, starts, tokens, w->number);
    if (start < 0)
        LH_FAIL(LH_EINPUT,
                "the texts have %lld windows of %lld tokens, fewer than %lld: give more text ('--text'), or reduce "
                "'--count' or '--length'",
                (long long)(-start - 1), (long long)w->length, (long long)r->request->count);
    if (first) LH_TRY(lh_tokens_push(&w->ids, lh_tokenizer_bos(tok)));
    for (int64_t i = 0; i < tokens; i++) LH_TRY(lh_tokens_push(&w->ids, ids->ids[start + i]));
    LH_TRY(lh_eval_text(tok, ids->ids + start, tokens, &w->text));
    if (r->request->reconstruct) LH_TRY(ask_to_repeat(r, w));
    return LH_OK;
}

static lh_status cut_windows(run *r)
{
    lh_status st = LH_OK;
    const lh_fidelity_request *q = r->request;
    lh_tokens ids = {0};
    int64_t *starts = NULL;
    LH_TRY_DONE(lh_calloc(&starts, q->texts->n + 1, sizeof *starts));
    LH_TRY_DONE(lh_texts_encode(q->texts, lh_engine_tokenizer(r->engine), &ids, starts));
    for (int64_t i = 0; i < r->n; i++) LH_TRY_DONE(cut_window(r, &r->windows[i], &ids, starts));
done:
    lh_free(starts);
    lh_tokens_clear(&ids);
    return st;
}

/* Maximum tokens of the answer that repeats a window. */
static int64_t repeat_max(const run *r, const window *w)
{
    return r->request->repeat_max ? r->request->repeat_max : w->ids.n;
}

/* Checks all that is known before the windows are cut; the same on all ranks. */
static lh_status check_request(const run *r)
{
    const lh_fidelity_request *q = r->request;
    LH_TRY(lh_eval_check_tokenizer(r->engine));
    if (q->setup.max_new < 2)
        LH_FAIL(LH_EUSAGE, "'--max-new' must be 2 or more: the first token is the same for every cache");
    for (int64_t p = 0; p < q->setup.policies->n; p++)
        LH_TRY(lh_policy_check_question(&q->setup.policies->at[p].policy));
    return lh_eval_check_lengths(&q->setup, lh_engine_get(r->engine)->config, q->lengths, q->length_count);
}

/* Checks the lengths of the reconstructions, once the windows are cut. */
static lh_status check_repeated(const run *r)
{
    const lh_config *c = lh_engine_get(r->engine)->config;
    for (int64_t i = 0; i < r->n && r->request->reconstruct; i++) {
        const window *w = &r->windows[i];
        const int64_t all = w->context.n + w->question_ids.n + repeat_max(r, w);
        if (all > c->max_positions)
            LH_FAIL(LH_EUSAGE,
                    "a window of %lld tokens, the instruction and the repeated text are %lld tokens, more than "
                    "the %lld positions of the model: reduce '--length' or '--repeat-max'",
                    (long long)w->length, (long long)all, (long long)c->max_positions);
    }
    return LH_OK;
}

/* Of the windows that are not finished. */
static void plan_work(run *r)
{
    const lh_fidelity_request *q = r->request;
    const lh_config *config = lh_engine_get(r->engine)->config;
    r->work.progress = q->setup.progress;
    r->work.prompt_total = r->n;
    r->work.prompts = r->work.resumed;
    for (int64_t i = r->work.resumed; i < r->n; i++) {
        const window *w = &r->windows[i];
        lh_policies_expect(&r->work, &q->setup, config, &(lh_policies_plan){w->ids.n, 2 * q->setup.max_new});
        if (q->reconstruct)
            lh_policies_expect(&r->work, &q->setup, config, &(lh_policies_plan){w->context.n, repeat_max(r, w)});
    }
    lh_work_begin(&r->work);
}

static lh_status open_run(run *r)
{
    lh_status st = LH_OK;
    const lh_fidelity_request *q = r->request;
    lh_comm *comm = lh_engine_get(r->engine)->comm;
    r->n = q->length_count * q->count;
    LH_TRY(lh_comm_agree(comm, check_request(r)));
    LH_TRY(lh_eval_format_open(&r->chat, r->engine, &q->chat));
    st = lh_calloc(&r->windows, r->n, sizeof *r->windows);
    for (int64_t i = 0; r->windows && i < r->n; i++) {
        r->windows[i].length = q->lengths[i / q->count];
        r->windows[i].number = i % q->count;
    }
    if (st == LH_OK && is_root(r)) st = cut_windows(r);
    LH_TRY(lh_comm_agree_untimed(comm, st));
    for (int64_t i = 0; i < r->n; i++) {
        window *w = &r->windows[i];
        LH_TRY(lh_prompt_share(comm, &w->ids));
        LH_TRY(lh_prompt_share(comm, &w->context));
        LH_TRY(lh_prompt_share(comm, &w->question_ids));
    }
    LH_TRY(lh_comm_agree(comm, check_repeated(r)));
    LH_TRY(lh_resume_begin(q->setup.resume, comm, r->tables, &r->work.resumed));
    plan_work(r);
    return st;
}

/* ---- the reference, and policies compared with it ---- */

/* Keeps the full cache's logits after a token was fed. */
static lh_status keep_logits(void *self, int64_t fed)
{
    run *r = self;
    const int64_t vocab = lh_engine_get(r->engine)->config->vocab;
    const float *row = NULL;
    int64_t rows;
    LH_TRY(lh_session_logits(r->session, &row, &rows));
    if (row) memcpy(r->full_logits + (fed - 1) * vocab, row, (size_t)vocab * sizeof(float));
    lh_work_show(&r->work, LH_WORK_ANSWER, (double)fed);
    return LH_OK;
}

/* The full cache's greedy continuation, with the logits after every token but the last. */
static lh_status generate_reference(run *r, lh_session *session)
{
    lh_status st = LH_OK;
    const int64_t vocab = lh_engine_get(r->engine)->config->vocab, max_new = r->request->setup.max_new;
    r->full.n = r->full_text.bytes = 0;
    r->session = session;
    if (is_root(r) && !r->full_logits) st = lh_calloc(&r->full_logits, (max_new - 1) * vocab, sizeof(float));
    LH_TRY(lh_comm_agree(lh_engine_get(r->engine)->comm, st));
    LH_TRY(lh_session_decode(session,
                             &(lh_decode){.sampling = lh_greedy, .max_new = max_new, .self = r, .step = keep_logits},
                             &r->full, NULL));
    if (is_root(r)) LH_TRY(lh_eval_text(lh_engine_tokenizer(r->engine), r->full.ids, r->full.n, &r->full_text));
    return st;
}

/* Forces the full cache's tokens on another cache. *same: tokens before the first that it would have chosen
 * differently. */
static lh_status force_reference(run *r, lh_session *session, double *kl, double *best, int64_t *same)
{
    const int64_t vocab = lh_engine_get(r->engine)->config->vocab, n = r->full.n;
    const float *row = NULL;
    int64_t rows, agreed = 0;
    double sum = 0;
    int32_t first;
    LH_TRY(lh_session_draw(session, &lh_greedy, 0, &first));
    *same = first == r->full.ids[0] ? n : 0;
    for (int64_t i = 1; i < n; i++) {
        LH_TRY(lh_session_step(session, r->full.ids[i - 1]));
        LH_TRY(lh_session_logits(session, &row, &rows));
        lh_work_show(&r->work, LH_WORK_ANSWER, (double)i);
        if (!row) continue;
        const float *full = r->full_logits + (i - 1) * vocab;
        const int64_t own = lh_best_of(row, vocab);
        sum += lh_kl_of(full, row, vocab);
        agreed += own == lh_best_of(full, vocab);
        if (own != r->full.ids[i] && *same == n) *same = i;
    }
    *kl = n > 1 ? sum / (double)(n - 1) : (double)NAN;
    *best = n > 1 ? (double)agreed / (double)(n - 1) : (double)NAN;
    LH_TRY(lh_comm_bcast(lh_engine_get(r->engine)->comm, 0, same, sizeof *same));
    return LH_OK;
}

static lh_status judge(run *r, const lh_cache_at *at, const lh_tokens *ids, lh_cell *row)
{
    lh_status st = LH_OK;
    const lh_policy_choice *choice = &r->request->setup.policies->at[at->policy];
    lh_buf text = {0};
    lh_similarity like;
    int64_t agreed = 0, same = 0;
    const int64_t n = r->full.n;
    LH_TRY_DONE(lh_eval_text(lh_engine_tokenizer(r->engine), ids->ids, ids->n, &text));
    LH_TRY_DONE(lh_similarity_of(&like, r->full_text.data, text.data));
    while (same < n && same < ids->n && ids->ids[same] == r->full.ids[same]) same++;
    for (int64_t i = 1; i < n && i < ids->n; i++) agreed += ids->ids[i] == r->full.ids[i];
    row[W_POLICY].text = choice->name;
    row[W_BUDGET].text = choice->budget;
    row[W_LENGTH].number = r->now->length;
    row[W_WINDOW].number = r->now->number;
    row[W_TOKENS].number = n;
    row[W_AGREEMENT].value = n > 1 ? (double)agreed / (double)(n - 1) : (double)NAN;
    row[W_DIVERGED].number = same;
    row[W_ROUGE1].value = like.rouge1;
    row[W_ROUGE2].value = like.rouge2;
    row[W_ROUGEL].value = like.rougel;
    row[W_BLEU].value = like.bleu;
    row[W_TEXT].text = text.data;
    lh_figures_put(&row[W_FIGURES], &at->figures);
    LH_TRY_DONE(lh_table_add(&r->out->windows, row));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status compare_policy(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    run *r = self;
    lh_cell row[W_COLUMNS] = {{0}};
    lh_tokens own = {0};
    const lh_tokens *ids = &r->full;
    lh_cache_at now = *at;
    double start = lh_clock_s();
    int64_t same = r->request->setup.max_new;
    row[W_KL].value = 0;
    row[W_BEST].value = 1;
    if (at->policy == 0) {
        LH_TRY_DONE(generate_reference(r, at->session));
        if (r->full.n < 2) row[W_KL].value = row[W_BEST].value = (double)NAN;
    } else {
        LH_TRY_DONE(force_reference(r, at->session, &row[W_KL].value, &row[W_BEST].value, &same));
    }
    now.figures.decode_s = lh_eval_seconds(&r->request->setup, start);
    lh_work_advance(&r->work, LH_WORK_ANSWER, (double)r->request->setup.max_new);
    if (same < r->full.n) { /* its own continuation differs: generate it */
        LH_TRY_DONE(lh_cache_restart(at));
        start = lh_clock_s();
        LH_TRY_DONE(lh_eval_generate(at->session, &(lh_eval_answer){NULL, r->request->setup.max_new, &r->work}, &own));
        now.figures.decode_s = lh_eval_seconds(&r->request->setup, start);
        ids = &own;
    } else {
        lh_work_advance(&r->work, LH_WORK_ANSWER, (double)r->request->setup.max_new);
    }
    if (is_root(r)) st = judge(r, &now, ids, row);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(r->engine)->comm, st));
done:
    lh_tokens_clear(&own);
    return st;
}

static lh_status judge_repeated(run *r, int64_t policy, const lh_tokens *ids)
{
    lh_status st = LH_OK;
    const lh_policy_choice *choice = &r->request->setup.policies->at[policy];
    lh_buf text = {0};
    lh_similarity like;
    LH_TRY_DONE(lh_eval_text(lh_engine_tokenizer(r->engine), ids->ids, ids->n, &text));
    LH_TRY_DONE(lh_similarity_of(&like, r->now->text.data, text.data));
    LH_TRY_DONE(lh_table_add(&r->out->repeated, (lh_cell[R_COLUMNS]){[R_POLICY] = {.text = choice->name},
                                                                     [R_BUDGET] = {.text = choice->budget},
                                                                     [R_LENGTH] = {.number = r->now->length},
                                                                     [R_WINDOW] = {.number = r->now->number},
                                                                     [R_ROUGE1] = {.value = like.rouge1},
                                                                     [R_ROUGE2] = {.value = like.rouge2},
                                                                     [R_ROUGEL] = {.value = like.rougel},
                                                                     [R_BLEU] = {.value = like.bleu},
                                                                     [R_TEXT] = {.text = text.data}}));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status repeat(void *self, const lh_cache_at *at)
{
    lh_status st = LH_OK;
    run *r = self;
    lh_tokens ids = {0};
    LH_TRY_DONE(lh_session_block(at->session, r->now->question_ids.ids, r->now->question_ids.n));
    LH_TRY_DONE(lh_eval_generate(at->session, &(lh_eval_answer){&r->chat.ends, repeat_max(r, r->now), &r->work}, &ids));
    if (is_root(r)) st = judge_repeated(r, at->policy, &ids);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(r->engine)->comm, st));
done:
    lh_tokens_clear(&ids);
    return st;
}

static lh_status run_window(run *r)
{
    const lh_fidelity_request *q = r->request;
    const window *w = r->now;
    char name[64];
    snprintf(name, sizeof name, "%04lld-%lld", (long long)w->number, (long long)w->length);
    LH_TRY(lh_run_policies(r->engine,
                           &(lh_policies_request){.setup = &q->setup,
                                                  .name = name,
                                                  .prompt = &w->ids,
                                                  .more = q->setup.max_new,
                                                  .seed = q->setup.seed + (uint64_t)w->number,
                                                  .work = &r->work},
                           compare_policy, r));
    if (!q->reconstruct) return LH_OK;
    snprintf(name, sizeof name, "%04lld-%lld-repeated", (long long)w->number, (long long)w->length);
    LH_TRY(lh_run_policies(r->engine,
                           &(lh_policies_request){.setup = &q->setup,
                                                  .name = name,
                                                  .prompt = &w->context,
                                                  .more = w->question_ids.n + repeat_max(r, w),
                                                  .block = w->question_ids.n,
                                                  .seed = q->setup.seed + (uint64_t)w->number,
                                                  .work = &r->work},
                           repeat, r));
    return LH_OK;
}

/* Warns of windows after which the full cache generates nothing. */
static void warn_of_silence(const lh_fidelity_result *result)
{
    int64_t silent = 0, windows = 0;
    for (int64_t i = 0; i < result->windows.n; i++) {
        const lh_cell *row = lh_table_row(&result->windows, i);
        if (strcmp(row[W_POLICY].text, "full") != 0) continue;
        windows++;
        silent += row[W_TOKENS].number < 2;
    }
    if (silent)
        lh_warn("after %lld of %lld windows the full cache ends with its first token: these windows do not compare "
                "policies",
                (long long)silent, (long long)windows);
}

lh_status lh_fidelity_run(lh_fidelity_result *out, lh_engine *engine, const lh_fidelity_request *request)
{
    lh_status st = LH_OK;
    run r = {.engine = engine, .request = request, .out = out, .tables = {&out->windows, &out->repeated}};
    *out = (lh_fidelity_result){.request = request};
    lh_table_init(&out->windows, lh_fidelity_columns);
    lh_table_init(&out->repeated, lh_repeated_columns);
    LH_TRY_DONE(open_run(&r));
    for (int64_t i = r.work.resumed; i < r.n; i++) {
        r.now = &r.windows[i];
        LH_TRY_DONE(run_window(&r));
        lh_eval_finish_prompt(&request->setup, &r.work, r.tables);
    }
    warn_of_silence(out);
done:
    for (int64_t i = 0; r.windows && i < r.n; i++) {
        lh_tokens_clear(&r.windows[i].ids);
        lh_tokens_clear(&r.windows[i].context);
        lh_tokens_clear(&r.windows[i].question_ids);
        lh_buf_clear(&r.windows[i].text);
    }
    lh_free(r.windows);
    lh_free(r.full_logits);
    lh_buf_clear(&r.full_text);
    lh_tokens_clear(&r.full);
    lh_eval_format_close(&r.chat);
    return st;
}

void lh_fidelity_result_clear(lh_fidelity_result *result)
{
    lh_table_clear(&result->windows);
    lh_table_clear(&result->repeated);
    *result = (lh_fidelity_result){0};
}

/* ---- tables ---- */

#define BUDGET "entries per KV head, or % of the prompt"
#define SIMILARITY_OF(what, first)                                                        \
    [first] = {"rouge1", "F1 of words" what, LH_COLUMN_F64},                              \
    [first + 1] = {"rouge2", "F1 of pairs of words" what, LH_COLUMN_F64},                 \
    [first + 2] = {"rougel", "F1 of the longest common subsequence" what, LH_COLUMN_F64}, \
    [first + 3] = {"bleu", "0 to 1" what, LH_COLUMN_F64}

const lh_column lh_fidelity_columns[] = {[W_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                         [W_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                         [W_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                         [W_WINDOW] = {"window", "", LH_COLUMN_I64},
                                         [W_TOKENS] = {"tokens", "tokens", LH_COLUMN_I64},
                                         [W_AGREEMENT] = {"agreement", "share of tokens", LH_COLUMN_F64},
                                         [W_DIVERGED] = {"diverged_at", "tokens", LH_COLUMN_I64},
                                         SIMILARITY_OF("", W_ROUGE1),
                                         [W_KL] = {"kl", "nats", LH_COLUMN_F64},
                                         [W_BEST] = {"best", "share of tokens", LH_COLUMN_F64},
                                         [W_TEXT] = {"text", "", LH_COLUMN_TEXT},
                                         LH_FIGURE_COLUMNS(W_FIGURES),
                                         [W_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};
const lh_column lh_repeated_columns[] = {[R_POLICY] = {"policy", "", LH_COLUMN_LABEL},
                                         [R_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
                                         [R_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
                                         [R_WINDOW] = {"window", "", LH_COLUMN_I64},
                                         SIMILARITY_OF("", R_ROUGE1),
                                         [R_TEXT] = {"text", "", LH_COLUMN_TEXT},
                                         [R_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

enum {
    M_POLICY,
    M_BUDGET,
    M_LENGTH,
    M_WINDOWS,
    M_MEASURES,                  /* the first of them */
    M_REPEATED = M_MEASURES + 8, /* the first measure of the reconstructions */
    M_FIGURES = M_REPEATED + 4,
    M_COLUMNS = M_FIGURES + LH_MEAN_FIGURES
};

const lh_column lh_fidelity_mean_columns[] = {
    [M_POLICY] = {"policy", "", LH_COLUMN_LABEL},
    [M_BUDGET] = {"budget", BUDGET, LH_COLUMN_LABEL},
    [M_LENGTH] = {"length", "tokens", LH_COLUMN_I64},
    [M_WINDOWS] = {"windows", "windows", LH_COLUMN_I64},
    [M_MEASURES] = {"agreement", "share of tokens", LH_COLUMN_F64},
    {"diverged_at", "tokens", LH_COLUMN_F64},
    SIMILARITY_OF("", M_MEASURES + 2),
    [M_MEASURES + 6] = {"kl", "nats", LH_COLUMN_F64},
    [M_MEASURES + 7] = {"best", "share of tokens", LH_COLUMN_F64},
    [M_REPEATED] = {"repeated_rouge1", "F1 of words", LH_COLUMN_F64},
    {"repeated_rouge2", "F1 of pairs of words", LH_COLUMN_F64},
    {"repeated_rougel", "F1 of the longest common subsequence", LH_COLUMN_F64},
    {"repeated_bleu", "0 to 1", LH_COLUMN_F64},
    LH_MEAN_FIGURE_COLUMNS(M_FIGURES, "agreement"),
    [M_COLUMNS] = {NULL, NULL, LH_COLUMN_TEXT}};

/* The first columns are the same in both tables: policy, budget, length, window. */
_Static_assert(W_WINDOW == 3 && R_WINDOW == 3, "columns that name a row");

static int is_of(const lh_cell *row, const lh_policy_choice *choice, int64_t length)
{
    return row[W_LENGTH].number == length && strcmp(row[W_POLICY].text, choice->name) == 0 &&
           strcmp(row[W_BUDGET].text, choice->budget) == 0;
}

/* Mean of a column over the rows of a policy and length; NAN if there are none. *n: number of rows. */
static double mean_of(const lh_table *table, const lh_policy_choice *choice, int64_t length, int64_t column, int64_t *n)
{
    double sum = 0;
    int64_t had = 0;
    *n = 0;
    for (int64_t i = 0; i < table->n; i++) {
        const lh_cell *row = lh_table_row(table, i);
        if (!is_of(row, choice, length)) continue;
        double value = table->columns[column].type == LH_COLUMN_I64 ? (double)row[column].number : row[column].value;
        (*n)++;
        if (isnan(value)) continue;
        sum += value;
        had++;
    }
    return had ? sum / (double)had : (double)NAN;
}

static lh_figure_sums figures_of(const lh_table *windows, const lh_policy_choice *choice, int64_t length)
{
    lh_figure_sums sums = {0};
    for (int64_t i = 0; i < windows->n; i++) {
        const lh_cell *row = lh_table_row(windows, i);
        if (is_of(row, choice, length)) lh_figures_add(&sums, &row[W_FIGURES]);
    }
    return sums;
}

lh_status lh_fidelity_means(const lh_fidelity_result *result, lh_table *means)
{
    const lh_fidelity_request *q = result->request;
    lh_table_init(means, lh_fidelity_mean_columns);
    for (int64_t l = 0; l < q->length_count; l++)
        for (int64_t p = 0; p < q->setup.policies->n; p++) {
            const lh_policy_choice *choice = &q->setup.policies->at[p];
            lh_cell row[M_COLUMNS] = {[M_POLICY] = {.text = choice->name},
                                      [M_BUDGET] = {.text = choice->budget},
                                      [M_LENGTH] = {.number = q->lengths[l]}};
            int64_t n = 0, unused;
            for (int64_t m = 0; m < M_REPEATED - M_MEASURES; m++)
                row[M_MEASURES + m].value = mean_of(&result->windows, choice, q->lengths[l], W_AGREEMENT + m, &n);
            for (int64_t m = 0; m < M_FIGURES - M_REPEATED; m++)
                row[M_REPEATED + m].value = mean_of(&result->repeated, choice, q->lengths[l], R_ROUGE1 + m, &unused);
            if (n == 0) continue;
            const lh_figure_sums figures = figures_of(&result->windows, choice, q->lengths[l]);
            row[M_WINDOWS].number = n;
            lh_mean_figures_put(&row[M_FIGURES], &(lh_mean_figures){row[M_MEASURES].value, &figures, q->setup.model});
            LH_TRY(lh_table_add(means, row));
        }
    return LH_OK;
}

/* ---- text ---- */

static const char *const headings[] = {"policy",  "budget", "agreement", "diverged at", "ROUGE-1",           "ROUGE-2",
                                       "ROUGE-L", "BLEU",   "KL",        "same best",   "repeated: ROUGE-1", "ROUGE-2",
                                       "ROUGE-L", "BLEU"};
enum { HEADINGS = sizeof headings / sizeof *headings, MEASURES_AT = 2 };

/* Fills the table with the means of a length. */
static lh_status fill_table(const lh_markdown *table, const lh_table *means, int64_t length)
{
    int64_t r = 1;
    for (int64_t c = 0; c < table->width; c++) LH_TRY(lh_buf_puts(lh_markdown_cell(table, 0, c), headings[c]));
    for (int64_t i = 0; i < means->n; i++) {
        const lh_cell *row = lh_table_row(means, i);
        if (row[M_LENGTH].number != length) continue;
        LH_TRY(lh_buf_puts(lh_markdown_cell(table, r, 0), row[M_POLICY].text));
        LH_TRY(lh_buf_puts(lh_markdown_cell(table, r, 1), *row[M_BUDGET].text ? row[M_BUDGET].text : "all"));
        for (int64_t c = MEASURES_AT; c < table->width; c++) {
            const double value = row[M_MEASURES + c - MEASURES_AT].value;
            const int digits = c == MEASURES_AT + 1 ? 1 : 3; /* a number of tokens */
            lh_buf *cell = lh_markdown_cell(table, r, c);
            LH_TRY(isnan(value) ? lh_buf_puts(cell, "–") : lh_buf_printf(cell, "%.*f", digits, value));
        }
        r++;
    }
    return LH_OK;
}

static int64_t rows_of(const lh_table *means, int64_t length, int64_t *windows)
{
    int64_t n = 0;
    for (int64_t i = 0; i < means->n; i++) {
        const lh_cell *row = lh_table_row(means, i);
        if (row[M_LENGTH].number != length) continue;
        if (n++ == 0) *windows = row[M_WINDOWS].number;
    }
    return n;
}

static lh_status print_length(const lh_fidelity_result *result, const lh_table *means, int64_t length, lh_buf *out)
{
    lh_status st = LH_OK;
    const int64_t width = result->repeated.n ? HEADINGS : HEADINGS - (M_FIGURES - M_REPEATED);
    int64_t windows = 0, rows = rows_of(means, length, &windows);
    lh_markdown table = {0};
    if (rows == 0) return LH_OK;
    LH_TRY_DONE(lh_markdown_init(&table, rows + 1, width));
    LH_TRY_DONE(fill_table(&table, means, length));
    LH_TRY_DONE(lh_buf_printf(out,
                              "%s%lld tokens, %lld generated: means of %lld window%s compared with the full cache\n\n",
                              out->bytes ? "\n" : "", (long long)length, (long long)result->request->setup.max_new,
                              (long long)windows, windows == 1 ? "" : "s"));
    LH_TRY_DONE(lh_markdown_print(&table, 1, out));
done:
    lh_markdown_clear(&table);
    return st;
}

lh_status lh_fidelity_print(const lh_fidelity_result *result, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_table means = {0};
    LH_TRY_DONE(lh_fidelity_means(result, &means));
    for (int64_t l = 0; l < result->request->length_count; l++)
        LH_TRY_DONE(print_length(result, &means, result->request->lengths[l], out));
done:
    lh_table_clear(&means);
    return st;
}

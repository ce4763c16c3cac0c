/* batch_check.c - `batch --check`: what a run would refuse, how much it has to do, and how long that takes on these
 * ranks. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/size_text.h"
#include "base/unicode.h"
#include "batch/batch_command.h"
#include "batch/check.h"
#include "engine/plan.h"
#include "import/checkpoint.h"
#include "lab/bench/bench.h"

/* What is measured: a prompt of so many tokens, unless all are shorter, and the steps after it. */
enum { MEASURED_TOKENS = 1024, MEASURED_STEPS = 8, WARM_TOKENS = 128 };

typedef struct check_run {
    lh_batch_call *batch;
    lh_checkpoint *checkpoint; /* rank 0 */
    lh_tokenizer *tokenizer;
    lh_batch_check found;
} check_run;

/* ---- what is asked for ---- */

/* Rank 0: no weights are read. */
static lh_status read_all(check_run *c)
{
    lh_batch_call *b = c->batch;
    LH_TRY(lh_checkpoint_open_model(&c->checkpoint, b->v->engine.model));
    LH_TRY(lh_checkpoint_open_tokenizer(c->checkpoint, &c->tokenizer));
    const lh_config *config = lh_checkpoint_config(c->checkpoint);
    LH_TRY(lh_batch_open_input(b, c->tokenizer, config->max_positions));
    const lh_batch_common common = {.config = config,
                                    .tokenizer = c->tokenizer,
                                    .defaults = &b->v->defaults,
                                    .policy = &b->v->policy,
                                    .plans = b->policies,
                                    .profiles = &b->profiles,
                                    .format = b->format,
                                    .context_root = b->context_root};
    return lh_batch_check_make(&c->found, &common, b->input);
}

/* Texts of the input control no terminal. */
static lh_status put_refusals(lh_buf *text, const lh_batch_check *found)
{
    lh_buf plain = {0};
    int64_t named = 0;
    lh_status st = lh_buf_append(&plain, found->refusals.data, found->refusals.bytes);
    for (char *line = plain.data; st == LH_OK && line < plain.data + plain.bytes; named++) {
        char *end = strchr(line, '\n');
        st = lh_buf_printf(text, "  %.*s\n", (int)lh_text_make_plain(line, end - line), line);
        line = end + 1;
    }
    lh_buf_clear(&plain);
    if (st != LH_OK || found->refused <= named) return st;
    return lh_buf_printf(text, "  and %lld more\n", (long long)(found->refused - named));
}

static lh_status print_found(const check_run *c)
{
    lh_status st = LH_OK;
    const lh_batch_check *f = &c->found;
    lh_buf text = {0};
    LH_TRY_DONE(lh_buf_printf(&text, "requests   %lld, %lld of which cannot be answered%s\n", (long long)f->requests,
                              (long long)f->refused, f->refused ? ":" : ""));
    if (f->refused) LH_TRY_DONE(put_refusals(&text, f));
    LH_TRY_DONE(lh_buf_printf(&text, "to read    %lld tokens", (long long)f->read_tokens));
    if (f->contexts)
        LH_TRY_DONE(lh_buf_printf(&text, "; %lld requests share %lld contexts, which are read once",
                                  (long long)f->questions, (long long)f->contexts));
    LH_TRY_DONE(lh_buf_printf(&text, "\nto write   %lld tokens at most\n", (long long)f->new_tokens));
    if (f->read_count)
        LH_TRY_DONE(lh_buf_printf(&text, "longest    line %lld: %lld tokens, and up to %lld of its answer\n",
                                  (long long)f->longest_line, (long long)f->longest, (long long)f->longest_new));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

/* ---- how much it takes ---- */

/* Rank 0: memory of the longest request alone. */
static lh_status print_memory(const check_run *c)
{
    lh_status st = LH_OK;
    const lh_batch_call *b = c->batch;
    const lh_batch_check *f = &c->found;
    lh_plan plan = {0};
    lh_buf text = {0};
    char needed[LH_SIZE_TEXT], there[LH_SIZE_TEXT];
    int64_t peak = 0;
    lh_engine_options engine = lh_engine_defaults(&b->v->engine);
    engine.tp = lh_world_size(b->call->world) / b->replicas;
    LH_TRY_DONE(lh_plan_make(&plan, &(lh_plan_request){.engine = &engine,
                                                       .policy = &b->policies[LH_ASKED_IN_PROMPT],
                                                       .context = f->longest,
                                                       .max_new = f->longest_new,
                                                       .profiles = &b->profiles}));
    for (int64_t r = 0; r < plan.tp; r++) peak = lh_max_i64(peak, plan.ranks[r].peak);
    const int64_t free_bytes = engine.memory ? plan.free_bytes : plan.free_bytes / b->replicas;
    LH_TRY_DONE(lh_buf_printf(&text, "memory     %s per rank for the longest alone, of %s that are free%s\n",
                              lh_size_text(needed, peak), lh_size_text(there, free_bytes),
                              peak <= free_bytes ? "" : ": it does not fit"));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_plan_clear(&plan);
    lh_buf_clear(&text);
    return st;
}

/* Seconds of the run at this pace: what is read at the rate of the measured prompt, by FLOPs; then all steps, with as
 * many sequences at work as there may be. */
static double estimate(const check_run *c, const lh_bench_model_request *measured, const lh_bench_pace *pace)
{
    const lh_batch_call *b = c->batch;
    const lh_batch_check *f = &c->found;
    const lh_engine_view *e = lh_engine_get(b->engine);
    const double one = lh_bench_prefill_flops(e->config, measured->context);
    double flops = 0;
    for (int64_t i = 0; i < f->read_count; i++) flops += lh_bench_prefill_flops(e->config, f->reads[i]);
    const double reading = flops / one * pace->prefill_s;
    const double writing = (double)f->new_tokens / (double)measured->batch * pace->step_s;
    return e->load_s + (reading + writing) / (double)b->replicas;
}

/* "7 s", "12 min", "3 h 20 min" */
static lh_status put_duration(lh_buf *text, double seconds)
{
    const long long s = (long long)ceil(seconds), min = (s + 59) / 60;
    if (s < 120) return lh_buf_printf(text, "%lld s", s);
    return min < 120 ? lh_buf_printf(text, "%lld min", min)
                     : lh_buf_printf(text, "%lld h %02lld min", min / 60, min % 60);
}

/* A quarter more, and five minutes in which a run that reaches its limit ends by itself. */
static lh_status print_time(double seconds)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const long long minutes = (long long)ceil((1.25 * seconds / 60 + 5) / 5) * 5;
    LH_TRY_DONE(lh_buf_puts(&text, "time       "));
    LH_TRY_DONE(put_duration(&text, seconds));
    LH_TRY_DONE(lh_buf_printf(&text,
                              " on these ranks, if every answer is as long as it may be: ask for "
                              "--time=%02lld:%02lld:00\n",
                              minutes / 60, minutes % 60));
    LH_TRY_DONE(lh_shell_write(text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

/* Collective. The slowest rank counts. */
static lh_status measure(check_run *c)
{
    lh_batch_call *b = c->batch;
    lh_comm *world = lh_world_comm(b->call->world);
    lh_bench_pace pace = {0};
    int64_t numbers[] = {c->found.read_count ? c->found.read_tokens / c->found.read_count : 0,
                         c->found.requests - c->found.refused};
    LH_TRY(lh_comm_bcast(world, 0, numbers, sizeof numbers));
    if (numbers[1] == 0) return LH_OK;
    LH_TRY(lh_batch_open_engine(b));
    const lh_bench_model_request request = {
        .options = &b->v->engine,
        .policy = &b->policies[LH_ASKED_IN_PROMPT],
        .profiles = &b->profiles,
        .context = lh_max_i64(lh_min_i64(numbers[0], MEASURED_TOKENS), 1),
        .steps = MEASURED_STEPS,
        .warm_up = WARM_TOKENS,
        .batch = lh_min_i64(b->v->own.batch, (numbers[1] + b->replicas - 1) / b->replicas)};
    LH_TRY(lh_comm_agree(world, lh_bench_speed(b->engine, &request, &pace)));
    int64_t us[] = {(int64_t)(1e6 * pace.prefill_s), (int64_t)(1e6 * pace.step_s)};
    LH_TRY(lh_comm_allreduce(world, us, 2, LH_I64, LH_MAX));
    pace = (lh_bench_pace){1e-6 * (double)us[0], 1e-6 * (double)us[1]};
    return lh_shell_first() ? print_time(estimate(c, &request, &pace)) : LH_OK;
}

/* Rank 0. */
static lh_status look(check_run *c)
{
    LH_TRY(read_all(c));
    LH_TRY(print_found(c));
    return c->found.read_count ? print_memory(c) : LH_OK;
}

static lh_status check_refused(const lh_batch_check *found)
{
    if (found->refused)
        LH_FAIL(LH_EPARTIAL, "%lld of %lld requests cannot be answered", (long long)found->refused,
                (long long)found->requests);
    return LH_OK;
}

lh_status lh_batch_check_all(lh_batch_call *batch)
{
    lh_status st = LH_OK;
    check_run c = {.batch = batch};
    lh_comm *world = lh_world_comm(batch->call->world);
    LH_TRY_DONE(lh_batch_find_replica(batch));
    LH_TRY_DONE(lh_comm_agree_untimed(world, lh_shell_first() ? look(&c) : LH_OK));
    st = measure(&c);
    if (st == LH_ENOMEM) { /* where a check is made, a run need not fit */
        lh_warn("how long it takes cannot be measured here: %s", lh_error_message());
        lh_error_clear();
        st = LH_OK;
    }
    LH_TRY_DONE(st);
    LH_TRY_DONE(lh_comm_agree(world, check_refused(&c.found)));
done:
    lh_batch_check_clear(&c.found);
    lh_tokenizer_close(c.tokenizer);
    lh_checkpoint_close(c.checkpoint);
    return st;
}

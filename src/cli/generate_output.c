/* generate_output.c - output of `generate`: streamed text, progress, the summary on stderr and the JSON object. */
#include "cli/generate_output.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "cli/interrupt.h"
#include "engine/generate.h"

/* Writes text; keeps the first failure for the end of the run, since other ranks wait in collectives. */
static void write_text(lh_output *out, const char *text, int64_t bytes)
{
    if (out->failed.st == LH_OK && bytes) lh_failures_add(&out->failed, lh_cli_write(text, bytes));
}

static void end_line(lh_output *out)
{
    if (out->text.bytes == 0 || out->text.data[out->text.bytes - 1] != '\n') write_text(out, "\n", 1);
}

/* ---- interrupted ---- */

static json_t *answer_json(const lh_output *out)
{
    json_t *ids = json_array(), *object = json_object();
    for (int64_t i = 0; i < out->ids.n; i++) json_array_append_new(ids, json_integer(out->ids.ids[i]));
    json_object_set_new(object, "text", lh_json_text(out->text.data ? out->text.data : "", out->text.bytes));
    json_object_set_new(object, "token_ids", ids);
    json_object_set_new(object, "finish_reason", json_string(lh_finish_name(LH_FINISH_INTERRUPTED)));
    return object;
}

/* Adds the text of its question to every answer. */
static void name_questions(const lh_output *out, json_t *object)
{
    json_t *answers = json_object_get(object, "answers");
    for (int64_t i = 0; i < out->question_count; i++) {
        json_t *answer = answers ? json_array_get(answers, (size_t)i) : object;
        const char *question = out->questions[i];
        if (answer) json_object_set_new(answer, "question", lh_json_text(question, (int64_t)strlen(question)));
    }
}

/* Ends the process; rank 0 writes the output so far. */
static void leave(lh_output *out)
{
    if (!lh_cli_first()) lh_comm_leave(out->comm, LH_EINTERRUPTED);
    json_t *object = answer_json(out);
    lh_progress_clear(&out->progress);
    if (out->json) {
        if (out->answers)
            json_array_append_new(out->answers, json_copy(object)); /* a copy: an object must not contain itself */
        if (out->answers) json_object_set(object, "answers", out->answers);
        name_questions(out, object);
        lh_failures_add(&out->failed, lh_cli_write_json(object));
    } else if (out->answer >= 0) {
        end_line(out);
    }
    if (out->failed.st != LH_OK) lh_log(LH_LOG_ERROR, 0, "%s", out->failed.text);
    if (out->answer < 0 && out->layers_kept)
        lh_warn("interrupted during prefill: the same command goes on at layer %lld of %lld, from '%s'",
                (long long)out->layers_kept + 1, (long long)out->layers, out->checkpoint);
    else if (out->answer < 0)
        lh_warn("interrupted during prefill%s", out->saves_cache || out->writes_at_end ? "; no file was written" : "");
    else
        lh_warn("interrupted after %lld generated tokens%s", (long long)out->ids.n,
                out->writes_at_end ? "; the files of '--keep-sets' and '--logits' were not written" : "");
    if (out->trace) lh_warn("what was recorded is kept: 'longhaul trace --join %s' makes a trace of it", out->trace);
    for (size_t i = 0; i < sizeof out->claims / sizeof *out->claims; i++)
        if (out->claims[i]) lh_partial_drop(out->claims[i]);
    lh_comm_leave(out->comm, out->failed.st != LH_OK ? (int)out->failed.st : LH_EINTERRUPTED);
}

/* Collective. */
static void look_for_interrupt(lh_output *out)
{
    if (lh_cli_interrupted(out->comm)) leave(out);
}

/* Collective. The same while a checkpoint is still to come: one that leaves time waits for it. */
static void look_before_checkpoint(lh_output *out)
{
    const lh_interrupt asked = lh_cli_interrupted(out->comm);
    if (asked == LH_INTERRUPT_NOW) leave(out);
    if (asked == LH_INTERRUPT_NONE || out->leaves) return;
    out->leaves = 1;
    lh_warn("interrupted during prefill: the run ends with a checkpoint after this layer");
}

/* ---- events ---- */

void lh_output_prefill(void *self, int64_t done, int64_t total)
{
    lh_output *out = self;
    if (!out->progress.what) {
        lh_progress_init(&out->progress, "reading", "tokens", out->prompt_tokens);
        out->progress.before = out->layers_kept * out->prompt_tokens / out->layers;
    }
    lh_progress_update(&out->progress, (int64_t)((double)done / (double)total * (double)out->prompt_tokens));
    if (done >= total) lh_progress_clear(&out->progress);
    const int64_t last = total - total / out->layers; /* after which no layer ends that is not the last */
    (out->checkpoint && done <= last ? look_before_checkpoint : look_for_interrupt)(out);
}

int lh_output_checkpoint_due(void *self)
{
    const lh_output *out = self;
    return out->leaves;
}

void lh_output_checkpoint_kept(void *self, int64_t layers_done)
{
    lh_output *out = self;
    out->layers_kept = layers_done;
    if (out->leaves) leave(out);
}

/* Called at the first token of an answer: finishes the previous one. */
static void begin_answer(lh_output *out, int64_t answer)
{
    if (out->answer >= 0) {
        if (!out->json) end_line(out);
        if (!out->answers) out->answers = json_array();
        json_t *before = answer_json(out);
        json_object_del(before, "finish_reason");
        json_array_append_new(out->answers, before);
    }
    out->answer = answer;
    out->text.bytes = 0;
    out->ids.n = 0;
    if (out->question_count < 2 || out->json) return;
    if (answer) write_text(out, "\n", 1);
    write_text(out, "> ", 2);
    write_text(out, out->questions[answer], (int64_t)strlen(out->questions[answer]));
    write_text(out, "\n", 1);
}

static void take_text(lh_output *out, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    if (answer != out->answer) begin_answer(out, answer);
    if (!out->json) write_text(out, text, bytes);
    /* Out of memory: only the output of an interrupted run lacks this text. */
    if (lh_buf_append(&out->text, text, bytes) != LH_OK || (id >= 0 && lh_tokens_push(&out->ids, id) != LH_OK))
        lh_error_clear();
}

void lh_output_token(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    lh_output *out = self;
    if (lh_cli_first()) take_text(out, answer, id, text, bytes);
    look_for_interrupt(out);
}

/* ---- the end ---- */

static int64_t sum(const int64_t *values, int ranks)
{
    int64_t total = 0;
    for (int r = 0; r < ranks; r++) total += values[r];
    return total;
}

enum { PACE = 96 };

/* "N tokens in S s", and the rate if there is one (not after a loaded cache or for a single token). */
static void write_pace(char out[PACE], int64_t tokens, double seconds, double tokens_per_s)
{
    int n = snprintf(out, PACE, "%lld token%s in %.2f s", (long long)tokens, tokens == 1 ? "" : "s", seconds);
    if (tokens_per_s > 0)
        snprintf(out + n, PACE - (size_t)n, " (%.*f tokens/s)", tokens_per_s < 1000 ? 1 : 0, tokens_per_s);
}

/* Logs answers that are empty. */
static void say_empty(const lh_generation *g)
{
    for (int64_t i = 0; i < g->answer_count; i++) {
        const lh_answer *a = &g->answers[i];
        if (a->finish != LH_FINISH_STOP || a->ids.n != 1 || a->text.bytes) continue;
        if (g->answer_count == 1)
            lh_info("the answer is empty: the model's first token ends it");
        else
            lh_info("answer %lld is empty: the model's first token ends it", (long long)i + 1);
    }
}

static void summarise(const lh_engine *engine, const lh_generation *g)
{
    const long long threads = lh_engine_get(engine)->threads;
    static const double mib = 1 << 20;
    char prompt[PACE], generated[PACE];
    write_pace(prompt, g->prompt_tokens, g->timing.prefill_s, g->timing.prefill_tokens_per_s);
    write_pace(generated, g->new_tokens, g->timing.decode_s, g->timing.decode_tokens_per_s);
    say_empty(g);
    lh_info("prompt: %s; generated: %s; %d %s x %lld %s", prompt, generated, g->ranks, g->ranks == 1 ? "rank" : "ranks",
            threads, threads == 1 ? "thread" : "threads");
    if (g->given)
        lh_info("cache: %.2f of %.2f MiB kept on %d %s, by '%s'", (double)sum(g->bytes_kept, g->ranks) / mib,
                (double)sum(g->bytes, g->ranks) / mib, g->ranks, g->ranks == 1 ? "rank" : "ranks", g->given);
    else if (!g->policy.evicts)
        lh_info("cache: all entries kept, %.2f MiB on %d %s", (double)sum(g->bytes_kept, g->ranks) / mib, g->ranks,
                g->ranks == 1 ? "rank" : "ranks");
    else
        lh_info("cache: %.2f of %.2f MiB kept on %d %s, budget %lld entries per head%s",
                (double)sum(g->bytes_kept, g->ranks) / mib, (double)sum(g->bytes, g->ranks) / mib, g->ranks,
                g->ranks == 1 ? "rank" : "ranks", (long long)g->budget,
                g->policy.every ? "" : "; it grows by one with every generated token");
}

lh_status lh_output_finish(lh_output *out, const lh_engine *engine, const lh_generation *generation)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    if (!lh_cli_first()) goto done;
    if (!out->json) end_line(out);
    LH_TRY_DONE(lh_failures_end(&out->failed));
    if (out->json) {
        LH_TRY_DONE(lh_generation_json(engine, generation, &object));
        name_questions(out, object);
        LH_TRY_DONE(lh_cli_write_json(object));
    }
    summarise(engine, generation);
done:
    json_decref(object);
    return st;
}

void lh_output_clear(lh_output *out)
{
    lh_progress_clear(&out->progress);
    lh_buf_clear(&out->text);
    lh_tokens_clear(&out->ids);
    json_decref(out->answers);
    out->answers = NULL;
}

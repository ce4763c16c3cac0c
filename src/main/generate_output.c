/* generate_output.c - output of `generate`: streamed text, progress, the summary on stderr and the JSON object. */
#include "main/generate_output.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/output.h"
#include "engine/generate.h"
#include "engine/plan.h"
#include "shell/shell.h"

/* Writes text; keeps the first failure for the end of the run, since other ranks wait in collectives. */
static void write_text(lh_output *out, const char *text, int64_t bytes)
{
    if (out->failed.st == LH_OK && bytes) lh_failures_add(&out->failed, lh_shell_write(text, bytes));
}

/* Writes what is new of the current answer; its thoughts to a terminal on stderr. */
static void write_parts(lh_output *out, lh_text_stage stage)
{
    const lh_thoughts p = lh_answer_parts(&out->current, stage);
    if (p.thoughts_bytes > out->shown_thoughts)
        lh_shell_show(p.thoughts + out->shown_thoughts, p.thoughts_bytes - out->shown_thoughts);
    write_text(out, p.content + out->shown, p.content_bytes - out->shown);
    out->shown = p.content_bytes;
    out->shown_thoughts = p.thoughts_bytes;
}

/* The current answer is complete, or ends here. */
static void end_text(lh_output *out)
{
    write_parts(out, LH_TEXT_WHOLE);
    const lh_thoughts p = lh_answer_parts(&out->current, LH_TEXT_WHOLE);
    if (p.content_bytes == 0 || p.content[p.content_bytes - 1] != '\n') write_text(out, "\n", 1);
}

/* Called at the first token of an answer: finishes the previous one. */
static void begin_answer(lh_output *out, int64_t answer)
{
    if (out->answer >= 0 && !out->json) end_text(out);
    out->answer = answer;
    out->current.text.bytes = out->current.ids.n = out->shown = out->shown_thoughts = 0;
    out->current.splits = out->generation->answers[answer].splits;
    out->current.opened = out->generation->answers[answer].opened;
    if (out->question_count < 2 || out->json) return;
    if (answer) write_text(out, "\n", 1);
    write_text(out, "> ", 2);
    write_text(out, out->questions[answer], (int64_t)strlen(out->questions[answer]));
    write_text(out, "\n", 1);
}

static void take_text(lh_output *out, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    if (answer != out->answer) begin_answer(out, answer);
    lh_status st = lh_buf_append(&out->current.text, text, bytes);
    if (st == LH_OK && id >= 0) st = lh_tokens_push(&out->current.ids, id);
    if (st != LH_OK) lh_failures_add(&out->failed, st);
    if (!out->json) write_parts(out, LH_TEXT_GROWS);
}

/* Adds the text of its question, if there is one. */
static void name_question(const lh_output *out, int64_t answer, json_t *object)
{
    if (answer >= out->question_count) return;
    const char *question = out->questions[answer];
    json_object_set_new(object, "question", lh_json_text(question, (int64_t)strlen(question)));
}

/* ---- interrupted ---- */

static int is_complete(const lh_output *out, int64_t answer)
{
    return out->generation->answers[answer].finish != LH_FINISH_INTERRUPTED;
}

/* An answer that is complete, or the current one as far as it goes. */
static json_t *answer_json(lh_output *out, int64_t answer)
{
    out->current.finish = LH_FINISH_INTERRUPTED;
    json_t *object = lh_answer_json(is_complete(out, answer) ? &out->generation->answers[answer] : &out->current);
    name_question(out, answer, object);
    return object;
}

static void write_json(lh_output *out)
{
    json_t *object = answer_json(out, 0), *answers = json_array();
    for (int64_t i = 0; i < out->generation->answer_count; i++)
        if (i == out->answer || is_complete(out, i)) json_array_append_new(answers, answer_json(out, i));
    if (out->generation->answer_count > 1) json_object_set(object, "answers", answers);
    json_decref(answers);
    lh_failures_add(&out->failed, lh_shell_write_json(object));
    json_decref(object);
}

/* The rest of the current answer, if it is complete, and those that are while it was not. */
static void write_waiting(lh_output *out)
{
    for (int64_t i = out->answer; i < out->generation->answer_count; i++) {
        const lh_buf *text = &out->generation->answers[i].text;
        const int64_t shown = i == out->answer ? out->current.text.bytes : 0;
        if (is_complete(out, i)) take_text(out, i, -1, text->data ? text->data + shown : "", text->bytes - shown);
    }
    end_text(out);
}

static void warn_of_end(const lh_output *out)
{
    const char *files =
        out->writes_at_end ? "; the files of '--keep-sets', '--logits' and '--json-file' were not written" : "";
    const int64_t count = out->generation->answer_count;
    int64_t complete = 0;
    for (int64_t i = 0; i < count; i++) complete += is_complete(out, i);
    lh_buf next = {0};
    if (out->layers_kept && lh_buf_printf(&next, "; the same command continues from '%s'", out->resume) == LH_OK)
        files = next.data;
    if (out->answer < 0 && out->layers_kept && out->layers_kept < out->config->layers)
        lh_warn("interrupted during prefill: the same command goes on at layer %lld of %lld, from '%s'",
                (long long)out->layers_kept + 1, (long long)out->config->layers, out->resume);
    else if (out->answer < 0)
        lh_warn("interrupted %s%s", out->layers_kept ? "after the prefill" : "during prefill",
                out->layers_kept                         ? files
                : out->saves_cache || out->writes_at_end ? "; no file was written"
                                                         : "");
    else if (count > 1)
        lh_warn("interrupted after %lld of %lld answers%s", (long long)complete, (long long)count, files);
    else
        lh_warn("interrupted after %lld generated tokens%s", (long long)out->current.ids.n, files);
    lh_buf_clear(&next);
    if (out->trace) lh_warn("what was recorded is kept: 'longhaul trace --join %s' makes a trace of it", out->trace);
}

/* Ends the process; rank 0 writes the output so far. */
static void leave(lh_output *out)
{
    if (!lh_shell_first()) lh_comm_leave(out->comm, LH_EINTERRUPTED);
    lh_progress_clear(&out->progress);
    if (out->json)
        write_json(out);
    else if (out->answer >= 0)
        write_waiting(out);
    if (out->failed.st != LH_OK) lh_log(LH_LOG_ERROR, 0, "%s", out->failed.text);
    warn_of_end(out);
    for (size_t i = 0; i < sizeof out->claims / sizeof *out->claims; i++)
        if (out->claims[i]) lh_partial_drop(out->claims[i]);
    lh_comm_leave(out->comm, out->failed.st != LH_OK ? (int)out->failed.st : LH_EINTERRUPTED);
}

/* Collective. */
static void look_for_interrupt(lh_output *out)
{
    if (lh_shell_interrupted(out->comm)) leave(out);
}

/* Collective. The same; also ends the run when the reader of its text has closed the pipe and no file is still to be
 * written. */
static void look_after_token(lh_output *out)
{
    const int writes_files = out->writes_at_end || out->saves_cache || out->trace || out->resume;
    int ends = !writes_files && lh_shell_unread();
    const lh_interrupt asked = lh_shell_interrupted_any(out->comm, &ends);
    if (asked == LH_INTERRUPT_NOW || (asked && !out->stores_answer)) leave(out);
    if (asked) out->leaves = 1; /* with the state after this token */
    if (ends) lh_comm_leave(out->comm, LH_OK);
}

/* Collective. The same before a checkpoint: an interrupt that leaves time waits for the checkpoint. */
static void look_before_checkpoint(lh_output *out)
{
    const lh_interrupt asked = lh_shell_interrupted(out->comm);
    if (asked == LH_INTERRUPT_NOW) leave(out);
    if (asked == LH_INTERRUPT_NONE || out->leaves) return;
    out->leaves = 1;
    lh_warn("interrupted during prefill: the run ends with a checkpoint after this layer");
}

/* ---- events ---- */

/* Tokens of the prompt that cost as much as `done` tokens of all layers, so that the time left follows from them. */
static int64_t tokens_read(const lh_output *out, int64_t done)
{
    return (int64_t)(lh_plan_prefill_share(out->config, out->prompt_tokens, done) * (double)out->prompt_tokens);
}

lh_status lh_output_prefill(void *self, int64_t done, int64_t total)
{
    lh_output *out = self;
    if (!out->progress.what) {
        lh_progress_init(&out->progress, "reading", "tokens", out->prompt_tokens);
        out->progress.before = tokens_read(out, out->layers_kept * out->prompt_tokens);
    }
    lh_progress_update(&out->progress, tokens_read(out, done));
    if (done >= total) lh_progress_clear(&out->progress);
    const int64_t last = total - total / out->config->layers; /* after which no layer ends that is not the last */
    (out->resume && done <= last ? look_before_checkpoint : look_for_interrupt)(out);
    return LH_OK;
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

lh_status lh_output_token(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes)
{
    lh_output *out = self;
    if (lh_shell_first()) take_text(out, answer, id, text, bytes);
    look_after_token(out);
    return LH_OK;
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

/* Logs answers that end within their thoughts. */
static void say_thinking(const lh_generation *g)
{
    for (int64_t i = 0; i < g->answer_count; i++) {
        const lh_thoughts p = lh_answer_parts(&g->answers[i], LH_TEXT_WHOLE);
        if (p.thinks && !p.closed)
            lh_warn("answer %lld ends within its thoughts and has no text: give it more tokens ('--max-new'), or the "
                    "template '--template-arg enable_thinking=false' if it reads that",
                    (long long)i + 1);
    }
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

/* Logs that answers were cut. */
static void say_cut(const lh_output *out, const lh_generation *g)
{
    int64_t cut = 0;
    for (int64_t i = 0; i < g->answer_count; i++) cut += g->answers[i].finish == LH_FINISH_LENGTH;
    if (!cut || out->wants_length) return;
    if (g->answer_count == 1)
        lh_info("the answer was cut at the length that '--max-new' allows: it may not be complete");
    else
        lh_info("%lld of %lld answers were cut at the length that '--max-new' allows: they may not be complete",
                (long long)cut, (long long)g->answer_count);
}

static void summarise(const lh_output *out, const lh_engine *engine, const lh_generation *g)
{
    const long long threads = lh_engine_get(engine)->threads;
    const char *kept = lh_dtype_name(lh_kv_kept_type(&lh_engine_get(engine)->kv_types, &g->policy));
    static const double mib = 1 << 20;
    char prompt[PACE], generated[PACE];
    write_pace(prompt, g->prompt_tokens, g->timing.prefill_s, g->timing.prefill_tokens_per_s);
    write_pace(generated, g->new_tokens, g->timing.decode_s, g->timing.decode_tokens_per_s);
    say_thinking(g);
    say_empty(g);
    say_cut(out, g);
    lh_info("prompt: %s; generated: %s; %d %s x %lld %s", prompt, generated, g->ranks, g->ranks == 1 ? "rank" : "ranks",
            threads, threads == 1 ? "thread" : "threads");
    if (g->given)
        lh_info("cache: %.2f of %.2f MiB kept as %s on %d %s, by '%s'", (double)sum(g->bytes_kept, g->ranks) / mib,
                (double)sum(g->bytes, g->ranks) / mib, kept, g->ranks, g->ranks == 1 ? "rank" : "ranks", g->given);
    else if (!g->policy.evicts)
        lh_info("cache: all entries kept, %.2f MiB on %d %s", (double)sum(g->bytes_kept, g->ranks) / mib, g->ranks,
                g->ranks == 1 ? "rank" : "ranks");
    else
        lh_info("cache: %.2f of %.2f MiB kept as %s on %d %s, budget %lld entries per head%s",
                (double)sum(g->bytes_kept, g->ranks) / mib, (double)sum(g->bytes, g->ranks) / mib, kept, g->ranks,
                g->ranks == 1 ? "rank" : "ranks", (long long)g->budget,
                g->policy.every ? "" : "; it grows by one with every generated token");
}

lh_status lh_output_finish(lh_output *out, const lh_engine *engine, const lh_generation *generation)
{
    lh_status st = LH_OK;
    json_t *object = NULL;
    if (!lh_shell_first()) goto done;
    if (!out->json) end_text(out);
    LH_TRY_DONE(lh_failures_end(&out->failed));
    if (out->json || out->json_file) {
        LH_TRY_DONE(lh_generation_json(engine, generation, &object));
        json_t *answers = json_object_get(object, "answers");
        for (int64_t i = 0; i < generation->answer_count; i++)
            name_question(out, i, answers ? json_array_get(answers, (size_t)i) : object);
        if (out->json) LH_TRY_DONE(lh_shell_write_json(object));
        if (out->json_file) LH_TRY_DONE(lh_shell_save_json(out->json_file, object));
    }
    summarise(out, engine, generation);
done:
    json_decref(object);
    return st;
}

void lh_output_clear(lh_output *out)
{
    lh_progress_clear(&out->progress);
    lh_buf_clear(&out->current.text);
    lh_tokens_clear(&out->current.ids);
}

/* synthetic_prompt.c - makes and fits prompts from seeds, and scores answers to them. What a prompt of a task looks
 * like is in the file of its kind. */
#include <string.h>

#include "base/hash.h"
#include "base/unicode.h"
#include "lab/eval/synthetic_kinds.h"
#include "lab/eval/text_metrics.h"

static const char noise[] = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

/* ---- sources ---- */

lh_status lh_synthetic_sources_text(lh_synthetic_sources *out, const lh_buf *text)
{
    int64_t cap = 0;
    LH_TRY(lh_join_words(&out->text, text->data));
    for (int64_t at = 1; at <= out->text.bytes; at++) {
        if (at < out->text.bytes && out->text.data[at] != ' ') continue;
        if (out->words == cap) {
            cap = cap ? 2 * cap : 1024;
            LH_TRY(lh_realloc(&out->word_ends, cap, sizeof *out->word_ends));
        }
        out->word_ends[out->words++] = at;
    }
    return LH_OK;
}

void lh_synthetic_sources_clear(lh_synthetic_sources *sources)
{
    lh_buf_clear(&sources->text);
    lh_free(sources->word_ends);
    lh_documents_clear(&sources->squad);
    lh_documents_clear(&sources->hotpot);
    *sources = (lh_synthetic_sources){0};
}

/* ---- what the kinds share ---- */

lh_draws lh_synthetic_draws(const lh_synthetic_maker *maker, uint32_t purpose)
{
    const lh_synthetic_spec *spec = maker->spec;
    const uint64_t task = lh_hash64(spec->task->name, (int64_t)strlen(spec->task->name));
    return (lh_draws){.seed = spec->seed, .stream = (uint32_t)(task + (uint64_t)spec->length), .purpose = purpose};
}

lh_status lh_synthetic_fill(lh_buf *out, const char *text, const char *type, const char *query)
{
    static const char *const marks[] = {"{type_needle_v}", "{query}"};
    const char *const values[] = {type, query};
    LH_TRY(lh_buf_puts(out, ""));
    while (text && *text) {
        int64_t bytes = 1;
        const char *part = text;
        for (int i = 0; i < 2; i++) {
            if (strncmp(text, marks[i], strlen(marks[i])) != 0) continue;
            part = values[i];
            bytes = (int64_t)strlen(part);
            text += strlen(marks[i]) - 1;
            break;
        }
        LH_TRY(lh_buf_append(out, part, bytes));
        text++;
    }
    return LH_OK;
}

lh_status lh_synthetic_reference(lh_synthetic_sample *out, const char *text)
{
    LH_TRY(lh_realloc(&out->references, out->reference_count + 1, sizeof *out->references));
    LH_TRY(lh_strdup(&out->references[out->reference_count], text));
    out->reference_count++;
    return LH_OK;
}

lh_status lh_synthetic_put_lines(const lh_synthetic_lines *lines, lh_draws *draws, lh_buf *out)
{
    lh_status st = LH_OK;
    int64_t *places = NULL, next = 0;
    LH_TRY_DONE(lh_calloc(&places, lines->n, sizeof *places));
    lh_draw_sorted(draws, places, lines->n, lines->units);
    for (int64_t i = 0; i < lines->units; i++) {
        if (i) LH_TRY_DONE(lh_buf_puts(out, "\n"));
        if (next < lines->n && places[next] == i) LH_TRY_DONE(lh_buf_printf(out, "%s\n", lines->inserted[next++].data));
        LH_TRY_DONE(lines->line ? lines->line(lines->self, i, out) : lh_buf_puts(out, noise));
    }
done:
    lh_free(places);
    return st;
}

/* ---- one prompt ---- */

void lh_synthetic_sample_clear(lh_synthetic_sample *sample)
{
    for (int64_t i = 0; i < sample->reference_count; i++) lh_free(sample->references[i]);
    lh_free(sample->references);
    lh_buf_clear(&sample->text);
    lh_buf_clear(&sample->question);
    lh_buf_clear(&sample->prefix);
    lh_buf_clear(&sample->expected);
    lh_asked_prompt_clear(&sample->prompt);
    *sample = (lh_synthetic_sample){0};
}

/* A prompt of `units`, however long it is. */
static lh_status build(lh_synthetic_sample *out, const lh_synthetic_form *form, const lh_synthetic_spec *spec,
                       int64_t units)
{
    const lh_synthetic_maker maker = {form, spec, out, units};
    lh_synthetic_sample_clear(out);
    LH_TRY(spec->task->kind->build(&maker));
    out->units = units;
    const char *prefix = out->prefix.bytes ? out->prefix.data : NULL;
    /* the blank before the answer is none at the beginning of a turn */
    return lh_asked_prompt_make(&out->prompt, form->tok,
                                &(lh_asked_text){.text = out->text.data,
                                                 .bytes = out->text.bytes,
                                                 .question = out->question.data,
                                                 .format = form->format,
                                                 .system = form->system,
                                                 .joint = spec->task->kind->joint,
                                                 .answer = out->expected.data + (form->format && !prefix),
                                                 .prefix = prefix});
}

static int64_t max_new_of(const lh_synthetic_sample *sample, const lh_synthetic_spec *spec)
{
    return spec->max_new ? spec->max_new : sample->prompt.answer.n * 5 / 4 + 16;
}

static int fits(const lh_synthetic_sample *sample, const lh_synthetic_spec *spec)
{
    return lh_asked_prompt_max(&sample->prompt) + max_new_of(sample, spec) <= spec->length;
}

static lh_status fail_too_short(const lh_synthetic_sample *sample, const lh_synthetic_spec *spec)
{
    const int64_t tokens = lh_asked_prompt_max(&sample->prompt) + max_new_of(sample, spec);
    LH_FAIL(LH_EUSAGE, "the shortest prompt of task '%s' and an answer are %lld tokens: '--length %lld' is too short",
            spec->task->name, (long long)tokens, (long long)spec->length);
}

lh_status lh_synthetic_fit(const lh_synthetic_form *form, lh_synthetic_spec *spec)
{
    lh_status st = LH_OK;
    lh_synthetic_sample sample = {0};
    const int64_t max = spec->task->kind->max_units;
    int64_t low = spec->task->kind->min_units(form, spec), high = 2 * low;
    if (!spec->max_new) spec->max_new = spec->task->max_new;
    LH_TRY_DONE(build(&sample, form, spec, low));
    if (!fits(&sample, spec)) LH_TRY_DONE(fail_too_short(&sample, spec));
    spec->max_new = max_new_of(&sample, spec);
    for (;; high *= 2) {
        if (max && high > max) high = max;
        LH_TRY_DONE(build(&sample, form, spec, high));
        if (!fits(&sample, spec)) break;
        low = high;
        if (high == max)
            LH_FAIL_DONE(LH_EUSAGE, "task '%s' has only %lld words, too few for '--length %lld': reduce it",
                         spec->task->name, (long long)max, (long long)spec->length);
    }
    while (low + 1 < high) {
        const int64_t middle = low + (high - low) / 2;
        LH_TRY_DONE(build(&sample, form, spec, middle));
        if (fits(&sample, spec))
            low = middle;
        else
            high = middle;
    }
    spec->units = low;
done:
    lh_synthetic_sample_clear(&sample);
    return st;
}

lh_status lh_synthetic_make(lh_synthetic_sample *out, const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    lh_status st = LH_OK;
    const int64_t min = spec->task->kind->min_units(form, spec), step = 1 + spec->units / 64;
    int64_t units = spec->units > min ? spec->units : min;
    *out = (lh_synthetic_sample){0};
    LH_TRY_DONE(build(out, form, spec, units));
    while (!fits(out, spec)) {
        if (units == min) LH_TRY_DONE(fail_too_short(out, spec));
        units = units - step > min ? units - step : min;
        LH_TRY_DONE(build(out, form, spec, units));
    }
done:
    if (st != LH_OK) lh_synthetic_sample_clear(out);
    return st;
}

/* ---- scores ---- */

/* As RULER prepares a prediction (postprocess_pred): without white space at both ends, control characters as line ends;
 * in lower case. */
static lh_status prepare(const char *answer, lh_buf *out)
{
    lh_status st = LH_OK;
    lh_buf bare = {0};
    const int64_t bytes = (int64_t)strlen(answer);
    int64_t from = bytes, until = 0;
    int skip;
    for (int64_t at = 0; at < bytes; at += skip) {
        uint32_t cp;
        lh_utf8_read(answer + at, bytes - at, &cp, &skip);
        if (lh_char_is_python_space(cp)) continue;
        if (at < from) from = at;
        until = at + skip;
    }
    LH_TRY_DONE(lh_buf_puts(&bare, ""));
    if (from < until) LH_TRY_DONE(lh_buf_append(&bare, answer + from, until - from));
    for (int64_t i = 0; i < bare.bytes; i++)
        if ((unsigned char)bare.data[i] < ' ') bare.data[i] = '\n';
    LH_TRY_DONE(lh_text_lower(out, bare.data));
done:
    lh_buf_clear(&bare);
    return st;
}

/* *found: references that occur in the answer. */
static lh_status count_references(const lh_synthetic_sample *sample, const char *answer, int64_t *found)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, reference = {0};
    *found = 0;
    LH_TRY_DONE(prepare(answer, &text));
    for (int64_t i = 0; i < sample->reference_count; i++) {
        reference.bytes = 0;
        LH_TRY_DONE(lh_text_lower(&reference, sample->references[i]));
        *found += strstr(text.data, reference.data) != NULL;
    }
done:
    lh_buf_clear(&text);
    lh_buf_clear(&reference);
    return st;
}

lh_status lh_synthetic_match_all(const lh_synthetic_sample *sample, const char *answer, double *score)
{
    int64_t found;
    LH_TRY(count_references(sample, answer, &found));
    *score = 100.0 * (double)found / (double)sample->reference_count;
    return LH_OK;
}

lh_status lh_synthetic_match_part(const lh_synthetic_sample *sample, const char *answer, double *score)
{
    int64_t found;
    LH_TRY(count_references(sample, answer, &found));
    *score = found ? 100 : 0;
    return LH_OK;
}

lh_status lh_synthetic_score(const lh_synthetic_sample *sample, const lh_synthetic_task *task, const char *answer,
                             double *score)
{
    return task->kind->score(sample, answer, score);
}

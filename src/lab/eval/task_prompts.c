/* task_prompts.c - truncates prompts as LongBench and InfiniteBench publish it: the first and the last half of the
 * plain prompt's tokens become text again, which is put into the chat format and encoded. */
#include "lab/eval/task_prompts.h"

#include <ctype.h>
#include <string.h>

#include "base/minmax.h"

lh_status lh_task_right_answer(lh_buf *out, const lh_task_record *record)
{
    const char *separator = record->metric->separator;
    for (int64_t i = 0; i < record->answer_count && (i == 0 || separator); i++)
        LH_TRY(lh_buf_printf(out, "%s%s", i ? separator : "", record->answers[i]));
    return LH_OK;
}

/* A prompt that is being made. */
typedef struct maker {
    const lh_tokenizer *tok;
    const lh_task_record *record;
    const lh_eval_prompt_text *how;
    const lh_task_limits *limits;
    lh_truncation part;  /* to remove */
    lh_tokens ids;       /* of the text that is truncated: the plain prompt, head and context, or the context */
    int64_t all;         /* tokens of the plain prompt */
    lh_buf tail;         /* of the plain prompt, after the context */
    lh_buf text, answer; /* kept head and context; the expected answer */
    lh_eval_prompt *out;
} maker;

/* Appends the answer that the prompt expects. After text, but not at the beginning of a turn, a blank stands before it.
 */
static lh_status put_answer(maker *m)
{
    const lh_task_record *record = m->record;
    const char *before = record->prefix && *record->prefix ? record->prefix : m->how->format ? "" : record->question;
    const char last = *before ? before[strlen(before) - 1] : '\n';
    LH_TRY(lh_buf_puts(&m->answer, record->verbatim && !isspace((unsigned char)last) ? " " : ""));
    return lh_task_right_answer(&m->answer, record);
}

/* *ids: of head, context and tail; without a head they continue one. */
static lh_status encode_parts(const maker *m, const char *head, const char *tail, lh_tokens *ids)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    const int32_t bos = lh_tokenizer_adds_bos(m->tok) ? lh_tokenizer_bos(m->tok) : -1;
    ids->n = 0;
    if (head && bos >= 0) LH_TRY_DONE(lh_tokens_push(ids, bos));
    LH_TRY_DONE(lh_buf_printf(&text, "%s%s%s", head ? head : "", m->record->context, tail));
    LH_TRY_DONE(lh_tokenizer_encode(m->tok, text.data, text.bytes, head ? LH_ENCODE_PLAIN : LH_ENCODE_CONTINUES, ids));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status measure_prompt(maker *m)
{
    const lh_task_record *record = m->record;
    m->tail.bytes = 0;
    LH_TRY(lh_buf_printf(&m->tail, "%s%s", record->question, record->prefix ? record->prefix : ""));
    LH_TRY(encode_parts(m, record->head, m->tail.data, &m->ids));
    m->all = m->ids.n;
    if (m->part == LH_TRUNCATE_MIDDLE) return LH_OK;
    return encode_parts(m, m->part == LH_TRUNCATE_START ? NULL : record->head, "", &m->ids);
}

/* Appends head and context as far as the ends of `ids` hold them. *fits: false if the tail is longer than its end. */
static lh_status put_kept(maker *m, lh_kept_ends kept, int *fits)
{
    if (m->part == LH_TRUNCATE_START) LH_TRY(lh_buf_puts(&m->text, m->record->head));
    LH_TRY(lh_eval_text(m->tok, m->ids.ids, kept.first, &m->text));
    const int64_t middle = m->text.bytes;
    LH_TRY(lh_eval_text(m->tok, m->ids.ids + m->ids.n - kept.last, kept.last, &m->text));
    if (m->part != LH_TRUNCATE_MIDDLE) return LH_OK;
    *fits = m->text.bytes - middle >= m->tail.bytes;
    m->text.bytes -= *fits ? m->tail.bytes : 0;
    return LH_OK;
}

/* The prompt with at most `max_tokens` before the chat format; *kept: its tokens. */
static lh_status try_prompt(maker *m, int64_t max_tokens, int64_t *kept, int *fits)
{
    const lh_kept_ends ends = lh_truncate(m->part, m->ids.n, max_tokens - (m->all - m->ids.n));
    const int64_t left_out = m->ids.n - ends.first - ends.last;
    lh_eval_prompt_text text = *m->how;
    m->text.bytes = 0;
    *fits = 1;
    *kept = m->all - left_out;
    LH_TRY(left_out ? put_kept(m, ends, fits) : lh_buf_printf(&m->text, "%s%s", m->record->head, m->record->context));
    text.text = m->text.data;
    text.bytes = m->text.bytes;
    text.answer = m->answer.data;
    return lh_eval_prompt_make(m->out, m->tok, &text);
}

static lh_status fail_too_long(const maker *m)
{
    const lh_task_limits *limits = m->limits;
    const char *where = m->record->where;
    const long long tokens = lh_eval_prompt_max(m->out), max_new = limits->max_new, positions = limits->positions;
    if (limits->length)
        LH_FAIL(LH_EUSAGE,
                "%s: %lld tokens of its question alone and %lld of the answer do not fit into '--length %lld'", where,
                tokens, max_new, (long long)limits->length);
    if (limits->max_prompt && tokens + max_new <= positions)
        LH_FAIL(LH_EUSAGE, "%s: its question alone does not fit into '--max-prompt %lld'", where,
                (long long)limits->max_prompt);
    LH_FAIL(LH_EUSAGE,
            "%s: %lld tokens of prompt and %lld of the answer are longer than the %lld positions of the model: "
            "'--length %lld' leaves out the %s of the prompt",
            where, tokens, max_new, positions, positions, lh_truncation_names[limits->part]);
}

/* Leaves out more of the prompt until prompt and answer fit. */
static lh_status fit_prompt(maker *m, int64_t *kept)
{
    const lh_task_limits *limits = m->limits;
    const int64_t limit = (limits->length ? limits->length : limits->positions) - limits->max_new;
    int64_t max_tokens = limits->max_prompt ? limits->max_prompt : m->all;
    for (;;) {
        int fits;
        LH_TRY(try_prompt(m, max_tokens, kept, &fits));
        const int64_t over = lh_eval_prompt_max(m->out) - limit;
        if (!fits) { /* a question of more than half of the prompt is kept whole */
            m->part = LH_TRUNCATE_END;
            LH_TRY(measure_prompt(m));
            continue;
        }
        if (over <= 0 && *kept <= max_tokens) return LH_OK;
        if (*kept > max_tokens || *kept == m->all - m->ids.n || !limits->length) return fail_too_long(m);
        max_tokens = *kept - over;
    }
}

lh_status lh_task_prompt_make(lh_task_prompt *out, const lh_tokenizer *tok, const lh_task_record *record,
                              const lh_eval_prompt_text *how, const lh_task_limits *limits)
{
    lh_status st = LH_OK;
    int64_t kept = 0;
    lh_tokens context = {0};
    maker m = {.tok = tok, .record = record, .how = how, .limits = limits, .part = limits->part, .out = out->prompt};
    LH_TRY_DONE(put_answer(&m));
    LH_TRY_DONE(measure_prompt(&m));
    LH_TRY_DONE(
        lh_tokenizer_encode(tok, record->context, (int64_t)strlen(record->context), LH_ENCODE_CONTINUES, &context));
    LH_TRY_DONE(fit_prompt(&m, &kept));
    out->left_out = m.all - kept;
    out->context_tokens = lh_max_i64(context.n - out->left_out, 0);
    lh_tokens *answer = &out->prompt->answer;
    answer->n = lh_min_i64(answer->n, limits->positions - lh_eval_prompt_max(out->prompt));
done:
    lh_tokens_clear(&context);
    lh_tokens_clear(&m.ids);
    lh_buf_clear(&m.tail);
    lh_buf_clear(&m.text);
    lh_buf_clear(&m.answer);
    return st;
}

/* An answer of `generate` while its tokens come: its text, its log-probabilities, and who listens. */
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "engine/generate_impl.h"

/* A token, -1: none, and the end of the text that was final after it. */
typedef struct lh_final_text {
    int32_t id;
    int64_t end;
} lh_final_text;

/* 1 if there is text that the answer continues. */
static int continues_text(const lh_generate_request *q, const lh_tokenizer *tok, int64_t i)
{
    if (!q->continues || !tok) return 0;
    return q->load_cache || lh_tokenizer_has_text(tok, &q->prompt) ||
           (q->question_count && lh_tokenizer_has_text(tok, &q->questions[i]));
}

lh_thoughts lh_answer_parts(const lh_answer *a, lh_text_stage stage)
{
    const char *text = a->text.data ? a->text.data : "";
    if (a->splits) return lh_thoughts_split(text, a->text.bytes, a->opened, stage);
    return (lh_thoughts){.content = text, .content_bytes = a->text.bytes};
}

/* The prompt, or the question that ends it. */
static const lh_tokens *asked_with(const lh_generate_request *q, int64_t i)
{
    return q->question_count ? &q->questions[i] : &q->prompt;
}

lh_status lh_writers_open(lh_generate_run *r)
{
    const lh_generate_request *q = r->request;
    const lh_tokenizer *tok = lh_engine_tokenizer(r->engine);
    LH_TRY(lh_calloc(&r->writers, r->out->answer_count, sizeof *r->writers));
    for (int64_t i = 0; i < r->out->answer_count; i++) {
        lh_answer *answer = &r->out->answers[i];
        answer->finish = LH_FINISH_INTERRUPTED;
        answer->splits = q->splits_thoughts;
        answer->opened = q->continues_thoughts;
        if (answer->splits && !answer->opened) LH_TRY(lh_thoughts_opened(tok, asked_with(q, i), &answer->opened));
        r->writers[i] = (lh_answer_writer){.run = r,
                                           .index = i,
                                           .answer = answer,
                                           .text = {.decoder = {.tok = tok, .continues = continues_text(q, tok, i)},
                                                    .stops = {q->stops, q->stop_count},
                                                    .text = &answer->text}};
    }
    return LH_OK;
}

void lh_writers_close(lh_generate_run *r)
{
    for (int64_t i = 0; r->writers && i < r->out->answer_count; i++) {
        lh_answer_text_clear(&r->writers[i].text);
        lh_buf_clear(&r->writers[i].held);
    }
    lh_free(r->writers);
}

/* Passes the final text of the answer to the listener. */
static lh_status tell(lh_answer_writer *w)
{
    const lh_generate_events *e = &w->run->request->events;
    const lh_final_text *held = (const lh_final_text *)w->held.data;
    const int64_t count = w->held.bytes / (int64_t)sizeof *held;
    for (int64_t from = w->told ? held[w->told - 1].end : 0; w->told < count; from = held[w->told++].end)
        LH_TRY(e->token(e->self, w->index, held[w->told].id, w->answer->text.data ? w->answer->text.data + from : "",
                        held[w->told].end - from));
    return LH_OK;
}

/* What became final goes to the listener in its turn; what could be the beginning of a stop text is held back. */
static lh_status show(lh_answer_writer *w, int32_t id)
{
    lh_answer_text *t = &w->text;
    const lh_final_text now = {id, t->final};
    const int listens = w->run->request->events.token != NULL;
    if (listens && t->final >= t->shown) LH_TRY(lh_buf_append(&w->held, &now, sizeof now));
    t->shown = lh_max_i64(t->shown, t->final);
    return listens && w->index == w->run->telling ? tell(w) : LH_OK;
}

static lh_status write_token(void *self, int32_t id, int *stop)
{
    lh_answer_writer *w = self;
    LH_TRY(lh_answer_text_push(&w->text, id));
    LH_TRY(show(w, id));
    *stop = w->text.stopped;
    w->fed_s = lh_clock_s();
    return LH_OK;
}

/* Of a token in the last row of logits, as the model has it: before temperature and penalty. */
static lh_status take_logprob(void *self, int32_t id)
{
    lh_answer_writer *w = self;
    const int64_t vocab = lh_engine_get(w->run->engine)->config->vocab;
    const float *rows = NULL;
    int64_t n = 0;
    double max = -INFINITY, sum = 0;
    LH_TRY(lh_session_logits(w->session, &rows, &n));
    if (!rows) return LH_OK;
    const float *row = rows + (n - 1) * vocab;
    for (int64_t i = 0; i < vocab; i++) max = row[i] > max ? (double)row[i] : max;
    for (int64_t i = 0; i < vocab; i++) sum += exp((double)row[i] - max);
    const double logprob = (double)row[id] - max - log(sum);
    return lh_buf_append(&w->answer->logprobs, &logprob, sizeof logprob);
}

lh_status lh_generate_record_step(const lh_generate_run *r, int64_t tokens, double began_s)
{
    const lh_generate_recorder *recorder = r->request->recorder;
    if (!recorder || !recorder->step) return LH_OK;
    return recorder->step(recorder->self, r->session, tokens, lh_clock_s() - began_s);
}

lh_status lh_generate_write_logits(const lh_generate_run *r)
{
    lh_status st = LH_OK;
    const float *rows = NULL;
    int64_t n = 0;
    if (!r->request->logits) return LH_OK;
    LH_TRY(lh_session_logits(r->session, &rows, &n));
    if (rows) st = lh_logits_file_add(r->logits, rows, n, lh_session_tokens(r->session)->n - n);
    return st;
}

static lh_status count_step(void *self, int64_t fed)
{
    lh_answer_writer *w = self;
    w->run->decoded++;
    LH_TRY(lh_generate_record_step(w->run, 1, w->fed_s));
    LH_TRY(lh_generate_write_logits(w->run));
    return lh_generate_update_state(w->run, fed);
}

lh_decode lh_writer_decode(lh_answer_writer *w)
{
    const lh_generate_request *q = w->run->request;
    lh_decode how = {.sampling = q->sampling,
                     .max_new = q->max_new,
                     .ignore_eos = q->ignore_eos,
                     .ends = &q->ends,
                     .force = &q->force,
                     .known = &w->run->known,
                     .self = w,
                     .chosen = q->logprobs ? take_logprob : NULL,
                     .token = write_token,
                     .step = count_step};
    how.sampling.request += (uint64_t)w->index;
    return how;
}

lh_status lh_writer_end(lh_answer_writer *w)
{
    lh_generate_run *r = w->run;
    LH_TRY(lh_answer_text_finish(&w->text));
    LH_TRY(show(w, -1));
    w->ended = 1;
    while (r->telling < r->out->answer_count && r->writers[r->telling].ended)
        if (++r->telling < r->out->answer_count && r->request->events.token) LH_TRY(tell(&r->writers[r->telling]));
    return LH_OK;
}

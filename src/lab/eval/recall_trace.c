/* recall_trace.c - windows of `recall`: cuts the haystack to length, places the facts evenly, and asks for each. */
#include "lab/eval/recall_trace.h"

#include "engine/prompt.h"

/* The state of making one window. */
typedef struct maker {
    lh_recall_trace *out;
    const lh_tokenizer *tok;
    const lh_needle_form *form;
    lh_needle_spec spec;
    lh_buf hay; /* the haystack from its start, wrapped around */
    lh_needle_fact facts[LH_NEEDLE_KEYS];
    lh_eval_prompt whole; /* the window and the last question that was encoded */
} maker;

static lh_status draw_facts(maker *m)
{
    const lh_needle_form *form = m->form;
    m->spec.kind = (int64_t)(m->spec.seed % (uint64_t)form->kinds.n);
    LH_TRY(lh_needle_facts_draw(m->facts, form, &m->spec, 0));
    for (int64_t i = 0; i < form->keys; i++) m->facts[i].depth = ((double)i + 0.5) / (double)form->keys;
    return LH_OK;
}

static lh_status encode_window(const maker *m, const char *question, const char *answer, lh_eval_prompt *out)
{
    return lh_eval_prompt_make(out, m->tok,
                               &(lh_eval_prompt_text){.text = m->out->text.data,
                                                      .bytes = m->out->text.bytes,
                                                      .question = question,
                                                      .answer = answer,
                                                      .format = m->form->format,
                                                      .arguments = m->form->arguments,
                                                      .system = m->form->system});
}

/* The window with so many bytes of the haystack. */
static lh_status make_window(void *self, int64_t bytes, int64_t *tokens)
{
    maker *m = self;
    LH_TRY(lh_needle_facts_insert(&m->out->text, m->hay.data, bytes, m->facts, m->form->keys));
    LH_TRY(encode_window(m, "?", NULL, &m->whole));
    *tokens = m->whole.context.n;
    return LH_OK;
}

static lh_status push_ids(lh_tokens *out, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) LH_TRY(lh_tokens_push(out, ids[i]));
    return LH_OK;
}

static lh_status split_window(maker *m, const lh_recall_spec *spec)
{
    const lh_tokens *ids = &m->whole.context;
    const int64_t prompt = ids->n - spec->steps;
    if (prompt < 1)
        LH_FAIL(LH_EUSAGE, "'--length %lld' leaves no token of a prompt before the %lld of '--steps'",
                (long long)spec->length, (long long)spec->steps);
    LH_TRY(push_ids(&m->out->prompt, ids->ids, prompt));
    return push_ids(&m->out->steps, ids->ids + prompt, spec->steps);
}

static lh_status ask_for_fact(maker *m, const lh_needle_fact *fact, lh_recall_fact *out)
{
    lh_status st = LH_OK;
    lh_buf question = {0};
    LH_TRY_DONE(lh_needle_fact_ask(fact, m->form, &m->spec, &question, &out->answer));
    LH_TRY_DONE(lh_buf_puts(&out->sentence, fact->sentence.data));
    LH_TRY_DONE(encode_window(m, question.data, out->answer.data, &out->asked));
    out->kind = fact->kind->name;
done:
    lh_buf_clear(&question);
    return st;
}

/* Positions of a fact in tokens; the text is all of the window. */
static lh_status locate_fact(const maker *m, const lh_needle_fact *fact, lh_recall_fact *out)
{
    const int64_t begin = fact->begin ? fact->begin - 1 : 0; /* with the blank, which many tokenizers join to a word */
    int64_t rest;
    LH_TRY(lh_needle_tokens_from(m->tok, &m->out->text, begin, &rest));
    out->at = m->whole.context.n - rest;
    return lh_needle_tokens_from(m->tok, &m->out->text, fact->end, &out->age);
}

static lh_status ask_for_facts(maker *m)
{
    lh_recall_trace *out = m->out;
    LH_TRY(lh_calloc(&out->facts, m->form->keys, sizeof *out->facts));
    out->fact_count = m->form->keys;
    for (int64_t i = 0; i < out->fact_count; i++) LH_TRY(ask_for_fact(m, &m->facts[i], &out->facts[i]));
    if (m->form->format) LH_TRY(lh_buf_puts(&out->text, "\n\n")); /* which follow the text in the user's turn */
    for (int64_t i = 0; i < out->fact_count; i++) LH_TRY(locate_fact(m, &m->facts[i], &out->facts[i]));
    return LH_OK;
}

lh_status lh_recall_make(lh_recall_trace *out, const lh_tokenizer *tok, const lh_needle_form *form,
                         const lh_recall_spec *spec)
{
    lh_status st = LH_OK;
    maker m = {.out = out, .tok = tok, .form = form, .spec = {spec->length + spec->steps, 0, spec->seed, 0}};
    *out = (lh_recall_trace){0};
    LH_TRY_DONE(draw_facts(&m));
    LH_TRY_DONE(lh_needle_rotate(&m.hay, form, &m.spec, 0));
    LH_TRY_DONE(lh_needle_fit_text(&(lh_needle_fit){.hay = &m.hay,
                                                    .max = m.spec.length,
                                                    .rest = "the facts",
                                                    .option = "'--length' and '--steps'",
                                                    .make = make_window,
                                                    .self = &m}));
    LH_TRY_DONE(split_window(&m, spec));
    LH_TRY_DONE(ask_for_facts(&m));
done:
    lh_needle_facts_clear(m.facts, LH_NEEDLE_KEYS);
    lh_eval_prompt_clear(&m.whole);
    lh_buf_clear(&m.hay);
    if (st != LH_OK) lh_recall_trace_clear(out);
    return st;
}

void lh_recall_trace_clear(lh_recall_trace *trace)
{
    for (int64_t i = 0; trace->facts && i < trace->fact_count; i++) {
        lh_eval_prompt_clear(&trace->facts[i].asked);
        lh_buf_clear(&trace->facts[i].sentence);
        lh_buf_clear(&trace->facts[i].answer);
    }
    lh_free(trace->facts);
    lh_buf_clear(&trace->text);
    lh_tokens_clear(&trace->prompt);
    lh_tokens_clear(&trace->steps);
    *trace = (lh_recall_trace){0};
}

lh_status lh_recall_share(lh_comm *comm, lh_recall_trace *trace)
{
    lh_status st = LH_OK;
    LH_TRY(lh_prompt_share(comm, &trace->prompt));
    LH_TRY(lh_prompt_share(comm, &trace->steps));
    LH_TRY(lh_comm_bcast(comm, 0, &trace->fact_count, sizeof trace->fact_count));
    if (!trace->facts) st = lh_calloc(&trace->facts, trace->fact_count, sizeof *trace->facts);
    LH_TRY(lh_comm_agree(comm, st));
    for (int64_t i = 0; i < trace->fact_count; i++) {
        LH_TRY(lh_prompt_share(comm, &trace->facts[i].asked.question));
        LH_TRY(lh_prompt_share(comm, &trace->facts[i].asked.answer));
    }
    return LH_OK;
}

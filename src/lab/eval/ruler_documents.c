/* ruler_documents.c - the questions of RULER (qa.py): documents of SQuAD or HotpotQA, among them those that hold the
 * answer, in random order. */
#include "lab/eval/ruler_kinds.h"

static const char head[] =
    "Answer the question based on the given documents. Only give me the answer and do not output "
    "any other words.\n\nThe following are given documents.\n\n";
static const char question_template[] = "Answer the question based on the given documents. Only give me the answer and "
                                        "do not output any other words.\n\nQuestion: {query}";
static const char prefix[] = " Answer:";

enum { DRAW_OTHERS, DRAW_ORDER };

static const lh_documents *documents_of(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    return spec->task->need == LH_SYNTHETIC_SQUAD ? &form->sources->squad : &form->sources->hotpot;
}

static const lh_document_question *question_of(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    const lh_documents *d = documents_of(form, spec);
    return &d->questions[spec->seed % (uint64_t)d->question_count];
}

static int has(const lh_document_set *set, int64_t document)
{
    for (int64_t i = 0; i < set->n; i++)
        if (set->at[i] == document) return 1;
    return 0;
}

/* The documents of a prompt, [units]: those of the question, related ones, then any others; all of them, several times,
 * where there are too few. */
static lh_status choose_documents(const lh_synthetic_maker *maker, int64_t **out)
{
    lh_status st = LH_OK;
    const lh_documents *d = documents_of(maker->form, maker->spec);
    const lh_document_question *q = question_of(maker->form, maker->spec);
    const int related_too = maker->units - q->gold.n > q->related.n;
    const lh_document_set *some = &q->related;
    lh_draws draws = lh_synthetic_draws(maker, DRAW_OTHERS);
    int64_t *order = NULL, *chosen = NULL, n = 0;
    LH_TRY_DONE(lh_calloc(&chosen, maker->units, sizeof *chosen));
    for (int64_t i = 0; maker->units >= d->n && i < maker->units; i++) chosen[n++] = i % d->n;
    if (n == 0) {
        while (n < q->gold.n) chosen[n] = q->gold.at[n], n++;
        for (int64_t i = 0; related_too && i < some->n; i++) chosen[n++] = some->at[i];
        LH_TRY_DONE(lh_draw_order(&draws, &order, related_too ? d->n : some->n));
    }
    for (int64_t i = 0; n < maker->units; i++) {
        if (!related_too)
            chosen[n++] = some->at[order[i]];
        else if (!has(&q->gold, order[i]) && !has(some, order[i]))
            chosen[n++] = order[i];
    }
    *out = chosen;
    chosen = NULL;
done:
    lh_free(order);
    lh_free(chosen);
    return st;
}

static lh_status build_documents(const lh_synthetic_maker *maker)
{
    lh_status st = LH_OK;
    lh_synthetic_sample *s = maker->out;
    const lh_documents *d = documents_of(maker->form, maker->spec);
    const lh_document_question *q = question_of(maker->form, maker->spec);
    lh_draws draws = lh_synthetic_draws(maker, DRAW_ORDER);
    int64_t *chosen = NULL, *order = NULL;
    LH_TRY_DONE(choose_documents(maker, &chosen));
    LH_TRY_DONE(lh_draw_order(&draws, &order, maker->units));
    LH_TRY_DONE(lh_buf_puts(&s->text, head));
    for (int64_t i = 0; i < maker->units; i++) {
        LH_TRY_DONE(lh_buf_printf(&s->text, "%sDocument %lld:\n", i ? "\n\n" : "", (long long)i + 1));
        LH_TRY_DONE(lh_buf_puts(&s->text, d->at[chosen[order[i]]]));
    }
    LH_TRY_DONE(lh_synthetic_fill(&s->question, question_template, "", q->query));
    LH_TRY_DONE(lh_buf_puts(&s->prefix, prefix));
    LH_TRY_DONE(lh_buf_printf(&s->expected, " %s", q->answers[0]));
    for (int64_t i = 0; i < q->answer_count; i++) LH_TRY_DONE(lh_synthetic_reference(s, q->answers[i]));
done:
    lh_free(chosen);
    lh_free(order);
    return st;
}

static int64_t min_documents(const lh_synthetic_form *form, const lh_synthetic_spec *spec)
{
    return question_of(form, spec)->gold.n;
}

const lh_synthetic_kind lh_ruler_documents = {build_documents, min_documents, "\n\n", 0, lh_synthetic_match_part};

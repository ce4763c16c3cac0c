/* decode.c - the decode loop: sample or force a token, test for the end, feed the token back. */
#include "engine/decode.h"

const lh_sampling lh_greedy = {0};

const char *lh_finish_name(lh_finish_reason finish)
{
    static const char *const names[] = {"stop", "length", "interrupted"};
    return names[finish];
}

static int ends_answer(const lh_session *session, const lh_decode *how, int32_t id)
{
    const lh_tokenizer *tok = lh_engine_tokenizer(lh_session_engine(session));
    int ends = tok && !how->ignore_eos && lh_tokenizer_is_eos(tok, id);
    for (int64_t i = 0; how->ends && i < how->ends->n; i++) ends |= how->ends->ids[i] == id;
    return ends;
}

lh_status lh_answering_choose(lh_answering *a)
{
    const lh_decode *how = a->how;
    const lh_tokens *force = how->force;
    int stop = 0;
    int32_t id;
    lh_sampling sampling = how->sampling;
    if (a->chosen < how->min_new) sampling.bias_count += how->bans;
    if (a->chosen >= how->max_new) {
        a->ended = 1;
        return LH_OK;
    }
    if (force && a->chosen < force->n)
        id = force->ids[a->chosen];
    else
        LH_TRY(lh_session_draw(a->session, &sampling, a->chosen, &id));
    LH_TRY(lh_tokens_push(a->out, id));
    if (how->chosen) LH_TRY(how->chosen(how->self, id));
    stop = ends_answer(a->session, how, id);
    if (!stop && how->token) LH_TRY(how->token(how->self, id, &stop));
    a->finish = stop ? LH_FINISH_STOP : LH_FINISH_LENGTH;
    a->ended = stop || ++a->chosen == how->max_new;
    return LH_OK;
}

/* Tokens of an interrupted run come again, without the model. */
static lh_status repeat_known(lh_answering *a)
{
    const lh_decode *how = a->how;
    int stop = 0;
    for (int64_t i = 0; how->known && i < how->known->n; i++, a->chosen++) {
        LH_TRY(lh_tokens_push(a->out, how->known->ids[i]));
        if (how->token) LH_TRY(how->token(how->self, how->known->ids[i], &stop));
    }
    return LH_OK;
}

lh_status lh_answering_fed(lh_answering *a)
{
    return a->how->step ? a->how->step(a->how->self, a->chosen) : LH_OK;
}

lh_status lh_session_decode(lh_session *session, const lh_decode *how, lh_tokens *out, lh_finish_reason *finish)
{
    lh_answering a = {.session = session, .how = how, .out = out, .finish = LH_FINISH_LENGTH};
    LH_TRY(repeat_known(&a));
    LH_TRY(lh_answering_choose(&a));
    while (!a.ended) {
        LH_TRY(lh_session_step(session, out->ids[out->n - 1]));
        LH_TRY(lh_answering_fed(&a));
        LH_TRY(lh_answering_choose(&a));
    }
    if (finish) *finish = a.finish;
    return LH_OK;
}

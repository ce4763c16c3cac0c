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
    int ends = tok && lh_tokenizer_is_eos(tok, id);
    for (int64_t i = 0; how->ends && i < how->ends->n; i++) ends |= how->ends->ids[i] == id;
    return ends && !how->ignore_eos;
}

lh_status lh_session_decode(lh_session *session, const lh_decode *how, lh_tokens *out, lh_finish_reason *finish)
{
    const int64_t forced = how->force ? how->force->n : 0;
    int stop = 0;
    for (int64_t i = 0; i < how->max_new && !stop; i++) {
        int32_t id;
        if (i) {
            LH_TRY(lh_session_step(session, out->ids[out->n - 1]));
            if (how->step) LH_TRY(how->step(how->self, i));
        }
        if (i < forced)
            id = how->force->ids[i];
        else
            LH_TRY(lh_session_sample(session, &how->sampling, i, &id));
        LH_TRY(lh_tokens_push(out, id));
        if (how->chosen) LH_TRY(how->chosen(how->self, id));
        stop = ends_answer(session, how, id);
        if (!stop && how->token) LH_TRY(how->token(how->self, id, &stop));
    }
    if (finish) *finish = stop ? LH_FINISH_STOP : LH_FINISH_LENGTH;
    return LH_OK;
}

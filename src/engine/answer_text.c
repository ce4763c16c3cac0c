#include "engine/answer_text.h"

lh_status lh_answer_text_push(lh_answer_text *t, int32_t id)
{
    if (t->decoder.tok) LH_TRY(lh_detokenizer_push(&t->decoder, id, t->text));
    if (t->tokens++ < t->min_tokens) t->early = t->text->bytes;
    t->stopped = lh_stops_cut(&t->stops, t->text, t->shown, t->early, &t->final);
    return LH_OK;
}

lh_status lh_answer_text_finish(lh_answer_text *t)
{
    if (t->decoder.tok && !t->stopped) {
        LH_TRY(lh_detokenizer_finish(&t->decoder, t->text));
        t->stopped = lh_stops_cut(&t->stops, t->text, t->shown, t->early, &t->final);
    }
    t->final = t->text->bytes;
    return LH_OK;
}

void lh_answer_text_clear(lh_answer_text *t)
{
    lh_detokenizer_clear(&t->decoder);
}

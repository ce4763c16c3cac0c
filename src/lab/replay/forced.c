#include "lab/replay/forced.h"

#include <string.h>

#include "base/minmax.h"
#include "lab/trace/trace_file.h"

static lh_status take_text(lh_forced *f, const lh_tokens *text)
{
    f->n = text->n;
    LH_TRY(lh_calloc(&f->ids, f->n, sizeof *f->ids));
    memcpy(f->ids, text->ids, (size_t)f->n * sizeof *f->ids);
    return LH_OK;
}

/* Adds an answer; its first `block` tokens are its question. */
static void add_answer(lh_forced *f, const lh_trace_answer_rows *rows)
{
    f->first[f->answers++] = rows->first;
    f->first[f->answers] = rows->end;
    f->longest = lh_max_i64(f->longest, rows->end - rows->first);
    for (int64_t i = rows->first; i + 1 < rows->end; i++) f->count += f->judged[i] = i + 1 >= rows->first + rows->block;
}

lh_status lh_forced_take(lh_forced *f, const lh_trace_file *trace, const lh_tokens *text, int64_t vocab)
{
    lh_trace_answer_rows rows = {0};
    *f = (lh_forced){.n = trace->after_count};
    LH_TRY(text ? take_text(f, text) : lh_trace_after_tokens(trace, vocab, &f->ids));
    LH_TRY(lh_calloc(&f->judged, f->n, sizeof *f->judged));
    LH_TRY(lh_calloc(&f->first, f->n + 1, sizeof *f->first));
    if (text) add_answer(f, &(lh_trace_answer_rows){.end = f->n});
    while (!text && lh_trace_next_answer(trace, &rows)) add_answer(f, &rows);
    if (f->count == 0)
        LH_FAIL(
            LH_EUSAGE,
            "what follows the prompt of '%s' has no token but the first, which is the same for all policies: record "
            "longer answers ('-n 64')",
            lh_h5_path(trace->h5));
    return LH_OK;
}

void lh_forced_clear(lh_forced *f)
{
    lh_free(f->ids);
    lh_free(f->judged);
    lh_free(f->first);
    *f = (lh_forced){0};
}

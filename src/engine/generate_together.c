/* Several questions of `generate` about one context: each in a fork of the session that holds it, which shares its
 * entries until they change; all of them decode together, as many as there is memory for. */
#include "base/mem.h"
#include "engine/generate_impl.h"
#include "engine/scheduler.h"

typedef struct questions {
    lh_task *tasks;
    int64_t count, next;
} questions;

static lh_status next_question(void *self, lh_task **out)
{
    questions *q = self;
    *out = q->next < q->count ? &q->tasks[q->next++] : NULL;
    return LH_OK;
}

static lh_status begin_answer(void *self, lh_session *session)
{
    lh_answer_writer *w = self;
    w->session = session;
    return LH_OK;
}

/* An answer that fails ends the run. */
static lh_status end_answer(void *self, lh_session *session, lh_finish_reason finish, lh_status st)
{
    lh_answer_writer *w = self;
    (void)session;
    if (st != LH_OK) return st;
    w->answer->finish = finish;
    return lh_writer_end(w);
}

lh_status lh_generate_together(lh_generate_run *r)
{
    const lh_generate_request *q = r->request;
    const lh_context context = {.prompt = *lh_session_tokens(r->session),
                                .policy = &r->out->policy,
                                .profiles = lh_generate_profiles(r),
                                .more = lh_generate_more(q)};
    lh_scheduler_figures figures = {0};
    questions all = {.count = q->question_count};
    lh_status st = lh_calloc(&all.tasks, all.count, sizeof *all.tasks);
    LH_TRY(lh_comm_agree(lh_engine_get(r->engine)->comm, st));
    for (int64_t i = 0; i < all.count; i++)
        all.tasks[i] = (lh_task){.context = &context,
                                 .prompt = q->questions[i],
                                 .how = lh_writer_decode(&r->writers[i]),
                                 .answer = &r->out->answers[i].ids,
                                 .self = &r->writers[i],
                                 .prefilled = begin_answer,
                                 .done = end_answer};
    lh_session_keep_logits(r->session, 1);
    st = lh_schedule(r->engine,
                     &(lh_scheduler_options){.max_running = lh_generate_forks(all.count),
                                             .prefill_share = 1,
                                             .session = r->session,
                                             .context = &context,
                                             .self = &all,
                                             .next = next_question},
                     &figures);
    r->out->prompt_tokens += figures.prompt_tokens;
    r->out->timing.prefill_s += figures.prefill_s;
    r->decode_s += figures.decode_s;
    lh_free(all.tasks);
    return st;
}

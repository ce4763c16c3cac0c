/* dispatch.c - messages between leaders: a heading, then what it says follows. */
#include "batch/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "batch/peers.h"

/* ASKED: a rank was asked to end the run, after its replica had ended. BEAT: a sign of life. OVER: all have ended. */
typedef enum letter_kind { ASK, LINE, END, ASKED, REQUEST, NOTHING, STOP, OVER, BEAT } letter_kind;

/* Numbers that follow the heading in this order. */
typedef enum part { TEXT, NAME, PROMPT, ENDS, CONTEXT, TIMING, PARTS } part;

typedef struct heading {
    int64_t kind, i, number, context, more, failed, status;
    uint64_t hash, context_hash;
    int64_t bytes[PARTS]; /* TEXT: of the request's line, of the output's line, or of a message; NAME: custom_id */
} heading;

struct lh_batch_dispatch {
    lh_comm *leaders;
    const lh_batch_common *common;
    lh_batch_peers *peers; /* NULL: this leader is alone */
    /* the head */
    lh_batch_queue *queue;
    lh_batch_ledger *ledger;
    int64_t *contexts; /* [replicas] the last that each was sent */
    uint8_t *ended;    /* [replicas] */
    lh_status failure; /* of a replica, or of the output ... */
    lh_buf why;        /* ... and its message */
    int told;          /* the others that they are to end */

    /* the others */
    int asked, stopped, over;
    int interrupt; /* 1: the head knows of an interrupt */
    lh_buf answer; /* the letter that the head has sent; empty: none yet */
    lh_tokens ids; /* of the last new context */
};

static int is_head(const lh_batch_dispatch *d)
{
    return lh_comm_rank(d->leaders) == 0;
}

lh_status lh_batch_dispatch_open(lh_batch_dispatch **out, lh_comm *leaders, const lh_batch_common *common,
                                 lh_batch_queue *queue, lh_batch_ledger *ledger)
{
    lh_status st = LH_OK;
    lh_batch_dispatch *d = NULL;
    LH_TRY_DONE(lh_calloc(&d, 1, sizeof *d));
    d->leaders = leaders;
    d->common = common;
    d->queue = queue;
    d->ledger = ledger;
    LH_TRY_DONE(lh_calloc(&d->contexts, lh_comm_size(leaders), sizeof *d->contexts));
    LH_TRY_DONE(lh_calloc(&d->ended, lh_comm_size(leaders), sizeof *d->ended));
    *out = d;
    d = NULL;
done:
    lh_batch_dispatch_close(d);
    return st;
}

void lh_batch_dispatch_close(lh_batch_dispatch *d)
{
    if (!d) return;
    lh_batch_peers_close(d->peers);
    lh_free(d->contexts);
    lh_free(d->ended);
    lh_buf_clear(&d->why);
    lh_buf_clear(&d->answer);
    lh_tokens_clear(&d->ids);
    lh_free(d);
}

lh_status lh_batch_dispatch_meet(lh_batch_dispatch *d, int rank)
{
    return lh_comm_size(d->leaders) > 1 ? lh_batch_peers_open(&d->peers, d->leaders, rank) : LH_OK;
}

/* ---- letters ---- */

/* parts: [PARTS] what follows, of h->bytes bytes each. */
static lh_status send(const lh_batch_dispatch *d, int to, const heading *h, const void *const *parts)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_buf_append(&text, h, sizeof *h));
    for (int p = 0; p < PARTS; p++)
        if (h->bytes[p]) LH_TRY_DONE(lh_buf_append(&text, parts[p], h->bytes[p]));
    LH_TRY_DONE(lh_comm_post(d->leaders, to, text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status send_word(const lh_batch_dispatch *d, int to, letter_kind kind)
{
    return send(d, to, &(heading){.kind = kind}, NULL);
}

static lh_status send_message(const lh_batch_dispatch *d, int to, letter_kind kind, lh_status st)
{
    const char *message = st == LH_OK ? "" : lh_error_message();
    const heading h = {.kind = kind, .status = st, .bytes = {[TEXT] = (int64_t)strlen(message)}};
    return send(d, to, &h, (const void *const[PARTS]){[TEXT] = message});
}

/* A letter that has arrived; *from -1: none has. */
static lh_status receive(const lh_batch_dispatch *d, int *from, lh_buf *out)
{
    int64_t bytes = 0;
    out->bytes = 0;
    *from = -1;
    if (lh_comm_size(d->leaders) == 1) return LH_OK;
    LH_TRY(lh_comm_arrived(d->leaders, from, &bytes));
    if (*from < 0) return LH_OK;
    LH_TRY(lh_realloc(&out->data, bytes + 1, 1));
    out->cap_bytes = bytes + 1;
    out->bytes = bytes;
    LH_TRY(lh_comm_take(d->leaders, *from, out->data, bytes));
    lh_batch_peers_heard(d->peers, *from);
    return LH_OK;
}

/* A sign of life, when it is time: of the head to all others, of these to the head. */
static lh_status beat(const lh_batch_dispatch *d)
{
    if (!d->peers || !lh_batch_peers_beat(d->peers)) return LH_OK;
    for (int r = 0; r < lh_comm_size(d->leaders); r++)
        if (is_head(d) ? r > 0 : r == 0) LH_TRY(send_word(d, r, BEAT));
    return LH_OK;
}

static heading heading_of(const lh_buf *letter)
{
    heading h;
    memcpy(&h, letter->data, sizeof h);
    return h;
}

static const char *part_of(const lh_buf *letter, const heading *h, part which)
{
    const char *at = letter->data + sizeof *h;
    for (int p = 0; p < (int)which; p++) at += h->bytes[p];
    return at;
}

/* ---- the head ---- */

/* The run ends with this failure. The first one counts, but that the output cannot be written is told in any case. */
static lh_status note_failure(lh_batch_dispatch *d, lh_status st, const char *message, int64_t bytes)
{
    const int more = d->failure == LH_OK || (st == LH_EWRITE && d->failure != LH_EWRITE);
    if (st == LH_OK || !more) return LH_OK;
    d->failure = st;
    d->why.bytes = 0;
    return lh_buf_append(&d->why, message, bytes);
}

static lh_status note_own_failure(lh_batch_dispatch *d, lh_status st)
{
    return st == LH_OK ? LH_OK : note_failure(d, st, lh_error_message(), (int64_t)strlen(lh_error_message()));
}

/* The next request, or that there is none, for another replica. */
static lh_status hand_out(lh_batch_dispatch *d, int to)
{
    lh_batch_upcoming next = {.work = NULL};
    if (d->failure == LH_OK) LH_TRY(note_own_failure(d, lh_batch_queue_next(d->queue, &next)));
    if (d->failure != LH_OK) { /* in reading it, perhaps */
        lh_batch_work_close(next.work);
        next.work = NULL;
    }
    if (!next.work) return send_word(d, to, d->failure == LH_OK ? NOTHING : STOP);
    const lh_batch_work *w = next.work;
    const int knows = next.context == d->contexts[to];
    const heading h = {.kind = REQUEST,
                       .i = w->i,
                       .number = w->line.number,
                       .hash = w->line.hash,
                       .context_hash = w->line.context_hash,
                       .context = next.context,
                       .more = next.more,
                       .bytes = {[TEXT] = w->line.bytes,
                                 [NAME] = (int64_t)strlen(w->line.custom_id),
                                 [PROMPT] = w->prompt.n * (int64_t)sizeof(int32_t),
                                 [ENDS] = w->ends.n * (int64_t)sizeof(int32_t),
                                 [CONTEXT] = next.ids && !knows ? next.ids->n * (int64_t)sizeof(int32_t) : 0}};
    if (next.context) d->contexts[to] = next.context;
    lh_status st = send(d, to, &h,
                        (const void *const[PARTS]){[TEXT] = w->line.text,
                                                   [NAME] = w->line.custom_id,
                                                   [PROMPT] = w->prompt.ids,
                                                   [ENDS] = w->ends.ids,
                                                   [CONTEXT] = next.ids ? next.ids->ids : NULL});
    lh_batch_work_close(next.work);
    return st;
}

static lh_status take_line(lh_batch_dispatch *d, const heading *h, const lh_buf *letter)
{
    json_t *timing =
        h->bytes[TIMING] ? json_loadb(part_of(letter, h, TIMING), (size_t)h->bytes[TIMING], 0, NULL) : NULL;
    const lh_batch_put put = {.i = h->i,
                              .line = part_of(letter, h, TEXT),
                              .bytes = h->bytes[TEXT],
                              .failed = (int)h->failed,
                              .timing = timing};
    lh_status st = d->failure == LH_EWRITE ? LH_OK : lh_batch_ledger_put(d->ledger, &put);
    json_decref(timing);
    return note_own_failure(d, st);
}

static lh_status answer(lh_batch_dispatch *d, int from, const lh_buf *letter)
{
    const heading h = heading_of(letter);
    if (h.kind == ASK) return hand_out(d, from);
    if (h.kind == LINE) return take_line(d, &h, letter);
    if (h.kind == BEAT) return LH_OK;
    d->ended[from] |= h.kind == END;
    return note_failure(d, (lh_status)h.status, part_of(letter, &h, TEXT), h.bytes[TEXT]);
}

/* Answers what has arrived, and looks who has been silent. */
static lh_status serve(lh_batch_dispatch *d)
{
    lh_status st = LH_OK;
    lh_buf letter = {0};
    for (int from = 0; from >= 0;) {
        LH_TRY_DONE(receive(d, &from, &letter));
        if (from >= 0) LH_TRY_DONE(answer(d, from, &letter));
    }
    LH_TRY_DONE(beat(d));
    for (int r = 1; r < lh_comm_size(d->leaders); r++) lh_batch_peers_check(d->peers, r, "lines of another replica");
done:
    lh_buf_clear(&letter);
    return st;
}

static lh_status check_failure(const lh_batch_dispatch *d)
{
    if (d->failure != LH_OK) LH_FAIL(d->failure, "%.*s", (int)d->why.bytes, d->why.data ? d->why.data : "");
    return LH_OK;
}

static int all_ended(const lh_batch_dispatch *d)
{
    for (int r = 1; r < lh_comm_size(d->leaders); r++)
        if (!d->ended[r]) return 0;
    return 1;
}

/* Tells those that are at work that the run ends, once. */
static lh_status stop_others(lh_batch_dispatch *d)
{
    if (d->failure == LH_OK || d->told) return LH_OK;
    d->told = 1;
    for (int r = 1; r < lh_comm_size(d->leaders); r++)
        if (!d->ended[r]) LH_TRY(send_word(d, r, STOP));
    return LH_OK;
}

/* One look while the head waits for the others. */
static lh_status attend(lh_batch_dispatch *d)
{
    LH_TRY(stop_others(d));
    LH_TRY(serve(d));
    if (d->failure != LH_EWRITE) LH_TRY(note_own_failure(d, lh_batch_output_tick(d->ledger->output)));
    return LH_OK;
}

static lh_status end_all(lh_batch_dispatch *d)
{
    for (int r = 1; r < lh_comm_size(d->leaders); r++) LH_TRY(send_word(d, r, OVER));
    d->over = 1;
    return LH_OK;
}

/* ---- the others ---- */

/* Takes what the head has sent: the answer that was asked for, or that the run has ended. */
static lh_status take_letters(lh_batch_dispatch *d)
{
    lh_status st = LH_OK;
    lh_buf letter = {0};
    for (int from = 0; from >= 0;) {
        LH_TRY_DONE(receive(d, &from, &letter));
        if (from < 0) break;
        const int64_t kind = heading_of(&letter).kind;
        d->stopped |= kind == STOP;
        d->over |= kind == OVER;
        if (kind == REQUEST || kind == NOTHING) {
            lh_buf_clear(&d->answer);
            d->answer = letter;
            letter = (lh_buf){0};
        }
    }
    LH_TRY_DONE(beat(d));
    lh_batch_peers_check(d->peers, 0, d->ended[0] ? "the end of the run" : "requests");
done:
    lh_buf_clear(&letter);
    return st;
}

/* The same while this replica is at work. */
static lh_status look(lh_batch_dispatch *d)
{
    LH_TRY(take_letters(d));
    if (d->stopped) LH_FAIL(LH_EINTERRUPTED, "the run has ended on another replica");
    return LH_OK;
}

static lh_status ask(lh_batch_dispatch *d)
{
    if (d->asked) return LH_OK;
    d->asked = 1;
    return send_word(d, 0, ASK);
}

static lh_status read_ids(const lh_buf *letter, const heading *h, part which, lh_tokens *out)
{
    const int64_t n = h->bytes[which] / (int64_t)sizeof(int32_t);
    for (int64_t k = 0; k < n; k++) {
        int32_t id;
        memcpy(&id, part_of(letter, h, which) + k * (int64_t)sizeof id, sizeof id);
        LH_TRY(lh_tokens_push(out, id));
    }
    return LH_OK;
}

/* A request as the head has read it. */
static lh_status read_request(lh_batch_dispatch *d, const heading *h, lh_batch_upcoming *out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    const int64_t bytes = h->bytes[TEXT];
    LH_TRY_DONE(lh_calloc(&text, bytes + 1 + h->bytes[NAME] + 1, 1));
    memcpy(text, part_of(&d->answer, h, TEXT), (size_t)bytes);
    memcpy(text + bytes + 1, part_of(&d->answer, h, NAME), (size_t)h->bytes[NAME]);
    const lh_batch_line line = {.number = h->number,
                                .hash = h->hash,
                                .text = text,
                                .bytes = bytes,
                                .custom_id = text + bytes + 1,
                                .context_hash = h->context_hash};
    LH_TRY_DONE(lh_batch_work_open(&out->work, d->common, h->i, &line, h->context != 0));
    out->work->text = text;
    text = NULL;
    LH_TRY_DONE(read_ids(&d->answer, h, PROMPT, &out->work->prompt));
    LH_TRY_DONE(read_ids(&d->answer, h, ENDS, &out->work->ends));
    out->context = h->context;
    out->more = h->more;
    if (h->bytes[CONTEXT]) {
        d->ids.n = 0;
        LH_TRY_DONE(read_ids(&d->answer, h, CONTEXT, &d->ids));
        out->ids = &d->ids;
    }
done:
    if (st != LH_OK) {
        lh_batch_work_close(out->work);
        out->work = NULL;
    }
    lh_free(text);
    return st;
}

static lh_status wait_for_head(lh_batch_dispatch *d, lh_batch_upcoming *out)
{
    enum { PAUSE_US = 200 };
    LH_TRY(ask(d));
    for (;;) {
        LH_TRY(lh_batch_check_interrupt());
        LH_TRY(look(d));
        if (d->answer.bytes) break;
        lh_comm_pause(d->leaders, PAUSE_US);
    }
    const heading h = heading_of(&d->answer);
    if (h.kind == NOTHING) return LH_OK;
    LH_TRY(read_request(d, &h, out));
    d->answer.bytes = 0;
    d->asked = 0;
    return ask(d);
}

/* ---- both ---- */

lh_status lh_batch_dispatch_next(lh_batch_dispatch *d, lh_batch_upcoming *out)
{
    *out = (lh_batch_upcoming){.work = NULL};
    if (!is_head(d)) return wait_for_head(d, out);
    LH_TRY(serve(d));
    LH_TRY(check_failure(d));
    LH_TRY(lh_batch_queue_next(d->queue, out));
    if (out->context && out->context == d->contexts[0]) out->ids = NULL;
    if (out->context) d->contexts[0] = out->context;
    return LH_OK;
}

lh_status lh_batch_dispatch_put(lh_batch_dispatch *d, const lh_batch_put *put)
{
    if (is_head(d)) return lh_batch_ledger_put(d->ledger, put);
    char *timing = put->timing ? json_dumps(put->timing, JSON_COMPACT) : NULL;
    const heading h = {.kind = LINE,
                       .i = put->i,
                       .failed = put->failed,
                       .bytes = {[TEXT] = put->bytes, [TIMING] = timing ? (int64_t)strlen(timing) : 0}};
    lh_status st = send(d, 0, &h, (const void *const[PARTS]){[TEXT] = put->line, [TIMING] = timing});
    free(timing);
    return st;
}

lh_status lh_batch_dispatch_pulse(lh_batch_dispatch *d)
{
    if (!is_head(d)) return look(d);
    LH_TRY(serve(d));
    LH_TRY(lh_batch_output_tick(d->ledger->output));
    return check_failure(d);
}

lh_status lh_batch_dispatch_end(lh_batch_dispatch *d, lh_status st)
{
    d->ended[lh_comm_rank(d->leaders)] = 1;
    return is_head(d) ? note_own_failure(d, st) : send_message(d, 0, END, st);
}

/* The head ends the run, or hears of it. */
static lh_status note_interrupt(lh_batch_dispatch *d)
{
    const lh_status st = lh_fail(LH_EINTERRUPTED, __FILE__, __LINE__, "%s", LH_BATCH_INTERRUPTED_TEXT);
    if (is_head(d)) return note_own_failure(d, st);
    if (d->interrupt) return LH_OK;
    d->interrupt = 1;
    return send_message(d, 0, ASKED, st);
}

lh_status lh_batch_dispatch_wait(lh_batch_dispatch *d, int asked, int64_t *over)
{
    enum { PAUSE_US = 500, LOOKS = 20 };
    if (asked) LH_TRY(note_interrupt(d));
    for (int k = 0; k < LOOKS && !d->over; k++) {
        if (k) lh_comm_pause(d->leaders, PAUSE_US);
        LH_TRY(is_head(d) ? attend(d) : take_letters(d));
        if (is_head(d) && all_ended(d)) LH_TRY(end_all(d));
    }
    *over = d->over;
    return LH_OK;
}

lh_status lh_batch_dispatch_verdict(const lh_batch_dispatch *d, lh_status st)
{
    return is_head(d) ? check_failure(d) : st;
}

/* dispatch.c - messages between the roots of replicas: a header, which holds the sizes of the sections after it. */
#include "batch/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* GET: a replica wants a request; REQUEST and NO_REQUEST answer it. LINE: a finished line. END: a replica has finished.
 * INTERRUPT: a rank was asked to end the run after the END of its replica. STOP: the run ends early. FINISHED: all
 * replicas have finished. */
typedef enum message_kind { GET, LINE, END, INTERRUPT, REQUEST, NO_REQUEST, STOP, FINISHED, HEARTBEAT } message_kind;

/* Sections in the order in which they follow the header. TEXT: the request's line, the finished line, or an error
 * message. NAME: a custom_id. */
typedef enum section { TEXT, NAME, PROMPT, ENDS, CONTEXT, TIMING, SECTIONS } section;

typedef struct message_header {
    int64_t kind, i, number, context, more, left_out, failed, status;
    uint64_t hash, context_hash;
    int64_t bytes[SECTIONS];
} message_header;

/* Heartbeats within --comm-timeout: a late one is not taken for a lost root. */
static const double HEARTBEATS = 4;

typedef struct peer {
    char name[96]; /* "rank 2 on n17" */
    double last_seen_s;
} peer;

struct lh_batch_dispatch {
    lh_comm *roots;
    const lh_batch_common *common;
    peer *peers; /* [roots]; NULL: there is one root */
    double heartbeat_s;

    /* coordinator */
    lh_batch_queue *queue;
    lh_batch_output *output;
    int64_t *contexts; /* [roots] number of the last context that was sent to each */
    uint8_t *ended;    /* [roots] */
    lh_status failure; /* of a replica or of the output */
    lh_buf why;        /* message of the failure */
    int stop_sent;

    /* other roots */
    int request_pending, stopped;
    int interrupt_sent;
    lh_buf reply;  /* the coordinator's answer to GET; empty: none has arrived */
    lh_tokens ids; /* of the last context */

    int finished;
};

static int is_coordinator(const lh_batch_dispatch *d)
{
    return lh_comm_rank(d->roots) == 0;
}

lh_status lh_batch_dispatch_open(lh_batch_dispatch **out, lh_comm *roots, const lh_batch_common *common,
                                 lh_batch_queue *queue, lh_batch_output *output)
{
    lh_status st = LH_OK;
    lh_batch_dispatch *d = NULL;
    LH_TRY_DONE(lh_calloc(&d, 1, sizeof *d));
    d->roots = roots;
    d->common = common;
    d->queue = queue;
    d->output = output;
    LH_TRY_DONE(lh_calloc(&d->contexts, lh_comm_size(roots), sizeof *d->contexts));
    LH_TRY_DONE(lh_calloc(&d->ended, lh_comm_size(roots), sizeof *d->ended));
    *out = d;
    d = NULL;
done:
    lh_batch_dispatch_close(d);
    return st;
}

void lh_batch_dispatch_close(lh_batch_dispatch *d)
{
    if (!d) return;
    lh_free(d->peers);
    lh_free(d->contexts);
    lh_free(d->ended);
    lh_buf_clear(&d->why);
    lh_buf_clear(&d->reply);
    lh_tokens_clear(&d->ids);
    lh_free(d);
}

lh_status lh_batch_dispatch_exchange_names(lh_batch_dispatch *d, int rank)
{
    peer own = {.name = ""};
    const int count = lh_comm_size(d->roots);
    if (count == 1) return LH_OK;
    LH_TRY(lh_comm_agree(d->roots, lh_calloc(&d->peers, count, sizeof *d->peers)));
    snprintf(own.name, sizeof own.name, "rank %d on %s", rank, lh_comm_host(d->roots));
    LH_TRY(lh_comm_allgather(d->roots, &own, d->peers, sizeof own));
    d->heartbeat_s = lh_comm_clock(d->roots);
    for (int r = 0; r < count; r++) d->peers[r].last_seen_s = d->heartbeat_s;
    return LH_OK;
}

/* ---- messages ---- */

/* sections: [SECTIONS], of h->bytes bytes each. */
static lh_status send_message(const lh_batch_dispatch *d, int to, const message_header *h, const void *const *sections)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_buf_append(&text, h, sizeof *h));
    for (int k = 0; k < SECTIONS; k++)
        if (h->bytes[k]) LH_TRY_DONE(lh_buf_append(&text, sections[k], h->bytes[k]));
    LH_TRY_DONE(lh_comm_post(d->roots, to, text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status send_kind(const lh_batch_dispatch *d, int to, message_kind kind)
{
    return send_message(d, to, &(message_header){.kind = kind}, NULL);
}

static lh_status send_status(const lh_batch_dispatch *d, int to, message_kind kind, lh_status st)
{
    const char *why = st == LH_OK ? "" : lh_error_message();
    const message_header h = {.kind = kind, .status = st, .bytes = {[TEXT] = (int64_t)strlen(why)}};
    return send_message(d, to, &h, (const void *const[SECTIONS]){[TEXT] = why});
}

/* A message that has arrived; *from -1: there is none. */
static lh_status receive_message(const lh_batch_dispatch *d, int *from, lh_buf *out)
{
    int64_t bytes = 0;
    out->bytes = 0;
    *from = -1;
    if (lh_comm_size(d->roots) == 1) return LH_OK;
    LH_TRY(lh_comm_arrived(d->roots, from, &bytes));
    if (*from < 0) return LH_OK;
    LH_TRY(lh_realloc(&out->data, bytes + 1, 1));
    out->cap_bytes = bytes + 1;
    out->bytes = bytes;
    LH_TRY(lh_comm_take(d->roots, *from, out->data, bytes));
    d->peers[*from].last_seen_s = lh_comm_clock(d->roots);
    return LH_OK;
}

static message_header header_of(const lh_buf *message)
{
    message_header h;
    memcpy(&h, message->data, sizeof h);
    return h;
}

static const char *section_of(const lh_buf *message, const message_header *h, section which)
{
    const char *at = message->data + sizeof *h;
    for (int k = 0; k < (int)which; k++) at += h->bytes[k];
    return at;
}

/* Sends a heartbeat when it is due: the coordinator to all other roots, every other root to the coordinator. */
static lh_status send_heartbeat(lh_batch_dispatch *d)
{
    const double now_s = lh_comm_clock(d->roots), timeout_s = lh_comm_timeout(d->roots);
    if (!d->peers || timeout_s == 0 || now_s - d->heartbeat_s < timeout_s / HEARTBEATS) return LH_OK;
    d->heartbeat_s = now_s;
    if (!is_coordinator(d)) return send_kind(d, 0, HEARTBEAT);
    for (int r = 1; r < lh_comm_size(d->roots); r++) LH_TRY(send_kind(d, r, HEARTBEAT));
    return LH_OK;
}

/* Ends the program if root r has been silent for --comm-timeout. To be called after all messages were received. */
static void check_peer(const lh_batch_dispatch *d, int r, const char *awaited)
{
    lh_comm_check_heartbeat(d->roots, d->peers[r].last_seen_s, d->peers[r].name, awaited);
}

/* ---- coordinator ---- */

/* The run ends with the first failure; but a failure of the output is reported in any case. */
static lh_status note_failure(lh_batch_dispatch *d, lh_status st, const char *message, int64_t bytes)
{
    const int counts = d->failure == LH_OK || (st == LH_EWRITE && d->failure != LH_EWRITE);
    if (st == LH_OK || !counts) return LH_OK;
    d->failure = st;
    d->why.bytes = 0;
    return lh_buf_append(&d->why, message, bytes);
}

static lh_status note_own_failure(lh_batch_dispatch *d, lh_status st)
{
    return st == LH_OK ? LH_OK : note_failure(d, st, lh_error_message(), (int64_t)strlen(lh_error_message()));
}

/* Sends the next request to another root, or NO_REQUEST, or STOP after a failure. */
static lh_status send_request(lh_batch_dispatch *d, int to)
{
    lh_batch_upcoming next = {.work = NULL};
    if (d->failure == LH_OK) LH_TRY(note_own_failure(d, lh_batch_queue_next(d->queue, &next)));
    if (d->failure != LH_OK) {
        lh_batch_work_close(next.work);
        next.work = NULL;
    }
    if (!next.work) return send_kind(d, to, d->failure == LH_OK ? NO_REQUEST : STOP);
    const lh_batch_work *w = next.work;
    const int has_context = next.context == d->contexts[to];
    const message_header h = {
        .kind = REQUEST,
        .i = w->i,
        .number = w->line.number,
        .hash = w->line.hash,
        .context_hash = w->line.context_hash,
        .context = next.context,
        .more = next.more,
        .left_out = w->left_out,
        .bytes = {[TEXT] = w->line.bytes,
                  [NAME] = (int64_t)strlen(w->line.custom_id),
                  [PROMPT] = w->prompt.n * (int64_t)sizeof(int32_t),
                  [ENDS] = w->ends.n * (int64_t)sizeof(int32_t),
                  [CONTEXT] = next.ids && !has_context ? next.ids->n * (int64_t)sizeof(int32_t) : 0}};
    if (next.context) d->contexts[to] = next.context;
    lh_status st = send_message(d, to, &h,
                                (const void *const[SECTIONS]){[TEXT] = w->line.text,
                                                              [NAME] = w->line.custom_id,
                                                              [PROMPT] = w->prompt.ids,
                                                              [ENDS] = w->ends.ids,
                                                              [CONTEXT] = next.ids ? next.ids->ids : NULL});
    lh_batch_work_close(next.work);
    return st;
}

static lh_status receive_line(lh_batch_dispatch *d, const message_header *h, const lh_buf *message)
{
    json_t *timing =
        h->bytes[TIMING] ? json_loadb(section_of(message, h, TIMING), (size_t)h->bytes[TIMING], 0, NULL) : NULL;
    const lh_batch_put put = {.i = h->i,
                              .line = section_of(message, h, TEXT),
                              .bytes = h->bytes[TEXT],
                              .failed = (int)h->failed,
                              .timing = timing};
    lh_status st = d->failure == LH_EWRITE ? LH_OK : lh_batch_output_put(d->output, &put);
    json_decref(timing);
    return note_own_failure(d, st);
}

static lh_status handle_message(lh_batch_dispatch *d, int from, const lh_buf *message)
{
    const message_header h = header_of(message);
    if (h.kind == GET) return send_request(d, from);
    if (h.kind == LINE) return receive_line(d, &h, message);
    if (h.kind == HEARTBEAT) return LH_OK;
    d->ended[from] |= h.kind == END;
    return note_failure(d, (lh_status)h.status, section_of(message, &h, TEXT), h.bytes[TEXT]);
}

/* Handles the messages that have arrived, and ends the program if a root was silent for too long. */
static lh_status poll_roots(lh_batch_dispatch *d)
{
    lh_status st = LH_OK;
    lh_buf message = {0};
    for (int from = 0; from >= 0;) {
        LH_TRY_DONE(receive_message(d, &from, &message));
        if (from >= 0) LH_TRY_DONE(handle_message(d, from, &message));
    }
    LH_TRY_DONE(send_heartbeat(d));
    for (int r = 1; r < lh_comm_size(d->roots); r++) check_peer(d, r, "lines of another replica");
done:
    lh_buf_clear(&message);
    return st;
}

static lh_status check_failure(const lh_batch_dispatch *d)
{
    if (d->failure != LH_OK) LH_FAIL(d->failure, "%.*s", (int)d->why.bytes, d->why.data ? d->why.data : "");
    return LH_OK;
}

/* After a failure: stops the replicas that are still at work, once. */
static lh_status send_stop(lh_batch_dispatch *d)
{
    if (d->failure == LH_OK || d->stop_sent) return LH_OK;
    d->stop_sent = 1;
    for (int r = 1; r < lh_comm_size(d->roots); r++)
        if (!d->ended[r]) LH_TRY(send_kind(d, r, STOP));
    return LH_OK;
}

/* One poll while the coordinator waits for the other replicas; the last one sends FINISHED. */
static lh_status wait_for_roots(lh_batch_dispatch *d)
{
    int all_ended = 1;
    LH_TRY(send_stop(d));
    LH_TRY(poll_roots(d));
    if (d->failure != LH_EWRITE) LH_TRY(note_own_failure(d, lh_batch_output_tick(d->output)));
    for (int r = 1; r < lh_comm_size(d->roots); r++) all_ended &= d->ended[r];
    if (!all_ended) return LH_OK;
    for (int r = 1; r < lh_comm_size(d->roots); r++) LH_TRY(send_kind(d, r, FINISHED));
    d->finished = 1;
    return LH_OK;
}

/* ---- other roots ---- */

/* Receives the messages of the coordinator: the reply to GET, or that the run has ended. */
static lh_status poll_coordinator(lh_batch_dispatch *d)
{
    lh_status st = LH_OK;
    lh_buf message = {0};
    for (int from = 0; from >= 0;) {
        LH_TRY_DONE(receive_message(d, &from, &message));
        if (from < 0) break;
        const int64_t kind = header_of(&message).kind;
        d->stopped |= kind == STOP;
        d->finished |= kind == FINISHED;
        if (kind == REQUEST || kind == NO_REQUEST) {
            lh_buf_clear(&d->reply);
            d->reply = message;
            message = (lh_buf){0};
        }
    }
    LH_TRY_DONE(send_heartbeat(d));
    check_peer(d, 0, d->ended[0] ? "the end of the run" : "requests");
done:
    lh_buf_clear(&message);
    return st;
}

static lh_status check_stopped(lh_batch_dispatch *d)
{
    LH_TRY(poll_coordinator(d));
    if (d->stopped) LH_FAIL(LH_EINTERRUPTED, "the run has ended on another replica");
    return LH_OK;
}

static lh_status send_get(lh_batch_dispatch *d)
{
    if (d->request_pending) return LH_OK;
    d->request_pending = 1;
    return send_kind(d, 0, GET);
}

static lh_status read_ids(const lh_buf *message, const message_header *h, section which, lh_tokens *out)
{
    const int64_t n = h->bytes[which] / (int64_t)sizeof(int32_t);
    for (int64_t k = 0; k < n; k++) {
        int32_t id;
        memcpy(&id, section_of(message, h, which) + k * (int64_t)sizeof id, sizeof id);
        LH_TRY(lh_tokens_push(out, id));
    }
    return LH_OK;
}

/* The request of the reply, as the coordinator has read it. */
static lh_status read_request(lh_batch_dispatch *d, const message_header *h, lh_batch_upcoming *out)
{
    lh_status st = LH_OK;
    char *text = NULL;
    const int64_t bytes = h->bytes[TEXT];
    LH_TRY_DONE(lh_calloc(&text, bytes + 1 + h->bytes[NAME] + 1, 1));
    memcpy(text, section_of(&d->reply, h, TEXT), (size_t)bytes);
    memcpy(text + bytes + 1, section_of(&d->reply, h, NAME), (size_t)h->bytes[NAME]);
    const lh_batch_line line = {.number = h->number,
                                .hash = h->hash,
                                .text = text,
                                .bytes = bytes,
                                .custom_id = text + bytes + 1,
                                .context_hash = h->context_hash};
    LH_TRY_DONE(lh_batch_work_open(&out->work, d->common, h->i, &line, h->context != 0));
    out->work->text = text;
    out->work->left_out = h->left_out;
    text = NULL;
    LH_TRY_DONE(read_ids(&d->reply, h, PROMPT, &out->work->prompt));
    LH_TRY_DONE(read_ids(&d->reply, h, ENDS, &out->work->ends));
    out->context = h->context;
    out->more = h->more;
    if (h->bytes[CONTEXT]) {
        d->ids.n = 0;
        LH_TRY_DONE(read_ids(&d->reply, h, CONTEXT, &d->ids));
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

/* Waits for the reply; requests the one after it, which arrives while this replica works. */
static lh_status receive_request(lh_batch_dispatch *d, lh_batch_upcoming *out)
{
    enum { PAUSE_US = 200 };
    LH_TRY(send_get(d));
    for (;;) {
        LH_TRY(lh_batch_check_interrupt());
        LH_TRY(check_stopped(d));
        if (d->reply.bytes) break;
        lh_comm_pause(d->roots, PAUSE_US);
    }
    const message_header h = header_of(&d->reply);
    if (h.kind == NO_REQUEST) return LH_OK;
    LH_TRY(read_request(d, &h, out));
    d->reply.bytes = 0;
    d->request_pending = 0;
    return send_get(d);
}

/* ---- all roots ---- */

lh_status lh_batch_dispatch_next(lh_batch_dispatch *d, lh_batch_upcoming *out)
{
    *out = (lh_batch_upcoming){.work = NULL};
    if (!is_coordinator(d)) return receive_request(d, out);
    LH_TRY(poll_roots(d));
    LH_TRY(check_failure(d));
    LH_TRY(lh_batch_queue_next(d->queue, out));
    if (out->context && out->context == d->contexts[0]) out->ids = NULL;
    if (out->context) d->contexts[0] = out->context;
    return LH_OK;
}

lh_status lh_batch_dispatch_put(lh_batch_dispatch *d, const lh_batch_put *put)
{
    if (is_coordinator(d)) return lh_batch_output_put(d->output, put);
    char *timing = put->timing ? json_dumps(put->timing, JSON_COMPACT) : NULL;
    const message_header h = {.kind = LINE,
                              .i = put->i,
                              .failed = put->failed,
                              .bytes = {[TEXT] = put->bytes, [TIMING] = timing ? (int64_t)strlen(timing) : 0}};
    lh_status st = send_message(d, 0, &h, (const void *const[SECTIONS]){[TEXT] = put->line, [TIMING] = timing});
    free(timing);
    return st;
}

lh_status lh_batch_dispatch_poll(lh_batch_dispatch *d)
{
    if (!is_coordinator(d)) return check_stopped(d);
    LH_TRY(poll_roots(d));
    LH_TRY(lh_batch_output_tick(d->output));
    return check_failure(d);
}

lh_status lh_batch_dispatch_send_end(lh_batch_dispatch *d, lh_status st)
{
    d->ended[lh_comm_rank(d->roots)] = 1;
    return is_coordinator(d) ? note_own_failure(d, st) : send_status(d, 0, END, st);
}

static lh_status note_interrupt(lh_batch_dispatch *d)
{
    const lh_status st = lh_fail(LH_EINTERRUPTED, __FILE__, __LINE__, "%s", LH_BATCH_INTERRUPTED_TEXT);
    if (is_coordinator(d)) return note_own_failure(d, st);
    if (d->interrupt_sent) return LH_OK;
    d->interrupt_sent = 1;
    return send_status(d, 0, INTERRUPT, st);
}

lh_status lh_batch_dispatch_wait_all(lh_batch_dispatch *d, int interrupted, int64_t *finished)
{
    enum { PAUSE_US = 500, POLLS = 20 };
    if (interrupted) LH_TRY(note_interrupt(d));
    for (int k = 0; k < POLLS && !d->finished; k++) {
        if (k) lh_comm_pause(d->roots, PAUSE_US);
        LH_TRY(is_coordinator(d) ? wait_for_roots(d) : poll_coordinator(d));
    }
    *finished = d->finished;
    return LH_OK;
}

lh_status lh_batch_dispatch_final_status(const lh_batch_dispatch *d, lh_status st)
{
    return is_coordinator(d) ? check_failure(d) : st;
}

#include "batch/peers.h"

#include <stdio.h>

#include "base/mem.h"

/* Signs of life within --comm-timeout: one that is late is not missed. */
static const double BEATS = 4;

enum { NAME_BYTES = 96 };

typedef struct peer {
    char name[NAME_BYTES]; /* "rank 2 on n17" */
    double heard_s;
} peer;

struct lh_batch_peers {
    lh_comm *leaders;
    peer *at; /* [leaders] */
    double beat_s;
};

lh_status lh_batch_peers_open(lh_batch_peers **out, lh_comm *leaders, int rank)
{
    lh_status st = LH_OK;
    lh_batch_peers *p = NULL;
    peer own = {.name = ""};
    st = lh_calloc(&p, 1, sizeof *p);
    if (st == LH_OK) st = lh_calloc(&p->at, lh_comm_size(leaders), sizeof *p->at);
    LH_TRY_DONE(lh_comm_agree(leaders, st));
    p->leaders = leaders;
    snprintf(own.name, sizeof own.name, "rank %d on %s", rank, lh_comm_host(leaders));
    LH_TRY_DONE(lh_comm_allgather(leaders, &own, p->at, sizeof own));
    p->beat_s = lh_comm_clock(leaders);
    for (int r = 0; r < lh_comm_size(leaders); r++) p->at[r].heard_s = p->beat_s;
    *out = p;
    p = NULL;
done:
    lh_batch_peers_close(p);
    return st;
}

void lh_batch_peers_close(lh_batch_peers *p)
{
    if (!p) return;
    lh_free(p->at);
    lh_free(p);
}

void lh_batch_peers_heard(lh_batch_peers *p, int r)
{
    p->at[r].heard_s = lh_comm_clock(p->leaders);
}

int lh_batch_peers_beat(lh_batch_peers *p)
{
    const double now = lh_comm_clock(p->leaders), timeout_s = lh_comm_timeout(p->leaders);
    if (timeout_s == 0 || now - p->beat_s < timeout_s / BEATS) return 0;
    p->beat_s = now;
    return 1;
}

void lh_batch_peers_check(const lh_batch_peers *p, int r, const char *what)
{
    lh_comm_check_heartbeat(p->leaders, p->at[r].heard_s, p->at[r].name, what);
}

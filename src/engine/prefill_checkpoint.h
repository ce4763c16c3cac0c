/* prefill_checkpoint.h - a long prefill that is kept in a file while it is under way, and goes on where it was: in
 * another run of the same command, on any number of ranks. Written between two layers, when the prefill is nothing but
 * the hidden states of the prompt and the layers that are done. */
#ifndef LH_ENGINE_PREFILL_CHECKPOINT_H
#define LH_ENGINE_PREFILL_CHECKPOINT_H

#include "engine/session.h"

/* Collective. Between two layers (lh_prefill_layers_done). LH_EWRITE on every rank when rank 0 cannot write: the file
 * that was there stays, and the prefill may go on. run: options as JSON, on rank 0. */
lh_status lh_prefill_checkpoint_save(const lh_session *s, lh_prefill *p, const char *path, const char *run);

/* Collective. A prefill that has just been opened goes on with what the file holds; nothing happens where rank 0 has no
 * such file. LH_EUSAGE, naming what differs, if it belongs to another run; LH_EFILE. */
lh_status lh_prefill_checkpoint_load(const lh_session *s, lh_prefill *p, const char *path);

/* How a prefill is kept. */
typedef struct lh_checkpointing {
    const char *path;
    double every_s;  /* at the first end of a layer after so many seconds, by the clock of rank 0 */
    const char *run; /* options as JSON, stored in the file; rank 0 */
    void *self;
    /* At the end of a layer: 1 to write at once, the same on all ranks. NULL: never. */
    int (*due)(void *self);
    /* Called on every rank after the file was read or written, or could not be: layers of the newest one, 0: there is
     * none. NULL: nobody asks. */
    void (*kept)(void *self, int64_t layers_done);
} lh_checkpointing;

/* A prefill that its caller takes through the layers. */
typedef struct lh_checkpointer {
    const lh_session *session;
    lh_prefill *prefill;
    const lh_checkpointing *how;
    double newest_s; /* when the newest file was written or tried; on rank 0 it counts */
    int64_t newest;  /* layers of it; 0: there is none */
    int warned;      /* 1: it could not be written */
} lh_checkpointer;

/* Of a prefill that has just been opened; all is borrowed. Not collective. */
void lh_checkpointer_begin(lh_checkpointer *k, const lh_session *s, lh_prefill *p, const lh_checkpointing *how);

/* Collective. Then it goes on with the file, if there is one: as lh_prefill_checkpoint_load, after whose failure the
 * prefill and its session are of no more use. */
lh_status lh_checkpointer_resume(lh_checkpointer *k);

/* Collective. After every lh_prefill_next: writes the file when it is time. One that cannot be written is a warning. */
lh_status lh_checkpointer_maybe_write(lh_checkpointer *k);

/* Removes the file, which is not needed any more, or of no use, and ends the claim to it. Not collective. */
void lh_checkpointer_remove(const lh_checkpointer *k);

/* Collective. As lh_session_prefill: from the file, if there is one, to the end, where it is removed. A file that
 * cannot be written is a warning. *layers_before: those that were done in the file. */
lh_status lh_session_prefill_kept(lh_session *s, const lh_tokens *prompt, const lh_forward_progress *progress,
                                  const lh_checkpointing *how, int64_t *layers_before);

#endif

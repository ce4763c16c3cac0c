/* prefill_checkpoint.h - checkpoint of a long prefill: another run of the same command, on any number of ranks,
 * continues from it. Written between two layers, when a prefill consists of the hidden states of the prompt and the
 * finished layers. */
#ifndef LH_ENGINE_PREFILL_CHECKPOINT_H
#define LH_ENGINE_PREFILL_CHECKPOINT_H

#include <jansson.h>

#include "engine/session.h"

/* How a run is kept in its file. */
typedef struct lh_checkpointing {
    const char *path;
    double every_s;         /* at the first opportunity after so many seconds, by the clock of rank 0 */
    const char *run;        /* options as JSON, stored in the file; rank 0 */
    const json_t *identity; /* options that results depend on: another run with the file must have the same; rank 0,
                               NULL: none */
    void *self;
    /* Returns true if the file is to be written now, the same on all ranks. NULL: never. */
    int (*due)(void *self);
    /* Called on every rank after the file was read or written, or could not be written, with the number of finished
     * layers in the newest file; 0: there is none. May be NULL. */
    void (*kept)(void *self, int64_t layers_done);
} lh_checkpointing;

/* Identity of a run: `options`, and the model, version, device and types that results depend on. As JSON text (free);
 * and LH_EUSAGE, naming the first member that differs and both values, unless `text` of the file `path` is the same:
 * on rank 0. Not collective. */
lh_status lh_run_identity_text(const lh_session *s, const json_t *options, char **out);
lh_status lh_run_identity_check(const lh_session *s, const json_t *options, const char *path, const char *text);

/* Collective. *due: true if the file is to be written, the newest one being of `newest_s` (base/clock.h). */
lh_status lh_checkpoint_due(const lh_checkpointing *how, lh_comm *comm, double newest_s, int *due);

/* Not collective. Claims the file until it is written again, so that no other run writes it; removes it and ends the
 * claim. */
void lh_checkpoint_claim(const lh_comm *comm, const char *path);
void lh_checkpoint_remove(const lh_comm *comm, const char *path);

/* Collective. Between two layers (lh_prefill_layers_done). LH_EWRITE on every rank when rank 0 cannot write: the
 * existing file stays, and the prefill may continue. */
lh_status lh_prefill_checkpoint_save(const lh_session *s, lh_prefill *p, const lh_checkpointing *how);

/* Collective. A prefill that has just been opened continues from the file; does nothing if rank 0 has no such file.
 * LH_EUSAGE, naming what differs, if it belongs to another run; LH_EFILE. */
lh_status lh_prefill_checkpoint_load(const lh_session *s, lh_prefill *p, const lh_checkpointing *how);

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

/* Collective. Then it continues from the file, if there is one, as lh_prefill_checkpoint_load does. After a failure
 * prefill and session can only be closed. */
lh_status lh_checkpointer_resume(lh_checkpointer *k);

/* Collective. After every lh_prefill_next: writes the file when it is time. One that cannot be written is a warning. */
lh_status lh_checkpointer_maybe_write(lh_checkpointer *k);

/* Collective. As lh_session_prefill, from the file if there is one; the newest file stays. A file that cannot be
 * written is a warning. *layers_before: finished layers of the file that was read. */
lh_status lh_session_prefill_kept(lh_session *s, const lh_tokens *prompt, const lh_forward_progress *progress,
                                  const lh_checkpointing *how, int64_t *layers_before);

#endif

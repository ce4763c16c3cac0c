/* prefills.h - "OUTPUT.prefill", the folder of a batch's prefill checkpoints (engine/prefill_checkpoint.h), from which
 * a resumed run continues long prefills. "LINE.h5" is named for the line that is prefilled, or for the first question
 * about the context that is prefilled: any replica finds it, on any number of ranks. The lock of the output also covers
 * the folder. Other files are not touched: a symbolic link to a folder, links in the folder, files of other names or
 * kinds. */
#ifndef LH_BATCH_PREFILLS_H
#define LH_BATCH_PREFILLS_H

#include "base/file.h"

typedef struct lh_batch_prefills {
    char *folder;
    lh_paths whole;   /* the checkpoints in it */
    lh_paths damaged; /* files of a prefill's name that cannot be read as HDF5, though they begin as such a file */
    char *foreign;    /* a path of another kind with the name of the folder or of a checkpoint; NULL: none */
    int used;         /* true if this run writes checkpoints: all files of such a name are its own */
} lh_batch_prefills;

/* Finds the folder of an output and checks its files, before MPI is started, on every rank: a host may have its own
 * copy. Clear it also after a failure. */
lh_status lh_batch_prefills_find(lh_batch_prefills *prefills, const char *output);
void lh_batch_prefills_clear(lh_batch_prefills *prefills);

/* Removes damaged checkpoints with a warning; on every rank of a resumed run. */
void lh_batch_prefills_drop(const lh_batch_prefills *prefills);

/* For a run that writes checkpoints. LH_EWRITE: a foreign file has the name of one. */
lh_status lh_batch_prefills_check(const lh_batch_prefills *prefills);

/* Creates the folder for such a run, unless it exists. LH_EWRITE. */
lh_status lh_batch_prefills_make(lh_batch_prefills *prefills);

/* *out: path of the checkpoint of a line, from 1. */
lh_status lh_batch_prefills_file(char **out, const char *folder, int64_t line);

/* True if the folder has a checkpoint. */
int lh_batch_prefills_exist(const lh_batch_prefills *prefills);

/* Removes files that were not written to their end, and the folder if it is empty then. Failures are ignored. */
void lh_batch_prefills_tidy(const lh_batch_prefills *prefills);

/* The same for all checkpoints. */
void lh_batch_prefills_remove(const lh_batch_prefills *prefills);

#endif

/* prefills.h - "OUTPUT.prefill", a folder beside an output: long prefills that are under way, each in a file
 * (engine/prefill_checkpoint.h), so that a run which resumes goes on with them. A file "LINE.h5" has the name of the
 * line whose prompt is read, or of the first question about the context that is read: whichever replica gets that line
 * finds it, on any number of ranks. The lock of the output is that of the folder, too. What is no prefill is not
 * touched: a link in place of the folder, links in it, files of other names or other kinds. */
#ifndef LH_BATCH_PREFILLS_H
#define LH_BATCH_PREFILLS_H

#include "base/file.h"

typedef struct lh_batch_prefills {
    char *folder;
    lh_paths whole;   /* the prefills that it holds */
    lh_paths damaged; /* files of a prefill's name that cannot be read as HDF5, though they begin as such a file */
    char *foreign;    /* what is not a run's, and has the name of the folder or of a prefill; NULL: nothing */
    int used;         /* 1: the run writes prefills, so that all files of such a name are its own */
} lh_batch_prefills;

/* Finds the folder of an output and looks at its files, before MPI is started, on every rank: a host may have its own
 * copy. Clear it also after a failure. */
lh_status lh_batch_prefills_find(lh_batch_prefills *prefills, const char *output);
void lh_batch_prefills_clear(lh_batch_prefills *prefills);

/* Drops damaged files, with a warning, on every rank of a run that goes on with the others. */
void lh_batch_prefills_drop(const lh_batch_prefills *prefills);

/* For a run that writes prefills. LH_EWRITE: something foreign is in their place. */
lh_status lh_batch_prefills_check(const lh_batch_prefills *prefills);

/* Makes the folder for such a run, unless it is there. LH_EWRITE. */
lh_status lh_batch_prefills_make(lh_batch_prefills *prefills);

/* *out: the file of a line, from 1. */
lh_status lh_batch_prefills_file(char **out, const char *folder, int64_t line);

/* 1 if there is a prefill. */
int lh_batch_prefills_exist(const lh_batch_prefills *prefills);

/* Removes files that were not written to their end; and the folder, if it is empty then. What cannot be removed stays.
 */
void lh_batch_prefills_tidy(const lh_batch_prefills *prefills);

/* Removes all prefills, too. */
void lh_batch_prefills_remove(const lh_batch_prefills *prefills);

#endif

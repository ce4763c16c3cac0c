/* prefills.h - "OUTPUT.prefill", a folder beside an output: long prefills that are under way, each in a file
 * (engine/prefill_checkpoint.h), so that a run which resumes goes on with them. A file has the name of the line whose
 * prompt is read, or of the first question about the context that is read: whichever replica gets that line finds it,
 * on any number of ranks. The lock of the output is that of the folder, too. */
#ifndef LH_BATCH_PREFILLS_H
#define LH_BATCH_PREFILLS_H

#include "base/file.h"

/* *out: the folder of an output; the file of a line in it, from 1. LH_EWRITE, LH_ENOMEM. */
lh_status lh_batch_prefills_folder(char **out, const char *output);
lh_status lh_batch_prefills_file(char **out, const char *folder, int64_t line);

/* 1 if the folder is there and holds a prefill. */
int lh_batch_prefills_exist(const char *folder);

/* LH_EWRITE. One that is there is fine. */
lh_status lh_batch_prefills_make(const char *folder);

/* Before MPI is started: the files that are damaged (lh_h5_probe). They are dropped afterwards, with a warning, on
 * every rank: a host may have its own copy. */
lh_status lh_batch_prefills_probe(lh_paths *damaged, const char *folder);
void lh_batch_prefills_drop(const lh_paths *damaged);

/* Removes files that were not written to their end; and the folder, if it is empty then. What cannot be removed stays.
 */
void lh_batch_prefills_tidy(const char *folder);

/* Removes all of it. */
void lh_batch_prefills_remove(const char *folder);

#endif

/* resume.h - the finished prompts of an evaluation on disk, so that the same command can be resumed after an interrupt,
 * a kill or a crash: "OUTPUT.resume", a journal (base/journal.h) with a JSON line that identifies the evaluation, then
 * one for every finished prompt with its rows of the tables. At the end the outputs are written from all lines and the
 * file is removed, so an output is never replaced by results of fewer prompts. */
#ifndef LH_LAB_EVAL_RESUME_H
#define LH_LAB_EVAL_RESUME_H

#include "base/table.h"
#include "comm/comm.h"

typedef struct lh_resume lh_resume;

/* On rank 0, while the run has claimed `output` (base/output.h). identity: an object with everything that the results
 * depend on, in the order in which differences are named; its member `options` is an object, too. LH_EUSAGE if the file
 * is there and belongs to another evaluation, naming the first member that differs; LH_EWRITE if it is something else,
 * or if another process that runs has it open. The file is locked, and empty until a prompt is finished. */
lh_status lh_resume_open(lh_resume **out, const char *output, const json_t *identity);
void lh_resume_close(lh_resume *resume); /* leaves the file, unless it is empty; NULL is fine */

/* The outputs are written: removes the file. NULL is fine. */
void lh_resume_remove(lh_resume *resume);

const char *lh_resume_path(const lh_resume *resume);
int64_t lh_resume_finished(const lh_resume *resume); /* prompts in the file; 0 for NULL */

/* Collective; `resume` is NULL on other ranks, and on rank 0 if nothing is kept. Adds the rows of the finished prompts
 * to the tables (ends with NULL) of rank 0. *finished: their number. */
lh_status lh_resume_begin(lh_resume *resume, lh_comm *comm, lh_table *const *tables, int64_t *finished);

/* Appends the rows that the tables have gained since lh_resume_begin or the last call: one finished prompt. If it
 * cannot be written a warning says so, and the file keeps the prompts before it. NULL is fine. */
void lh_resume_add(lh_resume *resume, lh_table *const *tables);

#endif

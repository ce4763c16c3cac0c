/* keep_files.h - the keep sets of an evaluation, one file for every prompt and policy in a folder (docs/files.md):
 * FOLDER/PROMPT.NN-POLICY-BUDGET.h5. PROMPT identifies the prompt in its task, whichever others run. */
#ifndef LH_LAB_EVAL_KEEP_FILES_H
#define LH_LAB_EVAL_KEEP_FILES_H

#include "engine/session.h"
#include "policies/list.h"

typedef struct lh_keep_file {
    const char *folder, *prompt; /* prompt: a name without slashes */
    const lh_policy_list *policies;
    int64_t policy;
    const char *run; /* resolved options, JSON */
} lh_keep_file;

/* New memory (lh_free). What is no letter, digit, '.', '%' or '-' in the policy's name becomes '_'. */
lh_status lh_keep_file_name(char **out, const lh_keep_file *file);

/* Collective, at the end of a prefill. Nothing is written for a policy that evicts nothing. LH_EWRITE on every rank
 * when rank 0 cannot write. */
lh_status lh_keep_file_write(const lh_keep_file *file, lh_session *session);

#endif

/* keep_files.h - keep sets of evaluations as files (docs/files.md): one for every prompt and policy in a folder,
 * FOLDER/PROMPT.NN-POLICY-BUDGET.h5, where PROMPT identifies the prompt in its task; and files of other programs,
 * FOLDER/PROMPT.h5, which become one more row of the results. */
#ifndef LH_LAB_EVAL_KEEP_FILES_H
#define LH_LAB_EVAL_KEEP_FILES_H

#include "engine/given.h"
#include "engine/session.h"
#include "policies/list.h"

typedef struct lh_keep_file {
    const char *folder, *prompt; /* prompt: a name without slashes */
    const lh_policy_list *policies;
    int64_t policy;
    const char *run; /* resolved options, JSON */
} lh_keep_file;

/* New memory (lh_free). In the policy's name, characters other than letters, digits, '.', '%' and '-' become '_'. */
lh_status lh_keep_file_name(char **out, const lh_keep_file *file);

/* Collective, at the end of a prefill. Nothing is written for a policy that evicts nothing. LH_EWRITE on every rank
 * when rank 0 cannot write. */
lh_status lh_keep_file_write(const lh_keep_file *file, lh_session *session);

/* ---- given keep sets ---- */

#define LH_GIVEN_BUDGET "given"

/* Appends a choice named after the file or folder, with LH_GIVEN_BUDGET. LH_EUSAGE if another choice has
 * that name. */
lh_status lh_given_sets_add(lh_policy_list *list, const char *path);

/* The files of all choices, to be probed: new memory of the list and of each name. LH_EINPUT if a folder cannot be read
 * or has no '*.h5'. */
typedef struct lh_given_files {
    char **at;
    int64_t n;
    uint64_t names; /* hash of the names of all files and policies */
} lh_given_files;
lh_status lh_given_files_find(lh_given_files *out, const lh_policy_list *list);

/* A hash of the names within their folders and of all bytes: the same for copies. Reads everything. */
lh_status lh_given_files_hash(const lh_given_files *files, uint64_t *hash);
void lh_given_files_clear(lh_given_files *files);

/* Collective. The keep sets of a choice for a prompt; clear *out also after a failure. */
typedef struct lh_given_prompt {
    const char *name;
    const lh_tokens *ids;
} lh_given_prompt;
lh_status lh_given_sets_read(lh_keep_sets *out, lh_engine *engine, const lh_policy_choice *choice,
                             const lh_given_prompt *prompt);

#endif

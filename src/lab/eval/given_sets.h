/* given_sets.h - keep sets of files in place of policies: each file or folder is one more row of the results. A folder
 * has a file PROMPT.h5 for every prompt, named as keep_files.h names prompts. */
#ifndef LH_LAB_EVAL_GIVEN_SETS_H
#define LH_LAB_EVAL_GIVEN_SETS_H

#include "engine/given.h"
#include "policies/list.h"

/* Appends a choice named after the file or folder, with the budget "given". LH_EUSAGE if another choice has
 * that name. */
lh_status lh_given_sets_add(lh_policy_list *list, const char *path);

/* The files of all choices, to be probed: new memory of the list and of each name. LH_EINPUT if a folder cannot be read
 * or has no '*.h5'. */
typedef struct lh_given_files {
    char **at;
    int64_t n;
    uint64_t names; /* hash of which file has which name for which policy */
} lh_given_files;
lh_status lh_given_files_find(lh_given_files *out, const lh_policy_list *list);

/* A hash of the names within their folders and of all bytes: the same for copies, wherever and of whenever they are.
 * Reads everything. */
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

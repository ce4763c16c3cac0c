#include "lab/eval/keep_files.h"

#include <ctype.h>
#include <string.h>

enum { NAME_BYTES = 200 }; /* file systems take 255 */

lh_status lh_keep_file_name(char **out, const lh_keep_file *file)
{
    lh_status st = LH_OK;
    const lh_policy_choice *choice = &file->policies->at[file->policy];
    char *name = NULL;
    LH_TRY_DONE(lh_asprintf(&name, "%s-%s", choice->name, choice->budget));
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".%-", *c)) *c = '_';
    LH_TRY_DONE(lh_asprintf(out, "%s/%s.%02lld-%.*s.h5", file->folder, file->prompt, (long long)file->policy,
                            NAME_BYTES, name));
done:
    lh_free(name);
    return st;
}

lh_status lh_keep_file_write(const lh_keep_file *file, lh_session *session)
{
    lh_status st = LH_OK;
    lh_keep_sets sets = {0};
    char *path = NULL;
    lh_comm *comm = lh_engine_get(lh_session_engine(session))->comm;
    const lh_tokens *tokens = lh_session_tokens(session);
    if (!file->policies->at[file->policy].policy.evicts) goto done;
    LH_TRY_DONE(lh_comm_agree(comm, lh_keep_file_name(&path, file)));
    LH_TRY_DONE(lh_kv_take_keep_sets(lh_session_kv(session), LH_KEEP_KEPT, &sets));
    LH_TRY_DONE(lh_keep_sets_write(&sets, comm, path,
                                   &(lh_cache_extra){.tokens = tokens->ids, .n = tokens->n, .run = file->run}));
done:
    lh_keep_sets_clear(&sets);
    lh_free(path);
    return st;
}

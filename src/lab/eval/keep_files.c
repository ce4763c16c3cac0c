/* keep_files.c - writes the keep sets of an evaluation, and reads the keep sets of given files. */
#include "lab/eval/keep_files.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"

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

static const char ending[] = ".h5";

static int ends_in_h5(const char *name)
{
    const size_t n = strlen(name);
    return n > strlen(ending) && strcmp(name + n - strlen(ending), ending) == 0;
}

/* Results are summed up by name. */
static lh_status check_name(const lh_policy_list *list, const lh_policy_choice *choice)
{
    for (int64_t i = 0; i < list->n; i++) {
        const lh_policy_choice *other = &list->at[i];
        if (strcmp(other->name, choice->name) != 0) continue;
        if (other->given)
            LH_FAIL(LH_EUSAGE,
                    "'--keep-sets-from' has '%s' and '%s', which would both be '%s' in the results: rename one of them",
                    other->given, choice->given, choice->name);
        LH_FAIL(
            LH_EUSAGE,
            "'--keep-sets-from %s' would be '%s' in the results, which is the name of a policy in '--policy': rename "
            "the file or folder",
            choice->given, choice->name);
    }
    return LH_OK;
}

lh_status lh_given_sets_add(lh_policy_list *list, const char *path)
{
    lh_status st = LH_OK;
    lh_policy_choice choice = {0};
    int64_t end = (int64_t)strlen(path), from;
    while (end > 1 && path[end - 1] == '/') end--;
    for (from = end; from > 0 && path[from - 1] != '/'; from--) continue;
    LH_TRY_DONE(lh_given_policy(&choice.policy));
    LH_TRY_DONE(lh_strndup(&choice.name, path + from, end - from));
    if (ends_in_h5(choice.name)) choice.name[strlen(choice.name) - strlen(ending)] = '\0';
    LH_TRY_DONE(lh_strdup(&choice.budget, LH_GIVEN_BUDGET));
    LH_TRY_DONE(lh_strndup(&choice.given, path, end));
    LH_TRY_DONE(check_name(list, &choice));
    LH_TRY_DONE(lh_realloc(&list->at, list->n + 1, sizeof *list->at));
    list->cap = list->n + 1;
    list->at[list->n++] = choice;
    choice = (lh_policy_choice){0};
done:
    lh_free(choice.name);
    lh_free(choice.budget);
    lh_free(choice.given);
    return st;
}

/* ---- files ---- */

/* Of the policy with this number in the list. */
static lh_status add_file(lh_given_files *files, int64_t policy, char *path)
{
    const char *name = lh_path_name(path);
    const uint64_t parts[] = {files->names, (uint64_t)policy, lh_hash64(name, (int64_t)strlen(name))};
    files->names = lh_hash64(parts, sizeof parts);
    LH_TRY(lh_realloc(&files->at, files->n + 1, sizeof *files->at));
    files->at[files->n++] = path;
    return LH_OK;
}

static lh_status add_folder(lh_given_files *files, int64_t policy, const char *folder)
{
    lh_status st = LH_OK;
    static const char *const endings[] = {ending, NULL};
    lh_paths paths = {0};
    LH_TRY_DONE(lh_folder_list(&paths, NULL, folder, endings));
    if (paths.n == 0) LH_FAIL_DONE(LH_EINPUT, "the folder '%s' has no keep sets: files '*.h5'", folder);
    for (int64_t i = 0; i < paths.n; i++) {
        LH_TRY_DONE(add_file(files, policy, paths.at[i]));
        paths.at[i] = NULL;
    }
done:
    lh_paths_clear(&paths);
    return st;
}

lh_status lh_given_files_find(lh_given_files *out, const lh_policy_list *list)
{
    lh_status st = LH_OK;
    lh_given_files files = {0};
    char *path = NULL;
    for (int64_t i = 0; i < list->n; i++) {
        const char *given = list->at[i].given;
        if (!given) continue;
        if (lh_file_is_folder(given)) {
            LH_TRY_DONE(add_folder(&files, i, given));
            continue;
        }
        LH_TRY_DONE(lh_strdup(&path, given));
        LH_TRY_DONE(add_file(&files, i, path));
        path = NULL;
    }
    *out = files;
    files = (lh_given_files){0};
done:
    lh_free(path);
    lh_given_files_clear(&files);
    return st;
}

lh_status lh_given_files_hash(const lh_given_files *files, uint64_t *hash)
{
    lh_status st = LH_OK;
    lh_map map = {0};
    uint64_t parts[2] = {files->names};
    for (int64_t i = 0; i < files->n; i++) {
        LH_TRY_DONE(lh_map_open(&map, files->at[i]));
        parts[1] = lh_hash64(map.data, map.bytes);
        LH_TRY_DONE(lh_map_unchanged(&map));
        lh_map_close(&map);
        parts[0] = lh_hash64(parts, sizeof parts);
    }
    *hash = parts[0];
done:
    lh_map_close(&map);
    return st;
}

void lh_given_files_clear(lh_given_files *files)
{
    for (int64_t i = 0; i < files->n; i++) lh_free(files->at[i]);
    lh_free(files->at);
    *files = (lh_given_files){0};
}

lh_status lh_given_sets_read(lh_keep_sets *out, lh_engine *engine, const lh_policy_choice *choice,
                             const lh_given_prompt *prompt)
{
    lh_status st = LH_OK;
    char *path = NULL;
    if (lh_file_is_folder(choice->given))
        st = lh_asprintf(&path, "%s/%s%s", choice->given, prompt->name, ending);
    else
        st = lh_strdup(&path, choice->given);
    LH_TRY_DONE(lh_comm_agree(lh_engine_get(engine)->comm, st));
    LH_TRY_DONE(lh_given_read(out, engine, path, prompt->ids));
done:
    lh_free(path);
    return st;
}

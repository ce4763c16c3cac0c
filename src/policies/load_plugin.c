#include "policies/load_plugin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "policies/policy_impl.h"
#include "policies/python_score.h"

#define SYMBOL "longhaul_plugin"
enum { NAME_BYTES = 32, FILE_BYTES = 1 << 30 };
_Static_assert(LH_PLUGIN_OPTIONS * sizeof(double) <= sizeof(lh_method_params), "options are parameters of a method");

int lh_plugin_is_file(const char *name)
{
    const size_t bytes = strlen(name);
    return strchr(name, '/') || (bytes > 3 && strcmp(name + bytes - 3, ".so") == 0) || lh_python_score_is_file(name);
}

/* ---- the table ---- */

static int is_word(const char *text)
{
    const size_t bytes = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;
    return bytes > 0 && bytes < NAME_BYTES && !text[bytes] && isalpha((unsigned char)*text);
}

/* A changed Python file has the name of its older text. */
static int is_taken(const lh_loaded_plugin *p, const char *name)
{
    static const char *const words[] = {"help", "all", "caller", NULL};
    const lh_loaded_plugin *older = lh_plugin_find(name);
    if (older && strcmp(older->path, p->path) == 0) return 0;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], name) == 0) return 1;
    return lh_policy_find(name) != NULL;
}

/* path: as the user wrote it. */
static lh_status check_table(const lh_loaded_plugin *p, const char *path)
{
    const lh_plugin *t = p->table;
    if (t->abi != LH_PLUGIN_ABI)
        LH_FAIL(LH_EINPUT,
                "'%s' is a plug-in of interface %lld, and this program has interface %d: compile it with the header "
                "longhaul.h of this version, %s",
                path, (long long)t->abi, LH_PLUGIN_ABI, lh_version());
    if (t->size < sizeof *t)
        LH_FAIL(LH_EINPUT, "'%s': the size of its table is %zu, it must be sizeof(lh_plugin), %zu", path, t->size,
                sizeof *t);
    if (!is_word(t->name))
        LH_FAIL(LH_EINPUT,
                "'%s': the name of the plug-in is '%s', it must be a short word of lower-case letters, digits and '-'",
                path, t->name ? t->name : "");
    if (is_taken(p, t->name))
        LH_FAIL(LH_EINPUT, "'%s': its name '%s' is the name of another policy, give it one that is free", path,
                t->name);
    if (!t->score) LH_FAIL(LH_EINPUT, "'%s': the plug-in '%s' has no function that scores", path, t->name);
    if (t->reads & ~(int64_t)LH_READS_ALL)
        LH_FAIL(LH_EINPUT, "'%s': the plug-in '%s' reads what this version does not have (%lld)", path, t->name,
                (long long)t->reads);
    return LH_OK;
}

/* Members of a policy as JSON that are no parts. */
static const char *const reserved[] = {"name", "policy", "budget", "plugin", "reads", "profiles", "shares-of", NULL};

static lh_status check_option(const lh_loaded_plugin *p, int n)
{
    const lh_plugin_option *all = p->table->options, *o = &all[n];
    if (n == LH_PLUGIN_OPTIONS) LH_FAIL(LH_EINPUT, "'%s' has more than %d options", p->path, LH_PLUGIN_OPTIONS);
    if (!is_word(o->name) || !o->def || !o->help)
        LH_FAIL(LH_EINPUT,
                "'%s': option '%s' must be a word of lower-case letters, digits and '-', with a default "
                "and a sentence of help",
                p->path, o->name);
    int taken = lh_part_find(o->name) != NULL;
    for (int i = 0; reserved[i]; i++) taken |= strcmp(reserved[i], o->name) == 0;
    for (int i = 0; i < n; i++) taken |= strcmp(all[i].name, o->name) == 0;
    if (taken) LH_FAIL(LH_EINPUT, "'%s': there is another option '--%s' of policies", p->path, o->name);
    return LH_OK;
}

static lh_method_id method_of(const lh_loaded_plugin *p)
{
    return p->table->reads ? LH_METHOD_caller_rows : LH_METHOD_caller;
}

/* The options as parts, their defaults read once. */
static lh_status make_parts(lh_loaded_plugin *p)
{
    const lh_plugin_option *o = p->table->options;
    const lh_method_id m = method_of(p);
    lh_policy policy = {.score.plugin = p};
    for (int i = 0; o && o[i].name; i++) {
        LH_TRY(check_option(p, i));
        p->parts[i] = (lh_part){.row = {.type = LH_OPT_STR,
                                        .name = o[i].name,
                                        .arg = o[i].words     ? "WORD"
                                               : o[i].integer ? "N"
                                                              : "X",
                                        .choices = o[i].words,
                                        .help = o[i].help,
                                        .named = 1,
                                        .detail = 1,
                                        .at = offsetof(lh_policy_options, parts.own),
                                        .bytes = sizeof(lh_named_text) * LH_OWN_PARTS},
                                .def = o[i].def,
                                .read = lh_plugin_read_option,
                                .write = lh_plugin_write_option,
                                .at = LH_PARAMS_AT + (size_t)m * sizeof(lh_method_params) + (size_t)i * sizeof(double),
                                .method = m};
        if (lh_plugin_read_option(&policy, &p->parts[i], o[i].def) != LH_OK)
            LH_FAIL(LH_EINPUT, "'%s': the default of an option: %s", p->path, lh_error_message());
    }
    return LH_OK;
}

/* ---- loading ---- */

/* "./my.so: invalid ELF header" without the file, which the message has before. */
static const char *why_not_loaded(const char *path)
{
    const char *why = dlerror();
    const size_t bytes = strlen(path);
    if (!why) return "the loader refuses it";
    return strncmp(why, path, bytes) == 0 && strncmp(why + bytes, ": ", 2) == 0 ? why + bytes + 2 : why;
}

static lh_status find_table(lh_loaded_plugin *p, const char *name)
{
    if (lh_python_score_is_file(name)) return lh_python_score_open(&p->table, &p->scorer, p->path);
    void *handle = dlopen(p->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) LH_FAIL(LH_EINPUT, "'%s' cannot be loaded as a plug-in: %s", name, why_not_loaded(p->path));
    p->table = dlsym(handle, SYMBOL);
    if (!p->table)
        LH_FAIL(LH_EINPUT, "'%s' is no plug-in: it has no symbol '" SYMBOL "' (docs/adding.md shows one)", name);
    return LH_OK;
}

static void close_plugin(lh_loaded_plugin *p)
{
    if (p) free(p->path);
    lh_free(p);
}

static lh_status hash_of_file(uint64_t *out, const char *path)
{
    lh_buf bytes = {0};
    const lh_status st = lh_file_read_regular(&bytes, path, FILE_BYTES);
    if (st == LH_OK) *out = lh_hash64(bytes.data, bytes.bytes);
    lh_buf_clear(&bytes);
    return st;
}

/* `name` as the user wrote it; p->path is resolved. */
static lh_status load(lh_loaded_plugin *p, const char *name)
{
    LH_TRY(hash_of_file(&p->hash, name));
    p->scorer = (lh_scorer){.size = sizeof p->scorer};
    LH_TRY(find_table(p, name));
    LH_TRY(check_table(p, name));
    p->scorer.score = p->table->score;
    p->scorer.reads = p->table->reads;
    p->preset = (lh_policy_preset){.name = p->table->name,
                                   .summary = p->table->help ? p->table->help : "the score of a plug-in",
                                   .kind = LH_POLICY_OF_PLUGIN,
                                   .parts = p->table->parts ? p->table->parts : ""};
    return make_parts(p);
}

/* The newest of a file. */
static const lh_loaded_plugin *find_path(const char *path)
{
    const lh_loaded_plugin *p, *found = NULL;
    for (int i = 0; (p = lh_plugin_at(i)); i++)
        if (strcmp(p->path, path) == 0) found = p;
    return found;
}

/* *p = NULL if the file has changed since and can be loaded again. */
static lh_status check_unchanged(const lh_loaded_plugin **p, const char *name)
{
    uint64_t hash;
    LH_TRY(hash_of_file(&hash, name));
    if (hash == (*p)->hash) return LH_OK;
    if (!lh_python_score_is_file(name))
        LH_FAIL(LH_EINPUT, "'%s' has changed since it was loaded: start the program again", name);
    *p = NULL;
    return LH_OK;
}

lh_status lh_plugin_open(const lh_loaded_plugin **out, const char *path)
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    lh_status st = LH_OK;
    lh_loaded_plugin *p = NULL;
    char *real = realpath(path, NULL);
    pthread_mutex_lock(&opening);
    *out = real ? find_path(real) : NULL;
    if (*out) LH_TRY_DONE(check_unchanged(out, path));
    if (*out) goto done;
    LH_TRY_DONE(lh_calloc(&p, 1, sizeof *p));
    if (real) p->path = real;
    real = NULL;
    LH_TRY_DONE(load(p, path)); /* says why there is no such file */
    lh_plugin_add(p);
    *out = p;
    p = NULL;
done:
    pthread_mutex_unlock(&opening);
    close_plugin(p);
    free(real);
    return st;
}

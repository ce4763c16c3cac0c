#include "policies/words.h"

#include <ctype.h>
#include <string.h>

#include "base/options.h"
#include "policies/load_plugin.h"
#include "policies/policy_impl.h"

/* ---- names ---- */

enum { MAX_PRESETS = 128 };

static lh_status fail_unknown(const char *name)
{
    const char *names[2 * MAX_PRESETS + 1] = {NULL};
    int n = 0;
    for (int i = 0; i < MAX_PRESETS && lh_policy_at(i); i++) names[n++] = lh_policy_at(i)->name;
    for (int i = 0; i < MAX_PRESETS && lh_policy_at(i); i++)
        if (lh_policy_at(i)->alias) names[n++] = lh_policy_at(i)->alias;
    const char *near = lh_nearest(name, names);
    if (near)
        LH_FAIL(LH_EUSAGE, "policy '%s' is unknown, did you mean '%s'? ('longhaul generate --policy help' lists all)",
                name, near);
    LH_FAIL(LH_EUSAGE, "policy '%s' is unknown, 'longhaul generate --policy help' lists all", name);
}

lh_status lh_policy_named(const lh_policy_preset **out, const char *name, int may_load)
{
    const lh_loaded_plugin *plugin;
    *out = lh_policy_find(name);
    if (*out) return LH_OK;
    if (!lh_plugin_is_file(name)) return fail_unknown(name);
    if (!may_load)
        LH_FAIL(LH_EUSAGE, "policy '%s' is a file, and none may be named here: give the name of a policy", name);
    LH_TRY(lh_plugin_open(&plugin, name));
    *out = &plugin->preset;
    return LH_OK;
}

/* ---- words ---- */

#define FIELD(member) LH_FIELD(lh_policy_options, member)
static const lh_option rows[] = {{.type = LH_OPT_STR, .letter = 'b', .name = "budget", FIELD(budget), .help = ""},
                                 {.more = lh_policy_part_row}};
#undef FIELD
static const lh_option_table table = {"a policy", rows};

/* Cuts `text` in place into NUL-terminated words; returns their number, at most one per byte. Blanks between quotation
 * marks, " or ', are part of a word. */
static int cut_words(char *text, char **words)
{
    int n = 0;
    for (;;) {
        while (isspace((unsigned char)*text)) text++;
        if (!*text) return n;
        char *to = words[n++] = text, quote = '\0';
        for (; *text && (quote || !isspace((unsigned char)*text)); text++) {
            const int is_mark = quote ? *text == quote : *text == '"' || *text == '\'';
            if (is_mark)
                quote = quote ? '\0' : *text;
            else
                *to++ = *text;
        }
        if (*text) text++;
        *to = '\0';
    }
}

/* The syntax of a policy: the options of all policies, and of its plug-in. */
typedef struct policy_syntax {
    lh_option own[LH_PLUGIN_OPTIONS + 1];
    lh_option_table table;
    lh_option_group groups[3];
    lh_syntax syntax;
} policy_syntax;

static void make_syntax(policy_syntax *s, const lh_loaded_plugin *plugin)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; plugin && plugin->parts[i].row.name; i++) s->own[i] = plugin->parts[i].row;
    s->table = (lh_option_table){"its plug-in", s->own};
    s->groups[0].table = &table;
    s->groups[1].table = &s->table;
    s->syntax =
        (lh_syntax){.program = "", .name = "policy", .usage = "", .summary = "", .max_args = 1, .groups = s->groups};
}

lh_status lh_policy_options_parse(lh_policy_options *out, char **words, const char *text, lh_profiles *profiles)
{
    lh_status st = LH_OK;
    lh_policy_options values = {0};
    const lh_policy_preset *preset = NULL;
    policy_syntax syntax;
    lh_options *options = NULL;
    char *copy = NULL, **argv = NULL;
    LH_TRY_DONE(lh_strdup(&copy, text));
    LH_TRY_DONE(lh_calloc(&argv, (int64_t)strlen(copy) + 1, sizeof *argv));
    int argc = cut_words(copy, argv);
    if (argc == 0) LH_FAIL_DONE(LH_EUSAGE, "a policy is missing: its name is empty");
    if (*argv[0] != '-' && strcmp(argv[0], "all") != 0)
        LH_TRY_DONE(lh_policy_named(&preset, argv[0], profiles != NULL));
    make_syntax(&syntax, preset ? lh_plugin_of(preset) : NULL);
    st = lh_options_parse(&options, &syntax.syntax, &values, argc, argv);
    if (st != LH_OK) LH_TRY_DONE(lh_fail_within(st, "policy '%s'", text));
    values.policy = lh_options_arg(options, 0);
    if (preset && strchr(values.policy, ' ')) values.policy = preset->name; /* not words again */
    values.profiles = profiles;
    *out = values;
    *words = copy;
    copy = NULL;
done:
    lh_options_close(options);
    lh_free(argv);
    lh_free(copy);
    return st;
}

void lh_policy_parts_join(lh_policy_parts *own, const lh_policy_parts *beside)
{
    for (int i = 0; lh_part_at(i); i++) {
        const lh_option *row = &lh_part_at(i)->row;
        if (!lh_policy_parts_get(own, row) && lh_policy_parts_get(beside, row))
            lh_policy_parts_set(own, row, lh_policy_parts_get(beside, row));
    }
}

void lh_policy_options_join(lh_policy_options *own, const lh_policy_options *beside)
{
    lh_policy_parts_join(&own->parts, &beside->parts);
    if (!own->budget) own->budget = beside->budget;
    own->profiles = beside->profiles;
    own->asked = beside->asked;
}

/* policy_options.c - `--policy help` and `--policy NAME --help`: presets and parts from the tables of src/policies. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "policies/list.h"
#include "shell/policy_options.h"
#include "shell/shell.h"

/* The policy options alone. */
static const lh_option_group groups[] = {{&lh_shell_policy_options, 0}, {0}};
static const lh_syntax syntax = {.program = "longhaul",
                                 .name = "COMMAND",
                                 .usage = "--policy NAME --help",
                                 .summary = "Explain a policy",
                                 .groups = groups};

/* The policy option that `word` names, or NULL. */
static const lh_option *row_of(const char *word)
{
    if (strcmp(word, "-b") == 0) word = "--budget";
    if (strncmp(word, "--", 2) != 0 || !word[2]) return NULL;
    size_t bytes = strcspn(word + 2, "=");
    const lh_option *row;
    for (int64_t i = 0; (row = lh_option_row(&lh_shell_policy_options, i)); i++)
        if (strlen(row->name) == bytes && strncmp(row->name, word + 2, bytes) == 0) return row;
    return NULL;
}

/* Copies the policy options of argv with their values to policy [argc + 1]. */
static int policy_words(int argc, char **argv, char **policy)
{
    int n = 0;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const lh_option *row = row_of(argv[i]);
        if (!row) continue;
        policy[n++] = argv[i];
        int takes_next = i + 1 < argc && !strchr(argv[i], '=');
        if (row->type == LH_OPT_SWITCH) takes_next = takes_next && lh_option_is_choice(row, argv[i + 1]);
        if (takes_next) policy[n++] = argv[++i];
    }
    return n;
}

/* The value of the last '--policy', or NULL. */
static const char *policy_name(int argc, char **argv)
{
    const char *name = NULL;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--policy=", 9) == 0) name = argv[i] + 9;
        if (strcmp(argv[i], "--policy") == 0 && i + 1 < argc) name = argv[++i];
    }
    return name;
}

int lh_shell_policy_help_asked(const lh_command *command, int argc, char **argv)
{
    const char *name = policy_name(argc, argv);
    if (!name || (strcmp(name, "help") != 0 && !lh_options_help_asked(argc, argv))) return 0;
    for (const lh_option_group *g = command->syntax->groups; g->table; g++)
        if (g->table == &lh_shell_policy_options || g->table == &lh_shell_policy_list_options) return 1;
    return 0;
}

const char *lh_shell_policy_word(int i)
{
    const lh_policy_preset *p = i ? lh_policy_at(i - 1) : NULL;
    return i ? (p ? p->name : NULL) : "help";
}

const char *lh_shell_policy_list_word(int i)
{
    return i ? lh_shell_policy_word(i - 1) : "all";
}

/* The name, and that which papers use. */
enum { NAMES_BYTES = 64 };
static const char *names_of(const lh_policy_preset *preset, char names[NAMES_BYTES])
{
    snprintf(names, NAMES_BYTES, "%s%s%s", preset->name, preset->alias ? ", " : "", preset->alias ? preset->alias : "");
    return names;
}

static lh_status list(lh_buf *out)
{
    static const struct {
        lh_policy_kind kind;
        const char *heading;
    } kinds[] = {{LH_POLICY_OWN, "defaults with a budget"},
                 {LH_POLICY_OF_PAPER, "policies of papers"},
                 {LH_POLICY_BASELINE, "baselines"},
                 {LH_POLICY_COMPATIBLE, "compatible with other programs, for comparison"}};
    char names[NAMES_BYTES];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        LH_TRY(lh_buf_printf(out, "%s%s:\n", k ? "\n" : "", kinds[k].heading));
        for (int i = 0; lh_policy_at(i); i++) {
            const lh_policy_preset *p = lh_policy_at(i);
            if (p->kind != kinds[k].kind) continue;
            LH_TRY(lh_buf_printf(out, "  %-27s %s%s%s%s\n", names_of(p, names), p->summary, p->paper ? " (" : "",
                                 p->paper ? p->paper : "", p->paper ? ")" : ""));
        }
    }
    LH_TRY(lh_buf_puts(
        out, "\n'--policy NAME --help' shows the parts of one; each can be changed by its option.\n"
             "'--policy ./FILE.so' takes a score of your own from a shared object, a plug-in (docs/adding.md), and\n"
             "'--policy ./FILE.py' from a function of numpy arrays (docs/python.md).\n"
             "'--compat kvpress' makes shares and pyramids those of kvpress, as the presets NAME@kvpress have it.\n"));
    return LH_OK;
}

static lh_status explain_policy(lh_buf *out, const lh_policy *policy)
{
    const lh_policy_preset *preset = lh_policy_find(policy->name);
    char names[NAMES_BYTES];
    LH_TRY(lh_buf_printf(out, "%s%s: %s%s%s%s\n\n", out->bytes ? "\n" : "", names_of(preset, names), preset->summary,
                         preset->paper ? " (" : "", preset->paper ? preset->paper : "", preset->paper ? ")" : ""));
    LH_TRY(lh_policy_describe(policy, out));
    return LH_OK;
}

/* Explains one policy, or all of a list. */
static lh_status explain(lh_buf *out, const lh_policy_options *given)
{
    lh_status st = LH_OK;
    lh_policy policy;
    lh_policy_list list = {0};
    lh_profiles profiles = {0};
    lh_policy_options options = *given;
    const lh_policy_preset *preset = lh_policy_find(options.policy);
    /* a share: valid for blocks of any size */
    if (!options.budget && !(preset && !preset->parts)) options.budget = "100%";
    options.profiles = &profiles;
    if (!strpbrk(options.policy, ", ") && strcmp(options.policy, "all") != 0) {
        LH_TRY_DONE(lh_policy_resolve(&policy, &options));
        LH_TRY_DONE(explain_policy(out, &policy));
        goto done;
    }
    LH_TRY_DONE(lh_policy_list_resolve(&list, &options));
    for (int64_t i = 1; i < list.n; i++) LH_TRY_DONE(explain_policy(out, &list.at[i].policy));
done:
    lh_policy_list_clear(&list);
    lh_profiles_clear(&profiles);
    return st;
}

lh_status lh_shell_policy_help(lh_buf *out, int argc, char **argv)
{
    lh_status st = LH_OK;
    lh_policy_options values = {0};
    lh_options *options = NULL;
    char **words = NULL;
    if (strcmp(policy_name(argc, argv), "help") == 0) {
        LH_TRY_DONE(list(out));
        goto done;
    }
    LH_TRY_DONE(lh_calloc(&words, argc + 1, sizeof *words));
    LH_TRY_DONE(lh_options_parse(&options, &syntax, &values, policy_words(argc, argv, words), words));
    LH_TRY_DONE(explain(out, &values));
done:
    lh_options_close(options);
    lh_free(words);
    return st;
}

/* ---- the policy of a run: options that exclude each other, and warnings as lines of the log ---- */
lh_status lh_shell_check_loaded(const lh_policy_options *options, const char *load_cache)
{
    if (load_cache && lh_policy_given(options))
        LH_FAIL(LH_EUSAGE, "a loaded cache continues with the policy it was made with: leave out '--policy', "
                           "'--budget' and the parts of a policy");
    return LH_OK;
}

/* The use of each default. */
static const char *const defaults[] = {[LH_ASKED_IN_PROMPT] = "the default with a budget",
                                       [LH_ASKED_LATER] = "the default with a budget for questions that come later"};

/* What would make a better default: the model has no weights if the default is still this one. */
static const char *hint(const lh_policy *policy)
{
    const int lacks_weights =
        policy->by_default == LH_DEFAULT_AS_IT_IS && strcmp(policy->name, lh_policy_to_ask_later) == 0;
    return lacks_weights ? "'longhaul learn' gives this model a better one; " : "";
}

lh_status lh_shell_note_policy(const lh_policy *policy, int64_t tokens, lh_policy_asked asked)
{
    lh_status st = LH_OK;
    lh_buf text = {0}, warnings = {0};
    if (!lh_shell_first()) goto done;
    LH_TRY_DONE(lh_policy_text(policy, &text));
    if (policy->by_default)
        lh_info("policy: %s (%s; %s'--policy' selects another)", text.data, defaults[asked], hint(policy));
    else
        lh_debug("policy: %s", text.data);
    LH_TRY_DONE(lh_policy_warnings(policy, tokens, &warnings));
    if (asked == LH_ASKED_LATER) LH_TRY_DONE(lh_policy_question_warnings(policy, tokens, &warnings));
    for (char *line = warnings.data, *end; line && *line; line = end + 1) {
        end = line + strcspn(line, "\n");
        lh_warn("%.*s", (int)(end - line), line);
        if (!*end) break;
    }
done:
    lh_buf_clear(&text);
    lh_buf_clear(&warnings);
    return st;
}

void lh_shell_note_defaults(const lh_policy_list *policies)
{
    const char *noted = "";
    for (int64_t i = 0; i < policies->n; i++) {
        const lh_policy *policy = &policies->at[i].policy;
        if (!policy->by_default || strcmp(policy->name, noted) == 0) continue;
        noted = policy->name;
        const lh_policy_asked asked =
            strcmp(noted, lh_policy_by_default) == 0 ? LH_ASKED_IN_PROMPT : LH_ASKED_LATER;
        lh_info("policy: %s (%s; %s'--policy' selects others)", noted, defaults[asked], hint(policy));
    }
}

#include "lab/eval/warn_policies.h"

#include <string.h>

#include "base/log.h"

/* A warning in the words of the first policy that it holds for. */
typedef struct warning {
    char *text;
    const lh_policy_choice *first, *latest; /* latest: NULL: the first is the only one */
    lh_buf others;                          /* "snapkv --budget 600; h2o --budget 500, 600" */
} warning;

typedef struct warnings {
    warning *at;
    int64_t n;
} warnings;

static void clear_warnings(warnings *all)
{
    for (int64_t i = 0; i < all->n; i++) {
        lh_free(all->at[i].text);
        lh_buf_clear(&all->at[i].others);
    }
    lh_free(all->at);
}

/* 1 if two texts differ in numbers only. */
static int is_same(const char *a, const char *b)
{
    static const char number[] = "0123456789.";
    for (;; a++, b++) {
        a += strspn(a, number);
        b += strspn(b, number);
        if (*a != *b) return 0;
        if (!*a) return 1;
    }
}

static lh_status add_other(warning *w, const lh_policy_choice *choice)
{
    const int goes_on = w->latest && strcmp(w->latest->name, choice->name) == 0;
    LH_TRY(lh_buf_printf(&w->others, "%s%s%s%s", goes_on || !w->latest ? "" : "; ", goes_on ? ", " : choice->name,
                         goes_on ? "" : " --budget ", choice->budget));
    w->latest = choice;
    return LH_OK;
}

static lh_status add_warning(warnings *all, const lh_policy_choice *choice, const char *text)
{
    for (int64_t i = 0; i < all->n; i++)
        if (is_same(all->at[i].text, text)) return add_other(&all->at[i], choice);
    LH_TRY(lh_realloc(&all->at, all->n + 1, sizeof *all->at));
    all->at[all->n] = (warning){.first = choice};
    return lh_strdup(&all->at[all->n++].text, text);
}

/* The lines of `text`, which it cuts. */
static lh_status add_lines(warnings *all, const lh_policy_choice *choice, char *text)
{
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = '\0';
        LH_TRY(add_warning(all, choice, line));
    }
    return LH_OK;
}

lh_status lh_eval_warn_of_policies(const lh_policy_list *policies, const int64_t *lengths, int64_t n)
{
    lh_status st = LH_OK;
    lh_buf lines = {0};
    warnings all = {0};
    for (int64_t p = 0; p < policies->n; p++) {
        const lh_policy_choice *choice = &policies->at[p];
        lines.bytes = 0;
        if (choice->given) continue;
        for (int64_t i = 0; i < n && lines.bytes == 0; i++)
            LH_TRY_DONE(lh_policy_warnings(&choice->policy, lengths[i], &lines));
        if (lines.bytes) LH_TRY_DONE(add_lines(&all, choice, lines.data));
    }
    for (const warning *w = all.at; w && w < all.at + all.n; w++)
        lh_warn("%s --budget %s: %s%s%s%s", w->first->name, w->first->budget, w->text, w->latest ? " (also " : "",
                w->latest ? w->others.data : "", w->latest ? ")" : "");
done:
    clear_warnings(&all);
    lh_buf_clear(&lines);
    return st;
}

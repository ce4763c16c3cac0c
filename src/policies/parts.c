#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "policies/policy_impl.h"

/* ---- when a part is used ---- */

static int always(const lh_policy_plan *plan)
{
    (void)plan;
    return 1;
}

static int attends(const lh_policy_plan *plan)
{
    return plan->source == LH_SCORE_ATTENTION;
}

static int pools(const lh_policy_plan *plan)
{
    return attends(plan) && plan->pool_kind != 0;
}

static int adapts(const lh_policy_plan *plan)
{
    return plan->heads == LH_HEADS_ADAPTIVE;
}

static int narrows(const lh_policy_plan *plan)
{
    return plan->layers == LH_LAYERS_PYRAMID;
}

/* ---- words and numbers ---- */

lh_status lh_word_read(int *out, const char *what, const char *const *words, const char *text)
{
    lh_status st = LH_OK;
    lh_buf all = {0};
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            goto done;
        }
        LH_TRY(lh_buf_printf(&all, "%s%s", i ? ", " : "", words[i]));
    }
    const char *near = lh_nearest(text, words);
    if (near) LH_FAIL(LH_EUSAGE, "%s '%s' is unknown, did you mean '%s'? (there are: %s)", what, text, near, all.data);
    LH_FAIL(LH_EUSAGE, "%s '%s' is unknown, there are: %s", what, text, all.data);
done:
    lh_buf_clear(&all);
    return st;
}

static lh_status read_word(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_status st = LH_OK;
    int number = 0;
    lh_part_value what;
    snprintf(what.text, sizeof what.text, "--%s", part->option);
    LH_TRY(lh_word_read(&number, what.text, part->words, text));
    if (part->at) memcpy((char *)plan + part->at, &number, sizeof number);
done:
    return st;
}

static void write_word(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    int number = 0;
    if (part->at) memcpy(&number, (const char *)plan + part->at, sizeof number);
    snprintf(out->text, sizeof out->text, "%s", part->words[number]);
}

/* A whole number in [min, 2^40]: 1, or 0. */
static int whole(int64_t *out, const char *text, int64_t min)
{
    lh_decimal d;
    if (!lh_decimal_read(&d, text, (int64_t)strlen(text)) || strchr(text, '.')) return 0;
    *out = d.digits;
    return d.digits >= min && d.digits <= (INT64_C(1) << 40);
}

static lh_status read_number(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_status st = LH_OK;
    int64_t number = 0;
    if (!whole(&number, text, part->min))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a whole number from %lld on", part->option, text, (long long)part->min);
    memcpy((char *)plan + part->at, &number, sizeof number);
done:
    return st;
}

static void write_number(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    int64_t number;
    memcpy(&number, (const char *)plan + part->at, sizeof number);
    snprintf(out->text, sizeof out->text, "%lld", (long long)number);
}

static int percent(lh_decimal *out, const char *text)
{
    size_t n = strlen(text);
    return n && text[n - 1] == '%' && lh_decimal_read(out, text, (int64_t)n - 1) && out->digits > 0 &&
           lh_decimal_of(*out, 1) <= 100 && !(lh_decimal_of(*out, 1) == 100 && out->scale);
}

/* ---- parts with a text of their own ---- */

static lh_status read_statistic(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_status st = LH_OK;
    int number = 0;
    LH_TRY(lh_word_read(&number, "--statistic", part->words, text));
    plan->source = number == 2 ? LH_SCORE_POSITION : LH_SCORE_ATTENTION;
    plan->mean = number == 1;
done:
    return st;
}

static void write_statistic(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    snprintf(out->text, sizeof out->text, "%s", part->words[plan->source == LH_SCORE_POSITION ? 2 : plan->mean]);
}

static lh_status read_pool_size(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_status st = LH_OK;
    LH_TRY(read_number(plan, part, text));
    if (plan->pool_size % 2 == 0)
        LH_FAIL(LH_EUSAGE, "--pool-size '%s' must be odd, so that an entry lies in the middle of its pool", text);
done:
    return st;
}

static lh_status read_alpha(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_status st = LH_OK;
    if (!lh_decimal_read(&plan->alpha, text, (int64_t)strlen(text)) || lh_decimal_of(plan->alpha, 1) > 1 ||
        (lh_decimal_of(plan->alpha, 1) == 1 && plan->alpha.scale))
        LH_FAIL(LH_EUSAGE, "--%s '%s' must be a decimal from 0 to 1, as 0.5", part->option, text);
done:
    return st;
}

static void write_alpha(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    (void)part;
    lh_decimal_write(plan->alpha, out);
}

/* Without a text of its own: the window's rows, so it is read after the window. */
static lh_status read_rows(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_status st = LH_OK;
    (void)part;
    plan->rows = plan->window;
    if (text) {
        plan->rows = 0;
        plan->rows_is_share = percent(&plan->rows_share, text);
        if (!plan->rows_is_share && (strncmp(text, "last:", 5) != 0 || !whole(&plan->rows, text + 5, 1)))
            LH_FAIL(LH_EUSAGE, "--rows '%s' must be last:N with N from 1 on, or a share of the prompt up to 100%%",
                    text);
    }
    if (!plan->rows && !plan->rows_is_share)
        LH_FAIL(LH_EUSAGE, "--window 0 leaves no row to observe: give '--rows last:N' or a window of at least 1");
done:
    return st;
}

static void write_rows(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    (void)part;
    if (plan->rows_is_share) {
        lh_decimal_write(plan->rows_share, out);
        strcat(out->text, "%");
    } else {
        snprintf(out->text, sizeof out->text, "last:%lld", (long long)plan->rows);
    }
}

static lh_status read_evict(lh_policy_plan *plan, const lh_part *part, const char *text)
{
    lh_status st = LH_OK;
    (void)part;
    plan->every = 0;
    if (strcmp(text, "never") == 0) goto done;
    if (strcmp(text, "every") == 0 && attends(plan) && plan->window > 0)
        plan->every = plan->window;
    else if (strncmp(text, "every:", 6) != 0 || !whole(&plan->every, text + 6, 1))
        LH_FAIL(LH_EUSAGE, "--evict '%s' must be never or every:M, M generated tokens from 1 on", text);
done:
    return st;
}

static void write_evict(const lh_policy_plan *plan, const lh_part *part, lh_part_value *out)
{
    (void)part;
    snprintf(out->text, sizeof out->text, "never");
    if (plan->every) snprintf(out->text, sizeof out->text, "every:%lld", (long long)plan->every);
}

/* ---- budget ---- */

lh_status lh_budget_read(lh_policy_plan *plan, const char *text)
{
    lh_status st = LH_OK;
    plan->budget_is_share = percent(&plan->budget_share, text);
    if (!plan->budget_is_share && !whole(&plan->budget_entries, text, 1))
        LH_FAIL(LH_EUSAGE,
                "--budget '%s' must be a number of entries from 1 on, or a share of the prompt above 0%% and up to "
                "100%%, as 20%%",
                text);
done:
    return st;
}

void lh_budget_write(const lh_policy_plan *plan, lh_part_value *out)
{
    snprintf(out->text, sizeof out->text, "%lld", (long long)plan->budget_entries);
    if (plan->budget_is_share) {
        lh_decimal_write(plan->budget_share, out);
        strcat(out->text, "%");
    }
}

/* ---- the table ---- */

static const char *const statistics[] = {"sum", "mean", "position", NULL};
static const char *const groups[] = {"mean", "max", "sum", NULL}; /* lh_group_kind */
static const char *const stages[] = {"weight", "score", NULL};
static const char *const pool_kinds[] = {"none", "max", "avg", NULL}; /* lh_pool_kind */
static const char *const safeguards[] = {"interp", "floor", NULL};
static const char *const over_heads[] = {"uniform", "adaptive", NULL};
static const char *const over_layers[] = {"uniform", "pyramid", NULL};
static const char *const selections[] = {"topk", NULL};
static const char *const position_modes[] = {"original", NULL};

#define TEXT(part) .text_at = offsetof(lh_policy_parts, part)
#define WORD .read = read_word, .write = write_word
#define NUMBER .read = read_number, .write = write_number
#define AT(member) .at = offsetof(lh_policy_plan, member)
#define ATTENTION .used = attends, .needs = "a statistic of attention ('--statistic mean' or sum)"
#define POOLS .used = pools, .needs = "'--pool max' or avg"
#define ADAPTS .used = adapts, .needs = "'--head-budget adaptive'"

static const lh_part table[] = {
    {"statistic", TEXT(statistic), .used = always, .read = read_statistic, .write = write_statistic,
     .words = statistics},
    {"window", TEXT(window), ATTENTION, NUMBER, AT(window)},
    {"rows", TEXT(rows), ATTENTION, .read = read_rows, .write = write_rows},
    {"group", TEXT(group), ATTENTION, WORD, AT(group_kind), .words = groups},
    {"pool", TEXT(pool), ATTENTION, WORD, AT(pool_kind), .words = pool_kinds},
    {"pool-size", TEXT(pool_size), POOLS, .read = read_pool_size, .write = write_number, AT(pool_size), .min = 1},
    {"group-stage", TEXT(group_stage), POOLS, WORD, AT(group_after_pool), .words = stages},
    {"sinks", TEXT(sinks), .used = always, NUMBER, AT(sinks)},
    /* by position the most recent entries are the best ones: protecting them would change nothing */
    {"recents", TEXT(recents), ATTENTION, NUMBER, AT(recents)},
    {"head-budget", TEXT(head_budget), .used = always, WORD, AT(heads), .words = over_heads},
    {"safeguard", TEXT(safeguard), ADAPTS, WORD, AT(safeguard), .words = safeguards},
    {"alpha", TEXT(alpha), ADAPTS, .read = read_alpha, .write = write_alpha},
    {"layer-budget", TEXT(layer_budget), .used = always, WORD, AT(layers), .words = over_layers},
    {"beta", TEXT(beta), .used = narrows, .needs = "'--layer-budget pyramid'", NUMBER, AT(beta), .min = 1},
    {"select", TEXT(select), .used = always, WORD, .words = selections},
    {"evict", TEXT(evict), .used = always, .read = read_evict, .write = write_evict},
    {"positions", TEXT(positions), .used = always, WORD, .words = position_modes},
};

enum { PARTS = sizeof table / sizeof *table };
_Static_assert(PARTS == sizeof(lh_policy_parts) / sizeof(char *), "a row for every part");

const lh_part *lh_part_at(int i)
{
    return i >= 0 && i < PARTS ? &table[i] : NULL;
}

const char *lh_part_text(const lh_part *part, const lh_policy_parts *parts)
{
    const char *text;
    memcpy(&text, (const char *)parts + part->text_at, sizeof text);
    return text;
}

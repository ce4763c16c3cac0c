/* method.h - methods: the scores, selections and additions that a policy is made of. A method is one file, mostly in
 * src/evict, with its options, its help, its traits, its checks and its functions, and one line of method_list.h. This
 * room reads the data; the functions that work on arrays of scores are known to src/evict only. */
#ifndef LH_POLICIES_METHOD_H
#define LH_POLICIES_METHOD_H

#include "policies/budgets.h"
#include "policies/policy.h"

/* Properties and needs of a method that other code reads. */
#define LH_TRAIT(bit) (UINT64_C(1) << (bit))
/* scores */
#define LH_ATTENDS LH_TRAIT(0)         /* query rows score the entries by their attention */
#define LH_ONE_ROW LH_TRAIT(1)         /* of them the last one alone */
#define LH_BY_POSITION LH_TRAIT(2)     /* scores are the positions: nothing is computed */
#define LH_JOINT_STATISTIC LH_TRAIT(3) /* one statistic of all query heads of a group */
#define LH_AT_EVICTION LH_TRAIT(4)     /* rows must be observed at the eviction, not as they pass */
#define LH_PROMPT_ROWS LH_TRAIT(5)     /* all query rows of the prompt are read as they pass */
#define LH_SAME_RANKS LH_TRAIT(6)      /* scores of different heads are not comparable */
/* needs */
#define LH_WHOLE_PROMPT LH_TRAIT(7)         /* works on the whole prompt, once at its end */
#define LH_NEEDS_ATTENTION LH_TRAIT(8)      /* scores must come from attention */
#define LH_NEEDS_SQUARES LH_TRAIT(9)        /* squares of attention are counted, for deviations */
#define LH_NEEDS_ENTRIES LH_TRAIT(10)       /* keys or values are read */
#define LH_NEEDS_ROTATION LH_TRAIT(11)      /* queries or keys are rotated */
#define LH_NEEDS_PROJECTION LH_TRAIT(12)    /* norms of projected values weigh scores */
#define LH_REFERENCES LH_TRAIT(13)          /* reference queries are observed at positions after the prompt */
#define LH_NORMALISERS LH_TRAIT(20)         /* log-sum-exps of the scoring rows are read */
#define LH_ALTERS_ROWS LH_TRAIT(14)         /* the scoring rows see other weights than the model gives */
#define LH_NEEDS_SCORE_WEIGHTS LH_TRAIT(23) /* the model's weights for it (model/score_weights.h) */
#define LH_REFITS LH_TRAIT(24)              /* kept entries are fitted at every eviction */
#define LH_DRAWS LH_TRAIT(21)               /* kept entries depend on the seed */
/* selection and budgets */
#define LH_STAGED LH_TRAIT(15)     /* entries are selected in two stages, in no single order */
#define LH_ONE_ORDER LH_TRAIT(16)  /* entries must have a single order */
#define LH_EACH_HEAD LH_TRAIT(17)  /* every head must choose for itself */
#define LH_EVEN_HEADS LH_TRAIT(18) /* every head must keep the same number of entries, each its own */
#define LH_HAS_COMPAT LH_TRAIT(19) /* kvpress computes it in another way */
#define LH_ROWS_TOGETHER \
    LH_TRAIT(22) /* all scoring rows of an entry must be at hand together, and their number known */
/* of common parts, for the rules of check.c */
#define LH_EVICTS_LATER LH_TRAIT(32)
#define LH_BLOCKS LH_TRAIT(33)
#define LH_RUNNING LH_TRAIT(34)
#define LH_SPREAD_ROWS LH_TRAIT(35)
#define LH_PROXIES LH_TRAIT(36)
#define LH_COMPETES LH_TRAIT(37)
#define LH_UNEVEN_HEADS LH_TRAIT(38)
#define LH_UNEVEN_LAYERS LH_TRAIT(39)
#define LH_JOINT_SET LH_TRAIT(40)
#define LH_SLOTS LH_TRAIT(41)
#define LH_FIXED_ROWS LH_TRAIT(42)
#define LH_NO_ATTENTION LH_TRAIT(43)
#define LH_HAS_PROBES LH_TRAIT(44)

/* A resolved policy at a prompt of `seen` tokens: its numbers, and the protected entries. For warnings. */
typedef struct lh_outlook {
    const lh_policy *policy;
    lh_policy_numbers fixed;
    int64_t seen;
    lh_protection protect;
} lh_outlook;

typedef struct lh_part lh_part;

/* Members that are NULL have nothing to do. */
typedef struct lh_method {
    const char *word, *help;                /* of a source or a selection: its word, its meaning */
    const char *option;                     /* of an addition: what makes it active, in messages, e.g. "--fit" */
    int (*active)(const lh_policy *policy); /* of an addition */
    const lh_part *parts;                   /* its options; a part without a name ends them */
    uint64_t traits;

    lh_status (*check)(const lh_policy *policy); /* LH_EUSAGE for what no rule of check.c refuses */
    lh_status (*warn)(const lh_outlook *outlook, lh_buf *out);

    /* of a selection: entries of the first stage (lh_policy_stage) */
    lh_stage (*stage)(const lh_policy_numbers *fixed, const lh_protection *protect);
    /* of an addition: entries that it protects in every head, of a budget */
    int64_t (*protects)(const lh_policy *policy, int64_t budget);

    /* functions on arrays, declared in src/evict */
    const struct lh_statistic *statistic;
    const struct lh_source *source;
    const struct lh_selection *selection;
    const struct lh_addition *addition;
} lh_method;

/* The table, by number (src/evict/methods.c). */
extern const lh_method *const lh_methods[];

/* ---- parts: the options of a policy ---- */

/* How a part takes a file. */
typedef struct lh_profile_part {
    int kind;       /* lh_profile_kind */
    size_t hash_at; /* in lh_policy: uint64_t */
    const char *meaning;
} lh_profile_part;

/* A part: when a policy uses it, how its text becomes a number of the policy and back. Reading checks one text alone.
 */
struct lh_part {
    lh_option row;   /* name, help, values; with a profile: its file_prefix, NULL: the file replaces a word */
    const char *def; /* its text where neither option nor preset gives one; NULL: none */
    const char *const *meanings;          /* of its words, in their order; NULL: none */
    const char *const *words;             /* of a row without choices: first words of values; NULL: none */
    int (*used)(const lh_policy *policy); /* NULL: where its method is used */
    const char *needs; /* options with which it would be used; NULL: the option that its method needs */
    /* The only value that the parts before it allow, which replaces a preset's, `usual`. NULL: any. */
    const char *(*forced)(const lh_policy *policy, const char *usual);
    lh_status (*read)(lh_policy *policy, const lh_part *part, const char *text); /* text may be NULL */
    void (*write)(const lh_policy *policy, const lh_part *part, lh_part_value *out);
    size_t at; /* of its number in lh_policy: int for words, int64_t, lh_decimal, lh_fraction or lh_policy_amount */
    int64_t min;
    const lh_profile_part *profile;     /* its text may name a file */
    lh_method_id method;                /* LH_METHOD_NONE: a common part */
    int (*of_methods)(lh_method_id id); /* of a common part with the words of methods: true for these */
    const char *after;                  /* of a method's part: the common part that it follows */
};

extern const char *const lh_policy_switch[]; /* off, on */

/* Beginnings of a method's part, by its kind of value, with the member of the method's parameters that receives it:
 * {LH_PART_NUMBER(lag, lag_params, lag), .row.name = "lag", …}. */
#define LH_PARAMS_AT offsetof(lh_policy, methods.params)
#define LH_PART_AT(name, params, member)                                                                         \
    .method = LH_METHOD_##name,                                                                                  \
    .at = LH_PARAMS_AT + LH_METHOD_##name * sizeof(lh_method_params) + offsetof(params, member), .row.named = 1, \
    .row.detail = 1, .row.at = offsetof(lh_policy_options, parts.own),                                           \
    .row.bytes = sizeof(lh_named_text) * LH_OWN_PARTS
#define LH_PART_WORD(name, params, member) \
    LH_PART_AT(name, params, member), .row.type = LH_OPT_STR, .read = lh_part_read_word, .write = lh_part_write_word
#define LH_PART_SWITCH(name, params, member)                                                                    \
    LH_PART_AT(name, params, member), .row.type = LH_OPT_SWITCH, .row.choices = lh_policy_switch, .def = "off", \
                                      .read = lh_part_read_word, .write = lh_part_write_word
#define LH_PART_NUMBER(name, params, member) \
    LH_PART_AT(name, params, member), .row.type = LH_OPT_STR, .read = lh_part_read_number, .write = lh_part_write_number
#define LH_PART_SHARE(name, params, member) \
    LH_PART_AT(name, params, member), .row.type = LH_OPT_STR, .read = lh_part_read_share, .write = lh_part_write_share
#define LH_PART_FRACTION(name, params, member)                                               \
    LH_PART_AT(name, params, member), .row.type = LH_OPT_STR, .read = lh_part_read_fraction, \
                                      .write = lh_part_write_fraction
#define LH_PART_AMOUNT(name, params, member) \
    LH_PART_AT(name, params, member), .row.type = LH_OPT_STR, .read = lh_part_read_amount, .write = lh_part_write_amount

/* Words; numbers; decimals from 0 to 1; fractions from 0 to 1, such as "7/19"; entries, or a share of the budget. */
lh_status lh_part_read_word(lh_policy *policy, const lh_part *part, const char *text);
void lh_part_write_word(const lh_policy *policy, const lh_part *part, lh_part_value *out);
lh_status lh_part_read_number(lh_policy *policy, const lh_part *part, const char *text);
void lh_part_write_number(const lh_policy *policy, const lh_part *part, lh_part_value *out);
lh_status lh_part_read_share(lh_policy *policy, const lh_part *part, const char *text);
void lh_part_write_share(const lh_policy *policy, const lh_part *part, lh_part_value *out);
lh_status lh_part_read_fraction(lh_policy *policy, const lh_part *part, const char *text);
void lh_part_write_fraction(const lh_policy *policy, const lh_part *part, lh_part_value *out);
lh_status lh_part_read_amount(lh_policy *policy, const lh_part *part, const char *text);
void lh_part_write_amount(const lh_policy *policy, const lh_part *part, lh_part_value *out);

/* What `needs` says of parts for scores by attention (lh_policy_attends). */
#define LH_ATTENTION_NEEDED \
    "a statistic of attention ('--statistic sum' or mean, mas, count, rms, max, output-error, last)"

/* The parameters of a method: zero if it is not used. The method's file knows the struct. */
const void *lh_params_of(const lh_policy_methods *methods, lh_method_id id);

/* Leaves an addition out of a policy. */
void lh_policy_drop_method(lh_policy *policy, lh_method_id id);

/* "--statistic lag", "--select topk+keys", "--fit". */
lh_part_value lh_method_label(lh_method_id id);

/* True if one of the methods, or of the policy's, has one of the traits. */
int lh_methods_have(const lh_policy_methods *methods, uint64_t traits);
int lh_policy_has(const lh_policy *policy, uint64_t traits);

/* Entries that an amount is of a budget. */
int64_t lh_amount_of(lh_policy_amount amount, int64_t budget);

/* True if query rows score by attention; if more than the last one; if there may be reference queries; if query heads
 * are joined and scores are pooled. */
int lh_policy_attends(const lh_policy *policy);
int lh_policy_observes(const lh_policy *policy);
int lh_policy_may_refer(const lh_policy *policy);
int lh_policy_joins_and_pools(const lh_policy *policy);

/* LH_EUSAGE if reference queries would not be after the prompt. A check of methods with LH_REFERENCES. */
lh_status lh_check_references(const lh_policy *policy);

/* True if shares are of the whole budget and pyramids rounded, as in kvpress; true if query heads are joined after
 * pooling (kvpress.c); and the entries of a budget that alpha guarantees a head in kvpress (budgets.c). */
int lh_is_kvpress(const lh_policy_methods *methods);
int lh_groups_after_pool(const lh_policy_methods *methods);
int64_t lh_kvpress_floor(const lh_policy_numbers *fixed, const lh_protection *protect);

#endif

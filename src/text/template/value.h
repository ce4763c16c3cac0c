/* value.h - the values of a chat template while it is rendered: Python's none, booleans, integers, texts, lists
 * and dictionaries. All of them lie in the pool of the rendering.
 *
 * A text knows which of its bytes are contents of messages (spans), through concatenation, slices and loops, so that
 * these cannot forge special tokens and a question can be cut off (text/chat.h). */
#ifndef LH_TEXT_TEMPLATE_VALUE_H
#define LH_TEXT_TEMPLATE_VALUE_H

#include <stdint.h>

#include "text/template/pool.h"

/* Bytes [start, start + bytes) of a text are those from byte `skipped` of the contents of a message; message -1: they
 * come from contents, but not byte by byte. */
typedef struct lh_tpl_span {
    int64_t start, bytes, skipped;
    int message;
} lh_tpl_span;

typedef struct lh_tpl_text {
    const char *data; /* UTF-8, not NUL-terminated */
    int64_t bytes;
    const lh_tpl_span *spans; /* ascending */
    int64_t span_count;
} lh_tpl_text;

typedef enum lh_tpl_kind {
    LH_TPL_UNDEFINED,
    LH_TPL_NONE,
    LH_TPL_BOOL,
    LH_TPL_INT,
    LH_TPL_TEXT,
    LH_TPL_LIST,
    LH_TPL_DICT,
    LH_TPL_NAMESPACE, /* a dictionary whose members can be set */
    LH_TPL_FUNCTION,  /* by name, or a method of `self` */
    LH_TPL_MACRO,
} lh_tpl_kind;

typedef struct lh_tpl_value lh_tpl_value;

typedef struct lh_tpl_list {
    lh_tpl_value *at;
    int64_t n, cap;
} lh_tpl_list;

/* In the order of insertion: keys.at[i] has values.at[i]. */
typedef struct lh_tpl_dict {
    lh_tpl_list keys, values;
} lh_tpl_dict;

typedef struct lh_tpl_function lh_tpl_function;
typedef struct lh_tpl_macro lh_tpl_macro; /* run.h */

struct lh_tpl_value {
    lh_tpl_kind kind;
    union {
        int64_t i; /* of a boolean, too */
        const lh_tpl_text *text;
        lh_tpl_list *list;
        lh_tpl_dict *dict;
        const lh_tpl_function *function;
        const lh_tpl_macro *macro;
        const char *name; /* of what is undefined, for messages; may be NULL */
    };
};

struct lh_tpl_function {
    const char *name;
    lh_tpl_value self; /* of a method, else undefined */
};

/* Arguments of a call: positional ones, and those with names. */
typedef struct lh_tpl_args {
    lh_tpl_value *at;
    int64_t n;
    const char *const *names; /* [named] */
    lh_tpl_value *named_at;
    int64_t named;
} lh_tpl_args;

/* The i-th argument, or that of this name; undefined without one. */
lh_tpl_value lh_tpl_arg(const lh_tpl_args *args, int64_t i, const char *name);

static inline lh_tpl_value lh_tpl_undefined(const char *name)
{
    return (lh_tpl_value){.kind = LH_TPL_UNDEFINED, .name = name};
}
static inline lh_tpl_value lh_tpl_none(void)
{
    return (lh_tpl_value){.kind = LH_TPL_NONE};
}
static inline lh_tpl_value lh_tpl_bool(int b)
{
    return (lh_tpl_value){.kind = LH_TPL_BOOL, .i = b != 0};
}
static inline lh_tpl_value lh_tpl_int(int64_t i)
{
    return (lh_tpl_value){.kind = LH_TPL_INT, .i = i};
}
static inline int lh_tpl_is_number(lh_tpl_value v)
{
    return v.kind == LH_TPL_BOOL || v.kind == LH_TPL_INT;
}

const char *lh_tpl_type(lh_tpl_value v); /* as Python names it, such as "str" */
int lh_tpl_true(lh_tpl_value v);

/* *out = 1 if equal, as Python's ==. */
lh_status lh_tpl_equal(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out);

/* Negative, zero, positive. LH_EINPUT for values without an order. */
lh_status lh_tpl_compare(lh_tpl_pool *pool, lh_tpl_value a, lh_tpl_value b, int *out);

/* ---- lists and dictionaries ---- */

lh_status lh_tpl_list_make(lh_tpl_pool *pool, lh_tpl_value *out);
lh_status lh_tpl_list_push(lh_tpl_pool *pool, lh_tpl_list *list, lh_tpl_value value);
lh_status lh_tpl_dict_make(lh_tpl_pool *pool, lh_tpl_value *out, lh_tpl_kind kind);
lh_status lh_tpl_dict_put(lh_tpl_pool *pool, lh_tpl_dict *dict, lh_tpl_value key, lh_tpl_value value);
lh_status lh_tpl_dict_get(lh_tpl_pool *pool, const lh_tpl_dict *dict, lh_tpl_value key, lh_tpl_value *out, int *found);
lh_tpl_value *lh_tpl_dict_named(const lh_tpl_dict *dict, const char *name); /* NULL if there is none */

/* The items of a value as a loop sees them: of a list, the keys of a dictionary, the characters of a text, nothing of
 * what is undefined. A list itself is not copied. LH_EINPUT for others. */
lh_status lh_tpl_items(lh_tpl_pool *pool, lh_tpl_value v, lh_tpl_list *out);

/* *out = 1 if `item` is in a list, a key of a dictionary, or a part of a text. */
lh_status lh_tpl_contains(lh_tpl_pool *pool, lh_tpl_value in, lh_tpl_value item, int *out);

#endif

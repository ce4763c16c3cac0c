/* value.h - the values of a chat template while it is rendered: Python's none, booleans, integers, texts, lists
 * and dictionaries, in the pool of the rendering.
 *
 * A text knows which of its bytes are contents of messages (spans), through concatenation, slices and loops, so that
 * contents cannot forge special tokens and a question can be cut off (text/chat.h). */
#ifndef LH_TEXT_TEMPLATE_VALUE_H
#define LH_TEXT_TEMPLATE_VALUE_H

#include <stdint.h>

#include "base/mem.h"

/* ---- the pool: the memory of a template, or of a rendering, which is freed as a whole. It also counts the
 * steps and the depth of the work. All three are bounded, because a template is a foreign program. ---- */

typedef struct lh_tpl_block lh_tpl_block;

/* steps: an evaluated node is one, and 64 bytes of a text that is made or searched are one. */
typedef struct lh_tpl_pool {
    lh_tpl_block *blocks;
    int64_t bytes_left, steps_left, depth;
} lh_tpl_pool;

/* Zeroed memory. LH_EINPUT when the memory of the rendering is used up. */
lh_status lh_tpl_alloc(lh_tpl_pool *pool, void *out, int64_t count, int64_t size);

/* LH_EINPUT when the steps are used up. */
lh_status lh_tpl_step(lh_tpl_pool *pool, int64_t steps);

/* Around recursive functions: LH_EINPUT when the recursion is too deep for the stack. */
lh_status lh_tpl_enter(lh_tpl_pool *pool);
static inline lh_status lh_tpl_leave(lh_tpl_pool *pool, lh_status st)
{
    pool->depth--;
    return st;
}
void lh_tpl_pool_clear(lh_tpl_pool *pool);

/* ---- values ---- */

/* Bytes [start, start + bytes) of a text are bytes of the contents of a message, from byte `skipped` on; message -1:
 * they were made from contents, but not byte by byte. */
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
    LH_TPL_NAMESPACE, /* a dictionary with members that can be set */
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
        const char *name; /* of an undefined value, for messages; may be NULL */
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

/* The i-th argument, or the argument of this name, or undefined. */
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

/* *out: true if equal by Python's ==. */
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

/* The items of a value in a loop: of a list, the keys of a dictionary, the characters of a text, none of an undefined
 * value. A list is not copied. LH_EINPUT for other values. */
lh_status lh_tpl_items(lh_tpl_pool *pool, lh_tpl_value v, lh_tpl_list *out);

/* *out: true if `item` is in a list, a key of a dictionary, or a part of a text. */
lh_status lh_tpl_contains(lh_tpl_pool *pool, lh_tpl_value in, lh_tpl_value item, int *out);

/* ---- texts: positions are bytes; lh_tpl_text_slice alone counts characters, as Python does ---- */

/* Text of the template, without spans; data is borrowed. */
lh_status lh_tpl_text_borrow(lh_tpl_pool *pool, const char *data, int64_t bytes, lh_tpl_value *out);

/* Contents of a message (borrowed): one span. */
lh_status lh_tpl_text_content(lh_tpl_pool *pool, const char *data, int message, lh_tpl_value *out);

/* A copy of data that was made from `of`: contents, if `of` holds any. */
lh_status lh_tpl_text_from(lh_tpl_pool *pool, const char *data, int64_t bytes, const lh_tpl_text *of,
                           lh_tpl_value *out);

int lh_tpl_text_is(const lh_tpl_text *text, const char *data, int64_t bytes);

/* Bytes of the character at `at`, 1 for invalid UTF-8; number of characters. */
int64_t lh_tpl_character(const lh_tpl_text *text, int64_t at);
int64_t lh_tpl_text_length(const lh_tpl_text *text);

/* Bytes [from, until). */
lh_status lh_tpl_text_part(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t from, int64_t until, lh_tpl_value *out);

/* Characters from `from` in steps of `step`, n of them. */
lh_status lh_tpl_text_slice(lh_tpl_pool *pool, const lh_tpl_text *text, int64_t from, int64_t step, int64_t n,
                            lh_tpl_value *out);

/* *at: the first position from byte `from` on, -1: none. */
lh_status lh_tpl_text_find(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *part, int64_t from,
                           int64_t *at);

/* Without characters of `set` (NULL: Python's white space) at its ends: sides 1 left, 2 right, 3 both. */
lh_status lh_tpl_text_strip(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *set, int sides,
                            lh_tpl_value *out);

/* A text that grows; all zero is empty. */
typedef struct lh_tpl_builder {
    char *data;
    int64_t bytes, cap;
    lh_tpl_span *spans;
    int64_t span_count, span_cap;
} lh_tpl_builder;

lh_status lh_tpl_append(lh_tpl_pool *pool, lh_tpl_builder *b, const lh_tpl_text *text);
lh_status lh_tpl_append_bytes(lh_tpl_pool *pool, lh_tpl_builder *b, const char *data, int64_t bytes);
lh_status lh_tpl_built(lh_tpl_pool *pool, const lh_tpl_builder *b, lh_tpl_value *out); /* b is not used again */

/* Replace the first `count` occurrences of `from` (-1: all). */
typedef struct lh_tpl_change {
    const lh_tpl_text *from, *to;
    int64_t count;
} lh_tpl_change;
lh_status lh_tpl_replace(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_change *change, lh_tpl_value *out);

/* *out: a list. separator NULL: white space; at most `max` cuts from the left, -1: all. */
lh_status lh_tpl_split(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *separator, int64_t max,
                       lh_tpl_value *out);
lh_status lh_tpl_split_last(lh_tpl_pool *pool, const lh_tpl_text *text, const lh_tpl_text *separator, int64_t max,
                            lh_tpl_value *out);
lh_status lh_tpl_split_lines(lh_tpl_pool *pool, const lh_tpl_text *text, int keep_ends, lh_tpl_value *out);

/* The simple case mapping of every character; TITLE: upper case after characters that are no letters. */
typedef enum lh_tpl_case { LH_TPL_UPPER, LH_TPL_LOWER, LH_TPL_CAPITAL, LH_TPL_TITLE } lh_tpl_case;
lh_status lh_tpl_change_case(lh_tpl_pool *pool, const lh_tpl_text *text, lh_tpl_case to, lh_tpl_value *out);

/* ---- calls ---- */

/* self: the value that is filtered or tested, or the object of a method. */
typedef lh_status (*lh_tpl_call)(lh_tpl_pool *pool, lh_tpl_value self, const lh_tpl_args *args, lh_tpl_value *out);

/* A table of calls ends with {NULL, NULL}; NULL: an empty one. */
typedef struct lh_tpl_row {
    const char *name;
    lh_tpl_call call;
} lh_tpl_row;
lh_tpl_call lh_tpl_find_row(const lh_tpl_row *rows, const char *name);

/* LH_EINPUT unless it is a text, or an integer: "'who' needs …". */
lh_status lh_tpl_need_text(lh_tpl_value v, const char *who);
lh_status lh_tpl_need_int(lh_tpl_value v, const char *who);

#endif

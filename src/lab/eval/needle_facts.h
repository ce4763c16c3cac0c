/* needle_facts.h - facts in a text: their names, secrets and words of lists, drawn by the seed, and the sentences that
 * state them, inserted between sentences of a haystack that is cut to a number of tokens. Pure functions of their
 * arguments: the same texts on every machine. */
#ifndef LH_LAB_EVAL_NEEDLE_FACTS_H
#define LH_LAB_EVAL_NEEDLE_FACTS_H

#include "lab/eval/needle_kinds.h"
#include "text/chat.h"
#include "text/tokenizer.h"

/* What all prompts of a run have in common. */
typedef struct lh_needle_form {
    const char *haystack; /* text, NUL-terminated */
    int64_t haystack_bytes;
    lh_needle_kinds kinds;
    int64_t keys; /* needles of a prompt, 1 … LH_NEEDLE_KEYS, of all kinds in turn; the question asks for one. 0: the
                     question quotes the text, by the only kind */
    const lh_chat_format *format;
    const json_t *arguments;
    const char *system; /* the three as of lh_eval_prompt_text */
} lh_needle_form;

/* What identifies one prompt. */
typedef struct lh_needle_spec {
    int64_t length; /* maximum tokens, including the question */
    double depth;   /* position of the needle or of the quoted sentence: 0 the beginning of the haystack, 1 its end */
    uint64_t seed;  /* of secrets, names, and the part of the haystack that is used */
    int64_t kind;   /* of the needle that is asked for, a number of the form's kinds */
} lh_needle_spec;

/* One fact of a text. */
typedef struct lh_needle_fact {
    uint32_t number; /* among the facts of the prompt */
    int asked;       /* true: it was drawn with this number as `asked` */
    const char *name;
    char secret[64];
    const lh_needle_kind *kind;
    lh_buf sentence;
    double depth;       /* share of the haystack before it */
    int64_t at;         /* byte of the haystack at which it is inserted */
    int64_t begin, end; /* bytes of the text with all facts */
} lh_needle_fact;

/* Number of a fact, drawn by the seed. */
int64_t lh_needle_asked(const lh_needle_form *form, const lh_needle_spec *spec);

/* Draws the facts of a prompt, [form->keys], of all kinds in turn: number `asked` is of the spec's kind and at its
 * depth, the other facts are at random depths. `facts` is zero before; the caller clears it, also after a failure. */
lh_status lh_needle_facts_draw(lh_needle_fact *facts, const lh_needle_form *form, const lh_needle_spec *spec,
                               int64_t asked);
void lh_needle_facts_clear(lh_needle_fact *facts, int64_t n);

/* Appends the question for a fact, and its answer. */
lh_status lh_needle_fact_ask(const lh_needle_fact *fact, const lh_needle_form *form, const lh_needle_spec *spec,
                             lh_buf *question, lh_buf *answer);

/* Writes hay[0 … bytes] with the facts inserted at the sentence ends nearest to their depths, and sorts them by
 * position. */
lh_status lh_needle_facts_insert(lh_buf *text, const char *hay, int64_t bytes, lh_needle_fact *facts, int64_t n);

/* Writes the haystack rotated to the first sentence that begins after a position chosen by the seed; an empty line
 * separates its end from its beginning. number: of the position. */
lh_status lh_needle_rotate(lh_buf *hay, const lh_needle_form *form, const lh_needle_spec *spec, uint32_t number);

/* Finds how much of a haystack fits into a number of tokens. */
typedef struct lh_needle_fit {
    const lh_buf *hay;
    int64_t max;                                                   /* tokens */
    const char *rest;                                              /* the text besides the haystack, in a message */
    const char *option;                                            /* that sets `max` */
    lh_status (*make)(void *self, int64_t bytes, int64_t *tokens); /* with hay[0 … bytes] */
    void *self;
} lh_needle_fit;

/* Calls `make` until the longest haystack, cut between two words, has been made that does not exceed `max`; the last
 * call is with it. LH_EINPUT if all of the haystack is too short, LH_EUSAGE if no haystack is too long. */
lh_status lh_needle_fit_text(const lh_needle_fit *fit);

/* *out: tokens of the text from a byte on. */
lh_status lh_needle_tokens_from(const lh_tokenizer *tok, const lh_buf *text, int64_t byte, int64_t *out);

/* 1 if a sentence ends before byte `at`: '.', '!' or '?', closing quotes and brackets, then white space or the end. */
int lh_sentence_ends(const char *text, int64_t at);

#endif

/* needle_prompt.h - makes prompts of `needle`: a long text that contains sentences with secrets, and a question for one
 * of them (Kamradt, "Needle In A Haystack", 2023; several keys as in RULER, arXiv 2404.06654). Pure functions of their
 * arguments: the same prompts on every machine. */
#ifndef LH_LAB_EVAL_NEEDLE_PROMPT_H
#define LH_LAB_EVAL_NEEDLE_PROMPT_H

#include "lab/eval/questions.h"

enum { LH_NEEDLE_KEYS = 16 }; /* number of names */

/* What all prompts of a run have in common. */
typedef struct lh_needle_form {
    const char *haystack; /* text, NUL-terminated */
    int64_t haystack_bytes;
    const char *needle;   /* with {name} and {secret} */
    const char *question; /* with {name} */
    int64_t keys;         /* needles with different names, 1 … LH_NEEDLE_KEYS; the question asks for one needle */
    const lh_chat_format *format;
    const json_t *arguments;
    const char *system; /* the three as of lh_eval_prompt_text */
} lh_needle_form;

/* LH_EUSAGE if the needle has no {secret}, or {name} is missing with several keys. */
lh_status lh_needle_check(const lh_needle_form *form);

/* What identifies one prompt. */
typedef struct lh_needle_spec {
    int64_t length; /* maximum tokens, including the question */
    double depth;   /* position of the needle: 0 the beginning of the haystack, 1 its end */
    uint64_t seed;  /* of secrets, names, and the part of the haystack that is used */
} lh_needle_spec;

typedef struct lh_needle {
    lh_buf text;         /* haystack with needles */
    lh_buf question;     /* the question alone, without prefix or chat format */
    char *secret, *name; /* of the needle that is asked for */
    int64_t needle_at;   /* byte of `text` at which that needle begins */
    int64_t at_token;    /* number of prompt tokens before it */
    lh_eval_prompt prompt;
} lh_needle;

/* Makes a prompt with as much haystack as fits. Its text starts at a position chosen by the seed, wraps around from the
 * end to the beginning, and is cut between two words. Needles go between sentences: the one that is asked for at the
 * sentence end nearest to the depth, all other needles at random depths. LH_EINPUT if the haystack is too short,
 * LH_EUSAGE if the question alone exceeds the length. */
lh_status lh_needle_make(lh_needle *out, const lh_tokenizer *tok, const lh_needle_form *form,
                         const lh_needle_spec *spec);
void lh_needle_clear(lh_needle *needle);

/* 1 if a sentence ends before byte `at`: '.', '!' or '?', closing quotes and brackets, then white space or the end. */
int lh_sentence_ends(const char *text, int64_t at);

#endif

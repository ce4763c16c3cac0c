/* needle_prompt.h - a needle in a haystack: a long text with sentences in it that say secrets, and a question for one
 * of them (Kamradt, "Needle In A Haystack", 2023; several keys as in RULER, arXiv 2404.06654). Pure functions of their
 * arguments; the same on every machine. */
#ifndef LH_EVAL_NEEDLE_PROMPT_H
#define LH_EVAL_NEEDLE_PROMPT_H

#include "engine/prompt.h"

enum { LH_NEEDLE_KEYS = 16 }; /* names that there are */

/* How all prompts of a run are made. */
typedef struct lh_needle_form {
    const char *haystack; /* text, NUL-terminated */
    int64_t haystack_bytes;
    const char *needle;   /* with {name} and {secret} */
    const char *question; /* with {name} */
    int64_t keys;         /* needles with names of their own, one is asked for: 1 … LH_NEEDLE_KEYS */
    int chat;             /* in a chat format, as lh_prompt_text */
    const char *chat_template, *system;
} lh_needle_form;

/* LH_EUSAGE naming what cannot be: no {secret} in the needle, {name} missing where there are several keys. */
lh_status lh_needle_check(const lh_needle_form *form);

/* Which prompt. */
typedef struct lh_needle_spec {
    int64_t length; /* tokens, question included, at most */
    double depth;   /* where the needle is: 0 the beginning of the haystack, 1 its end */
    uint64_t seed;  /* secrets, names, and where in the haystack its text is taken from */
} lh_needle_spec;

typedef struct lh_needle {
    lh_buf text;         /* haystack with needles */
    lh_buf question;     /* what is asked, without what stands around it */
    char *secret, *name; /* of the needle that is asked for */
    int64_t needle_at;   /* byte of `text` where that needle begins */
    int64_t at_token;    /* and the tokens of the prompt before it */
    lh_tokens whole;     /* the prompt with the question */
    lh_tokens context;   /* the same, cut before the question … */
    lh_tokens question_ids;    /* … and the question */
} lh_needle;

/* As much haystack as fits: from a position that the seed chooses on, over the end to the beginning. It is cut between
 * two words; needles lie between two sentences, the one that is asked for as near to the depth as there is an end of a
 * sentence, the others anywhere. LH_EINPUT where the haystack is too short, LH_EUSAGE where the question alone is
 * longer than the length. */
lh_status lh_needle_make(lh_needle *out, const lh_tokenizer *tok, const lh_needle_form *form,
                         const lh_needle_spec *spec);
void lh_needle_clear(lh_needle *needle);

/* Behind byte `at` a sentence ends: '.', '!' or '?', closing quotes and brackets, then white space or the end. */
int lh_sentence_ends(const char *text, int64_t at);

#endif

/* needle_prompt.h - makes prompts of `needle`: a long text that contains sentences with secrets, and a question for one
 * of them (Kamradt, "Needle In A Haystack", 2023; several keys as in RULER, arXiv 2404.06654); and of `quote`: the
 * question asks for a sentence of the text itself, by its first words. Pure functions of their arguments: the same
 * prompts on every machine. */
#ifndef LH_LAB_EVAL_NEEDLE_PROMPT_H
#define LH_LAB_EVAL_NEEDLE_PROMPT_H

#include "lab/eval/needle_facts.h"
#include "lab/eval/questions.h"

typedef struct lh_needle {
    lh_buf text;         /* haystack with needles */
    lh_buf question;     /* the question alone, without prefix or chat format */
    char *secret, *name; /* of the needle that is asked for: its answer, and what {name} became; of a quoted sentence:
                            the words to say, and the first words */
    int64_t needle_at;   /* byte of `text` at which that needle or sentence begins */
    int64_t at_token;    /* number of prompt tokens before it */
    lh_eval_prompt prompt;
} lh_needle;

/* Makes a prompt with as much haystack as fits. Its text starts at a position chosen by the seed, wraps around from the
 * end to the beginning, and is cut between two words. Needles go between sentences: the one that is asked for at the
 * sentence end nearest to the depth, all other needles at random depths. The quoted sentence is the nearest one to the
 * depth with at least 10 words in one paragraph and five first words that no other place of the text has; these five
 * begin the model's answer, and up to 16 words that follow are the right answer; a text without one starts elsewhere.
 * LH_EINPUT if the haystack is too short, or 32 texts have no such sentence, LH_EUSAGE if the question alone exceeds
 * the length. */
lh_status lh_needle_make(lh_needle *out, const lh_tokenizer *tok, const lh_needle_form *form,
                         const lh_needle_spec *spec);
void lh_needle_clear(lh_needle *needle);

#endif

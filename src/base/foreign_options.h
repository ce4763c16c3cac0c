/* foreign_options.h - options of neighbouring tools (llama.cpp, vLLM, Transformers, kvpress and others), which people
 * type from habit, and what stands for them here. An unknown option is looked up in this table first. */
#ifndef LH_BASE_FOREIGN_OPTIONS_H
#define LH_BASE_FOREIGN_OPTIONS_H

typedef struct lh_foreign_option {
    const char *word; /* as it is typed, dashes included; a NULL word ends the table */
    const char *ours; /* name of the option that stands for it; the row holds for commands that have it */
    const char *note; /* what to mind; NULL: nothing */
    int needless;     /* 1: nothing has to stand for it where there is `ours`, and `note` says why */
} lh_foreign_option;

/* Of a word that has several rows the first one counts whose option the command has. */
extern const lh_foreign_option lh_foreign_options[];

#endif

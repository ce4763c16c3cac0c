/* documents.h - short documents with questions about them, from the published files of SQuAD (2.0, or 1.1) and of
 * HotpotQA (distractor setting): the questions of RULER's qa_1 and qa_2. */
#ifndef LH_LAB_EVAL_DOCUMENTS_H
#define LH_LAB_EVAL_DOCUMENTS_H

#include <stdint.h>

#include "base/mem.h"

/* Indices of documents. */
typedef struct lh_document_set {
    int64_t *at;
    int64_t n;
} lh_document_set;

typedef struct lh_document_question {
    char *query;
    char **answers; /* at least one */
    int64_t answer_count;
    lh_document_set gold;    /* those that come with the question */
    lh_document_set related; /* the other ones of the same article; empty for HotpotQA */
} lh_document_question;

typedef struct lh_documents {
    char **at; /* all different, in the order of their bytes */
    int64_t n;
    lh_document_question *questions; /* those that have an answer */
    int64_t question_count;
    uint64_t hash; /* of the file */
} lh_documents;

/* LH_EINPUT, naming the file and what it lacks. Clear *out also after a failure. */
lh_status lh_documents_squad(lh_documents *out, const char *path);
lh_status lh_documents_hotpot(lh_documents *out, const char *path);
void lh_documents_clear(lh_documents *documents);

#endif

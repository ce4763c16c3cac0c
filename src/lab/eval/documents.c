/* documents.c - reads the JSON of both data sets: first all documents, then the questions with the documents' places in
 * the sorted list. */
#include "lab/eval/documents.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "text/text_check.h"

static const int64_t FILE_BYTES = INT64_C(1) << 32;

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes over the text. */
static lh_status add_document(lh_documents *out, char *text)
{
    lh_status st = LH_OK;
    LH_TRY_DONE(lh_realloc(&out->at, out->n + 1, sizeof *out->at));
    out->at[out->n++] = text;
    text = NULL;
done:
    lh_free(text);
    return st;
}

static void sort_documents(lh_documents *out)
{
    int64_t n = 0;
    if (out->n) qsort(out->at, (size_t)out->n, sizeof *out->at, by_bytes);
    for (int64_t i = 0; i < out->n; i++) {
        if (n && strcmp(out->at[n - 1], out->at[i]) == 0)
            lh_free(out->at[i]);
        else
            out->at[n++] = out->at[i];
    }
    out->n = n;
}

static int64_t place_of(const lh_documents *documents, const char *text)
{
    char *const *found = bsearch(&text, documents->at, (size_t)documents->n, sizeof *documents->at, by_bytes);
    return found - documents->at;
}

static lh_status add_place(lh_document_set *set, int64_t place)
{
    for (int64_t i = 0; i < set->n; i++)
        if (set->at[i] == place) return LH_OK;
    LH_TRY(lh_realloc(&set->at, set->n + 1, sizeof *set->at));
    set->at[set->n++] = place;
    return LH_OK;
}

static lh_status add_answer(lh_document_question *question, const char *text)
{
    LH_TRY(lh_realloc(&question->answers, question->answer_count + 1, sizeof *question->answers));
    LH_TRY(lh_strdup(&question->answers[question->answer_count], text));
    question->answer_count++;
    return LH_OK;
}

/* A new question at the end, which the caller completes. */
static lh_status add_question(lh_documents *out, const char *query, lh_document_question **question)
{
    LH_TRY(lh_realloc(&out->questions, out->question_count + 1, sizeof *out->questions));
    *question = &out->questions[out->question_count++];
    **question = (lh_document_question){0};
    return lh_strdup(&(*question)->query, query);
}

static lh_status read_json(lh_documents *out, json_t **json, const char *path)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    LH_TRY_DONE(lh_file_read(&text, path, FILE_BYTES));
    LH_TRY_DONE(lh_text_check_kind(path, text.data, text.bytes));
    out->hash = lh_hash64(text.data, text.bytes);
    LH_TRY_DONE(lh_json_parse(json, path, text.data, text.bytes));
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status check_read(const lh_documents *out, const char *path, const char *set)
{
    if (out->question_count == 0)
        LH_FAIL(LH_EINPUT, "'%s' has no question with an answer: it is not the JSON file of %s", path, set);
    return LH_OK;
}

/* ---- SQuAD: {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers": [{"text"}]}]}]}]} ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static lh_status add_paragraphs(lh_documents *out, const json_t *articles)
{
    size_t i, k;
    json_t *article, *paragraph;
    json_array_foreach(articles, i, article) json_array_foreach(json_object_get(article, "paragraphs"), k, paragraph)
    {
        char *text = NULL;
        LH_TRY(lh_strdup(&text, text_of(paragraph, "context")));
        LH_TRY(add_document(out, text));
    }
    return LH_OK;
}

static lh_status add_squad_question(lh_documents *out, const json_t *article, const char *context, const json_t *qa)
{
    size_t i;
    json_t *answer, *paragraph;
    lh_document_question *question;
    const json_t *answers = json_object_get(qa, "answers");
    if (json_is_true(json_object_get(qa, "is_impossible")) || json_array_size(answers) == 0) return LH_OK;
    LH_TRY(add_question(out, text_of(qa, "question"), &question));
    json_array_foreach(answers, i, answer) LH_TRY(add_answer(question, text_of(answer, "text")));
    LH_TRY(add_place(&question->gold, place_of(out, context)));
    json_array_foreach(json_object_get(article, "paragraphs"), i, paragraph)
    {
        const int64_t place = place_of(out, text_of(paragraph, "context"));
        if (place != question->gold.at[0]) LH_TRY(add_place(&question->related, place));
    }
    return LH_OK;
}

lh_status lh_documents_squad(lh_documents *out, const char *path)
{
    lh_status st = LH_OK;
    json_t *json = NULL, *article, *paragraph, *qa;
    size_t i, k, q;
    LH_TRY_DONE(read_json(out, &json, path));
    const json_t *articles = json_object_get(json, "data");
    LH_TRY_DONE(add_paragraphs(out, articles));
    sort_documents(out);
    json_array_foreach(articles, i, article) json_array_foreach(json_object_get(article, "paragraphs"), k, paragraph)
        json_array_foreach(json_object_get(paragraph, "qas"), q, qa)
            LH_TRY_DONE(add_squad_question(out, article, text_of(paragraph, "context"), qa));
    LH_TRY_DONE(check_read(out, path, "SQuAD"));
done:
    json_decref(json);
    return st;
}

/* ---- HotpotQA: [{"question", "answer", "context": [[title, [sentence, …]], …]}] ---- */

/* The title, a line end, and the sentences. */
static lh_status hotpot_text(char **out, const json_t *document)
{
    lh_status st = LH_OK;
    lh_buf text = {0};
    size_t i;
    json_t *sentence;
    const char *title = json_string_value(json_array_get(document, 0));
    LH_TRY_DONE(lh_buf_printf(&text, "%s\n", title ? title : ""));
    json_array_foreach(json_array_get(document, 1), i, sentence)
        LH_TRY_DONE(lh_buf_append(&text, json_string_value(sentence), (int64_t)json_string_length(sentence)));
    *out = text.data;
    text = (lh_buf){0};
done:
    lh_buf_clear(&text);
    return st;
}

static lh_status add_hotpot_documents(lh_documents *out, const json_t *records)
{
    size_t i, k;
    json_t *record, *document;
    json_array_foreach(records, i, record) json_array_foreach(json_object_get(record, "context"), k, document)
    {
        char *text = NULL;
        LH_TRY(hotpot_text(&text, document));
        LH_TRY(add_document(out, text));
    }
    return LH_OK;
}

static lh_status add_hotpot_question(lh_documents *out, const json_t *record)
{
    size_t i;
    json_t *document;
    lh_document_question *question;
    if (!json_is_string(json_object_get(record, "answer"))) return LH_OK;
    LH_TRY(add_question(out, text_of(record, "question"), &question));
    LH_TRY(add_answer(question, text_of(record, "answer")));
    json_array_foreach(json_object_get(record, "context"), i, document)
    {
        char *text = NULL;
        LH_TRY(hotpot_text(&text, document));
        const int64_t place = place_of(out, text);
        lh_free(text);
        LH_TRY(add_place(&question->gold, place));
    }
    return LH_OK;
}

lh_status lh_documents_hotpot(lh_documents *out, const char *path)
{
    lh_status st = LH_OK;
    json_t *json = NULL, *record;
    size_t i;
    LH_TRY_DONE(read_json(out, &json, path));
    LH_TRY_DONE(add_hotpot_documents(out, json));
    sort_documents(out);
    json_array_foreach(json, i, record) LH_TRY_DONE(add_hotpot_question(out, record));
    LH_TRY_DONE(check_read(out, path, "HotpotQA"));
done:
    json_decref(json);
    return st;
}

void lh_documents_clear(lh_documents *documents)
{
    for (int64_t i = 0; i < documents->n; i++) lh_free(documents->at[i]);
    for (int64_t i = 0; i < documents->question_count; i++) {
        lh_document_question *question = &documents->questions[i];
        for (int64_t a = 0; a < question->answer_count; a++) lh_free(question->answers[a]);
        lh_free(question->answers);
        lh_free(question->query);
        lh_free(question->gold.at);
        lh_free(question->related.at);
    }
    lh_free(documents->at);
    lh_free(documents->questions);
    *documents = (lh_documents){0};
}

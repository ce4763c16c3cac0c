/* needle_kinds.c - reads and checks kinds of facts, and fills their templates. */
#include "lab/eval/needle_kinds.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/minmax.h"

/* ---- placeholders ---- */

enum { PLACE_BYTES = 64 }; /* of a placeholder's name, with its end */

/* The next "{word}" of a text from *at on: copies the word, and sets *begin and *end to its braces. 0: there is none.
 */
static int next_place(const char *text, int64_t at, char word[PLACE_BYTES], int64_t *begin, int64_t *end)
{
    for (const char *open = strchr(text + at, '{'); open; open = strchr(open + 1, '{')) {
        const size_t bytes = strcspn(open + 1, "{} ");
        if (open[1 + bytes] != '}' || bytes == 0 || bytes >= PLACE_BYTES) continue;
        memcpy(word, open + 1, bytes);
        word[bytes] = '\0';
        *begin = open - text;
        *end = *begin + (int64_t)bytes + 2;
        return 1;
    }
    return 0;
}

static int has_place(const char *text, const char *word)
{
    char other[PLACE_BYTES];
    for (int64_t begin, end = 0; next_place(text, end, other, &begin, &end);)
        if (strcmp(word, other) == 0) return 1;
    return 0;
}

/* ---- lists ---- */

/* Number of items: of an array, or of the numbers "from" to "to". */
static int64_t list_items(const json_t *list)
{
    if (json_is_array(list)) return (int64_t)json_array_size(list);
    return json_integer_value(json_object_get(list, "to")) - json_integer_value(json_object_get(list, "from")) + 1;
}

/* Number of different values of a placeholder; 0: nothing has this name. */
static int64_t values_of(const lh_needle_kinds *kinds, const char *word)
{
    const json_t *list = json_object_get(kinds->lists, word);
    if (strcmp(word, "name") == 0 || strcmp(word, "secret") == 0) return LH_NEEDLE_KEYS;
    return list ? list_items(list) : 0;
}

static lh_status put_item(lh_buf *out, const json_t *list, uint32_t number)
{
    const int64_t item = number % list_items(list);
    if (json_is_array(list)) return lh_buf_puts(out, json_string_value(json_array_get(list, (size_t)item)));
    return lh_buf_printf(out, "%lld", (long long)(json_integer_value(json_object_get(list, "from")) + item));
}

static lh_status put_value(lh_buf *out, const lh_needle_kinds *kinds, const char *word, const lh_needle_values *values)
{
    uint32_t number = 0;
    const char *key;
    json_t *list;
    if (strcmp(word, "name") == 0) return lh_buf_puts(out, values->name);
    if (strcmp(word, "secret") == 0) return lh_buf_puts(out, values->secret);
    json_object_foreach((json_t *)kinds->lists, key, list)
    {
        if (strcmp(key, word) == 0) return put_item(out, list, values->draw(values->self, number) + values->key);
        number++;
    }
    return lh_buf_printf(out, "{%s}", word);
}

lh_status lh_needle_fill(lh_buf *out, const lh_needle_kinds *kinds, const char *text, const lh_needle_values *values)
{
    char word[PLACE_BYTES];
    int64_t from = 0;
    for (int64_t begin, end; next_place(text, from, word, &begin, &end); from = end) {
        LH_TRY(lh_buf_append(out, text + from, begin - from));
        LH_TRY(put_value(out, kinds, word, values));
    }
    return lh_buf_puts(out, text + from);
}

/* ---- kinds ---- */

static lh_status add_kind(lh_needle_kinds *kinds, const lh_needle_kind *kind)
{
    LH_TRY(lh_realloc(&kinds->at, kinds->n + 1, sizeof *kinds->at));
    kinds->at[kinds->n++] = *kind;
    return LH_OK;
}

lh_status lh_needle_kinds_plain(lh_needle_kinds *out, const char *needle, const char *question)
{
    const lh_needle_kind kind = {"needle", needle, question, "{secret}"};
    *out = (lh_needle_kinds){0};
    if (!strstr(needle, "{secret}"))
        LH_FAIL(LH_EUSAGE, "'--needle' has no '{secret}' in it, where the secret goes, such as \"The secret passphrase "
                           "for the {name} is '{secret}'.\"");
    if (!*question) LH_FAIL(LH_EUSAGE, "'--question' is empty");
    return add_kind(out, &kind);
}

lh_status lh_needle_kinds_of_quotes(lh_needle_kinds *out, const char *question)
{
    const lh_needle_kind kind = {.name = "quote", .question = question};
    *out = (lh_needle_kinds){0};
    if (!strstr(question, "{name}"))
        LH_FAIL(LH_EUSAGE, "'--question' has no '{name}' in it, where the first words of the sentence go");
    return add_kind(out, &kind);
}

/* A list of the file: words, or numbers from one to another. */
static lh_status check_list(const char *path, const char *name, const json_t *list)
{
    char what[256];
    int64_t from = -1, to = -1;
    size_t i;
    json_t *item;
    snprintf(what, sizeof what, "%s: list '%s'", path, name);
    if (strcmp(name, "name") == 0 || strcmp(name, "secret") == 0)
        LH_FAIL(LH_EINPUT, "%s: a list is called '%s', which every template has without a list", path, name);
    if (!json_is_array(list)) {
        LH_TRY(lh_json_i64(list, what, "from", 0, 1 << 30, &from));
        LH_TRY(lh_json_i64(list, what, "to", 0, 1 << 30, &to));
        if (from < 0 || to < from)
            LH_FAIL(LH_EINPUT, "%s is neither an array of words nor {\"from\": N, \"to\": M}", what);
        return LH_OK;
    }
    if (json_array_size(list) == 0) LH_FAIL(LH_EINPUT, "%s is empty", what);
    json_array_foreach(list, i, item) if (json_string_length(item) == 0 ||
                                          strlen(json_string_value(item)) != json_string_length(item))
        LH_FAIL(LH_EINPUT, "%s: item %d is no word", what, (int)i + 1);
    return LH_OK;
}

/* A text of a kind; its placeholders exist. */
static lh_status get_text(const lh_needle_kinds *kinds, const char *what, const json_t *kind, const char *member,
                          const char **out)
{
    char word[PLACE_BYTES];
    LH_TRY(lh_json_string(kind, what, member, out));
    if (!*out || !**out) LH_FAIL(LH_EINPUT, "%s: '%s' is missing", what, member);
    for (int64_t begin, end = 0; next_place(*out, end, word, &begin, &end);)
        if (!values_of(kinds, word))
            LH_FAIL(LH_EINPUT, "%s: '%s' has {%s}, which is neither {name}, {secret} nor one of the 'lists'", what,
                    member, word);
    return LH_OK;
}

/* Question and answer say nothing that the fact does not, and the answer more than the question. */
static lh_status check_places(const char *what, const lh_needle_kind *kind)
{
    char word[PLACE_BYTES];
    int says_more = 0;
    for (int64_t begin, end = 0; next_place(kind->question, end, word, &begin, &end);)
        if (!has_place(kind->fact, word))
            LH_FAIL(LH_EINPUT, "%s: the question has {%s}, which the fact does not", what, word);
    for (int64_t begin, end = 0; next_place(kind->answer, end, word, &begin, &end);) {
        if (!has_place(kind->fact, word))
            LH_FAIL(LH_EINPUT, "%s: the answer has {%s}, which the fact does not", what, word);
        says_more |= !has_place(kind->question, word);
    }
    if (!says_more) LH_FAIL(LH_EINPUT, "%s: the answer is fixed, or in the question", what);
    return LH_OK;
}

static int is_name(const char *name)
{
    const size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return *name && !name[plain] && plain < LH_NEEDLE_KIND_BYTES && strcmp(name, "average") != 0;
}

static int is_item(const char *word, const char *item, size_t bytes)
{
    return word && strlen(word) == bytes && strncmp(word, item, bytes) == 0;
}

/* True if one of the items, which commas separate, is `word`. */
static int is_listed(const char *list, const char *word)
{
    for (const char *at = list; at;) {
        const size_t bytes = strcspn(at, ",");
        if (is_item(word, at, bytes)) return 1;
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    return 0;
}

static lh_status add_from_file(lh_needle_kinds *kinds, const char *path, const json_t *object, const char *wanted)
{
    char what[256];
    lh_needle_kind kind = {.name = ""};
    const char *name = NULL, *use = NULL;
    snprintf(what, sizeof what, "%s: one of 'kinds'", path);
    LH_TRY(lh_json_string(object, what, "name", &name));
    LH_TRY(lh_json_string(object, what, "for", &use));
    if (!name || !is_name(name))
        LH_FAIL(LH_EINPUT, "%s needs a 'name' of up to %d letters, digits, '-' and '_', not 'average'", what,
                LH_NEEDLE_KIND_BYTES - 1);
    for (int64_t i = 0; i < kinds->n; i++)
        if (strcmp(kinds->at[i].name, name) == 0) LH_FAIL(LH_EINPUT, "%s: two kinds are called '%s'", path, name);
    snprintf(kind.name, sizeof kind.name, "%s", name);
    snprintf(what, sizeof what, "%s: kind '%s'", path, name);
    LH_TRY(get_text(kinds, what, object, "fact", &kind.fact));
    LH_TRY(get_text(kinds, what, object, "question", &kind.question));
    LH_TRY(get_text(kinds, what, object, "answer", &kind.answer));
    LH_TRY(check_places(what, &kind));
    return !wanted || is_listed(wanted, name) || is_listed(wanted, use) ? add_kind(kinds, &kind) : LH_OK;
}

/* LH_EUSAGE for an item that is neither the name of a kind nor what a kind is for. */
static lh_status check_wanted(const char *path, const json_t *kinds, const char *wanted)
{
    size_t i;
    json_t *kind;
    for (const char *at = wanted; at;) {
        const size_t bytes = strcspn(at, ",");
        int found = 0;
        json_array_foreach(kinds, i, kind) found |=
            is_item(json_string_value(json_object_get(kind, "name")), at, bytes) ||
            is_item(json_string_value(json_object_get(kind, "for")), at, bytes);
        if (!found)
            LH_FAIL(LH_EUSAGE, "'--kinds': no kind of '%s' has the name '%.*s', or is for it", path, (int)bytes, at);
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    return LH_OK;
}

lh_status lh_needle_kinds_read(lh_needle_kinds *out, const char *path, const char *wanted, uint64_t *hash)
{
    enum { FILE_BYTES = 1 << 20 };
    lh_status st = LH_OK;
    size_t i;
    char *text = NULL;
    const char *name;
    json_t *list, *kind;
    *out = (lh_needle_kinds){0};
    LH_TRY_DONE(lh_json_read(&out->file, path, FILE_BYTES));
    LH_TRY_DONE(lh_json_dump(&text, out->file, JSON_COMPACT));
    *hash = lh_hash64(text, (int64_t)strlen(text));
    out->lists = lh_json_member(out->file, "lists");
    if (out->lists && !json_is_object(out->lists)) LH_FAIL_DONE(LH_EINPUT, "%s: 'lists' is no object", path);
    json_object_foreach((json_t *)out->lists, name, list) LH_TRY_DONE(check_list(path, name, list));
    const json_t *kinds = lh_json_member(out->file, "kinds");
    if (json_array_size(kinds) == 0) LH_FAIL_DONE(LH_EINPUT, "%s: 'kinds' is no array of kinds of facts", path);
    json_array_foreach(kinds, i, kind) LH_TRY_DONE(add_from_file(out, path, kind, wanted));
    LH_TRY_DONE(check_wanted(path, kinds, wanted));
done:
    lh_free(text);
    if (st != LH_OK) lh_needle_kinds_clear(out);
    return st;
}

void lh_needle_kinds_clear(lh_needle_kinds *kinds)
{
    lh_free(kinds->at);
    json_decref(kinds->file);
    *kinds = (lh_needle_kinds){0};
}

lh_status lh_needle_kinds_check(const lh_needle_kinds *kinds, int64_t keys)
{
    if (keys < 1 || keys > LH_NEEDLE_KEYS)
        LH_FAIL(LH_EUSAGE, "'--keys' must be from 1 to %d, the number of names", LH_NEEDLE_KEYS);
    for (int64_t k = 0; k < kinds->n && keys > 1; k++) {
        const lh_needle_kind *kind = &kinds->at[k];
        char word[PLACE_BYTES];
        int64_t most = 0;
        for (int64_t begin, end = 0; next_place(kind->question, end, word, &begin, &end);)
            if (has_place(kind->fact, word)) most = lh_max_i64(most, values_of(kinds, word));
        if (most >= keys) continue;
        if (!kinds->file)
            LH_FAIL(LH_EUSAGE,
                    "with '--keys %lld' both '--needle' and '--question' need a '{name}' to distinguish the keys",
                    (long long)keys);
        LH_FAIL(LH_EUSAGE,
                "'--keys %lld': the question of kind '%s' has no list of as many words to tell the facts apart",
                (long long)keys, kind->name);
    }
    return LH_OK;
}

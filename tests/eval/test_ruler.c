/* Prompts of RULER against its published definition (NVIDIA/RULER c3f5e3b; the second version: NeMo-Skills, ruler2),
 * and its scores. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/program.h"
#include "cli/tiny.h"
#include "import/tokenizer_source.h"
#include "lab/eval/synthetic_prompt.h"
#include "suite.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())
#define NOISE "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."

/* As squad.json and hotpotqa.json of the published scripts. */
static const char squad[] =
    "{\"version\": \"v2.0\", \"data\": [{\"title\": \"A\", \"paragraphs\": [{\"context\": \"The tower is red.\", "
    "\"qas\": [{\"question\": \"Which colour has the tower?\", \"is_impossible\": false, \"answers\": [{\"text\": "
    "\"red\", \"answer_start\": 13}, {\"text\": \"Red\", \"answer_start\": 13}]}, {\"question\": \"Who?\", "
    "\"is_impossible\": true, \"answers\": []}]}, {\"context\": \"Its door is low.\", \"qas\": []}]}, {\"title\": "
    "\"B\", \"paragraphs\": [{\"context\": \"A river is wide.\", \"qas\": [{\"question\": \"How wide?\", "
    "\"is_impossible\": false, \"answers\": [{\"text\": \"very\", \"answer_start\": 0}]}]}, {\"context\": \"Its door "
    "is low.\", \"qas\": []}, {\"context\": \"Fish.\", \"qas\": []}]}]}";
static const char hotpot[] =
    "[{\"_id\": \"1\", \"question\": \"Which came first?\", \"answer\": \"yes\", \"context\": [[\"One\", [\"A first. "
    "\", \"And more.\"]], [\"Two\", [\"A second.\"]]]}, {\"_id\": \"2\", \"question\": \"Who?\", \"answer\": "
    "\"nobody\", \"context\": [[\"Two\", [\"A second.\"]], [\"Three\", [\"A third.\"]]]}]";

static lh_synthetic_sources sources;

static const lh_synthetic_task *task_of(const char *name)
{
    for (const lh_synthetic_task *t = lh_ruler_tasks; t->name; t++)
        if (strcmp(t->name, name) == 0) return t;
    ck_abort_msg("no task '%s'", name);
}

static lh_tokenizer *open_tokenizer(const char *name)
{
    lh_tokenizer *tok = NULL;
    char path[1024];
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    snprintf(path, sizeof path, "%s/tokenizers/%s/tokenizer.json", folder ? folder : LH_TEST_DATA, name);
    if (strcmp(name, "tiny") == 0) {
        OK(lh_tokenizer_open(&tok, name));
    } else if (lh_file_exists(path)) {
        OK(lh_tokenizer_open(&tok, path));
    } else {
        printf("'%s' skipped\n", name);
    }
    return tok;
}

static int occurs(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) n++;
    return n;
}

static void make(lh_synthetic_sample *out, const lh_tokenizer *tok, const lh_chat_format *format,
                 lh_synthetic_spec spec)
{
    const lh_synthetic_form form = {&sources, tok, format, NULL, 0};
    OK(lh_synthetic_fit(&form, &spec));
    OK(lh_synthetic_make(out, &form, &spec));
}

/* A sample with the tokenizer of single bytes, as plain text. */
static lh_synthetic_sample sample_of(const char *name, int64_t length, uint64_t seed)
{
    lh_synthetic_sample s;
    lh_tokenizer *tok = open_tokenizer("tiny");
    make(&s, tok, NULL, (lh_synthetic_spec){.task = task_of(name), .length = length, .seed = seed});
    lh_tokenizer_close(tok);
    return s;
}

/* The text as words that are lines: its line ends become NULs. *n: their number. */
static char **lines_of(lh_buf *text, int *n)
{
    char **lines = NULL;
    *n = 0;
    for (char *at = text->data, *end; at; at = end ? end + 1 : NULL) {
        end = strchr(at, '\n');
        if (end) *end = '\0';
        lines = realloc(lines, (size_t)(*n + 1) * sizeof *lines);
        lines[(*n)++] = at;
    }
    return lines;
}

/* ---- all tasks ---- */

static char *decode(const lh_tokenizer *tok, const lh_tokens *ids)
{
    lh_buf text = {0};
    OK(lh_tokenizer_decode(tok, ids->ids, ids->n, &text));
    return text.data ? text.data : calloc(1, 1);
}

/* Prompt and answer fit into the length, and both scenarios say text, question and prefix. */
static void check_sample(const lh_tokenizer *tok, const lh_chat_format *format, const lh_synthetic_spec *spec)
{
    lh_synthetic_sample s;
    lh_buf expected = {0}, apart = {0};
    make(&s, tok, format, *spec);
    const int64_t tokens = lh_asked_prompt_max(&s.prompt) + spec->task->max_new;
    ck_assert_msg(tokens <= spec->length && tokens > spec->length - 120, "%s: %lld of %lld tokens", spec->task->name,
                  (long long)tokens, (long long)spec->length);
    const char *joint = strncmp(spec->task->name, "qa", 2) == 0 ? "\n\n" : "\n";
    OK(lh_buf_printf(&expected, "%s%s%s", s.text.data, joint, s.question.data));
    if (!format) OK(lh_buf_puts(&expected, s.prefix.data));
    char *whole = decode(tok, &s.prompt.whole), *context = decode(tok, &s.prompt.context),
         *question = decode(tok, &s.prompt.question);
    OK(lh_buf_printf(&apart, "%s%s", context, question));
    ck_assert_str_eq(whole, apart.data);
    ck_assert_ptr_nonnull(strstr(whole, expected.data));
    ck_assert(strlen(whole) >= (size_t)s.prefix.bytes);
    ck_assert_str_eq(whole + strlen(whole) - s.prefix.bytes, s.prefix.data);
    ck_assert_int_eq(
        strncmp(question + (format == NULL ? 0 : strspn(question, " ")), s.question.data, (size_t)s.question.bytes), 0);
    if (format) ck_assert_ptr_nonnull(strstr(question, "assistant\n"));
    free(whole);
    free(context);
    free(question);
    lh_buf_clear(&expected);
    lh_buf_clear(&apart);
    lh_synthetic_sample_clear(&s);
}

START_TEST(test_prompts_of_all_tasks_fit_and_say_the_same_in_both_scenarios)
{
    static const char *const names[] = {"tiny", "smollm2", "llama3"};
    for (int i = 0; i < 3; i++) {
        lh_tokenizer *tok = open_tokenizer(names[i]);
        const lh_chat_format *format = NULL;
        if (i == 0) OK(lh_chat_of(&format, tok));
        for (const lh_synthetic_task *t = lh_ruler_tasks; tok && t->name; t++)
            for (int chat = 0; chat <= (i == 0); chat++)
                check_sample(tok, chat ? format : NULL,
                             &(lh_synthetic_spec){.task = t, .length = i ? 2000 : 4090, .seed = 3});
        lh_chat_close(format);
        lh_tokenizer_close(tok);
    }
}
END_TEST

START_TEST(test_the_seed_makes_the_prompt)
{
    for (const lh_synthetic_task *t = lh_ruler_tasks; t->name; t++) {
        lh_synthetic_sample a = sample_of(t->name, 4000, 5), b = sample_of(t->name, 4000, 5),
                            c = sample_of(t->name, 4000, 6);
        ck_assert_str_eq(a.text.data, b.text.data);
        ck_assert_str_eq(a.expected.data, b.expected.data);
        ck_assert_msg(strcmp(a.text.data, c.text.data) != 0, "%s", t->name);
        lh_synthetic_sample_clear(&a);
        lh_synthetic_sample_clear(&b);
        lh_synthetic_sample_clear(&c);
    }
}
END_TEST

/* ---- needles ---- */

static int is_uuid(const char *text)
{
    static const char form[] = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
    for (int i = 0; form[i]; i++) {
        if (form[i] == 'x' && !(isdigit((unsigned char)text[i]) || (text[i] >= 'a' && text[i] <= 'f'))) return 0;
        if (form[i] == 'y' && !(text[i] && strchr("89ab", text[i]))) return 0;
        if ((form[i] == '-' || form[i] == '4') && text[i] != form[i]) return 0;
    }
    return 1;
}

static void check_value(const char *value, int digits)
{
    if (digits == 0)
        ck_assert_msg(is_uuid(value), "'%s' is no UUID", value);
    else
        ck_assert_msg((int)strspn(value, "0123456789") == digits && value[0] != '0', "'%s'", value);
}

static const struct {
    const char *name, *head, *question, *prefix; /* %s: key */
    int needles, digits;
} niah[] = {
    {"niah_single_1",
     "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the "
     "number afterwards.\n",
     "What is the special magic number for %s mentioned in the provided text?",
     " The special magic number for %s mentioned in the provided text is", 1, 7},
    {"niah_single_3",
     "A special magic uuid is hidden within the following text. Make sure to memorize it. I will quiz you about the "
     "uuid afterwards.\n",
     "What is the special magic uuid for %s mentioned in the provided text?",
     " The special magic uuid for %s mentioned in the provided text is", 1, 0},
    {"niah_multikey_1",
     "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the "
     "number afterwards.\n",
     "What is the special magic number for %s mentioned in the provided text?",
     " The special magic number for %s mentioned in the provided text is", 4, 7},
    {"niah_multivalue",
     "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you about "
     "the numbers afterwards.\n",
     "What are all the special magic numbers for %s mentioned in the provided text?",
     " The special magic numbers for %s mentioned in the provided text are", 4, 7},
    {"niah_multiquery",
     "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you about "
     "the numbers afterwards.\n",
     "What are all the special magic numbers for %s mentioned in the provided text?",
     " The special magic numbers for %s mentioned in the provided text are", 4, 7},
    {"mk_niah_basic",
     "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the "
     "number afterwards.\n",
     "What is the special magic number for %s mentioned in the provided text? The special magic number for %s "
     "mentioned "
     "in the provided text is",
     "", 0, 10},
    {"mv_niah_basic",
     "Some special magic numbers are hidden within the following text. Make sure to memorize them. I will quiz you "
     "about the numbers afterwards.\n",
     "What are all the special magic numbers for %s mentioned in the provided text? The special magic numbers for %s "
     "mentioned in the provided text are",
     "", 0, 10},
};

/* The template with each %s replaced. */
static char *filled(const char *template, const char *key)
{
    lh_buf out = {0};
    OK(lh_buf_puts(&out, ""));
    for (; *template; template ++) {
        if (strncmp(template, "%s", 2) == 0) {
            OK(lh_buf_puts(&out, key));
            template ++;
        } else {
            OK(lh_buf_append(&out, template, 1));
        }
    }
    return out.data;
}

START_TEST(test_needles_have_the_published_templates)
{
    for (size_t i = 0; i < sizeof niah / sizeof *niah; i++) {
        lh_synthetic_sample s = sample_of(niah[i].name, 4500, 7 + i);
        char query[512] = "";
        const char *from = strstr(s.question.data, " for ") + 5, *until = strstr(from, " mentioned");
        snprintf(query, sizeof query, "%.*s", (int)(until - from), from);
        char *question = filled(niah[i].question, query), *prefix = filled(niah[i].prefix, query);
        ck_assert_int_eq(strncmp(s.text.data, niah[i].head, strlen(niah[i].head)), 0);
        ck_assert_str_eq(s.question.data, question);
        ck_assert_str_eq(s.prefix.data, prefix);
        if (niah[i].needles) ck_assert_int_eq(occurs(s.text.data, "One of the special magic "), niah[i].needles);
        for (int64_t r = 0; r < s.reference_count; r++) {
            check_value(s.references[r], niah[i].digits);
            ck_assert_int_eq(occurs(s.text.data, s.references[r]), 1);
            ck_assert_ptr_nonnull(strstr(s.expected.data, s.references[r]));
        }
        free(question);
        free(prefix);
        lh_synthetic_sample_clear(&s);
    }
}
END_TEST

/* Each line that is a needle says a key and a value: those of the key that is asked for are the references. */
START_TEST(test_among_needles_only_the_asked_key_has_the_answers)
{
    static const struct {
        const char *name, *kind;
        int values;
    } cases[] = {{"niah_multikey_2", "numbers", 1},
                 {"niah_multikey_3", "uuids", 1},
                 {"mk_niah_basic", "numbers", 1},
                 {"mv_niah_basic", "numbers", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lh_synthetic_sample s = sample_of(cases[i].name, 6000, i);
        char start[128], key[64];
        int n, asked = 0, others = 0;
        sscanf(strstr(s.question.data, " for "), " for %63s", key);
        snprintf(start, sizeof start, "One of the special magic %s for ", cases[i].kind);
        char **lines = lines_of(&s.text, &n);
        ck_assert_int_eq(n, 1 + s.units + cases[i].values);
        for (int k = 1; k < n; k++) {
            char its[64], value[64];
            ck_assert_int_eq(strncmp(lines[k], start, strlen(start)), 0);
            ck_assert_int_eq(sscanf(lines[k] + strlen(start), "%63s is: %63[^.].", its, value), 2);
            int is_reference = 0, same = 0;
            for (int64_t r = 0; r < s.reference_count; r++) is_reference |= strcmp(value, s.references[r]) == 0;
            ck_assert_int_eq(is_reference, strcmp(its, key) == 0);
            asked += is_reference;
            for (int j = 1; j < n; j++) same += strstr(lines[j], its) != NULL;
            ck_assert_int_le(same, cases[i].values);
            others += same == cases[i].values;
        }
        ck_assert_int_eq(asked, cases[i].values);
        ck_assert_int_ge(others, n - 1 - cases[i].values); /* all keys have as many, but for the last one */
        free(lines);
        lh_synthetic_sample_clear(&s);
    }
}
END_TEST

START_TEST(test_four_queries_are_joined_as_published)
{
    lh_synthetic_sample s = sample_of("niah_multiquery", 4500, 1);
    char keys[4][64], line[512];
    ck_assert_int_eq(sscanf(strstr(s.question.data, " for "), " for %63[^,], %63[^,], %63[^,], and %63s", keys[0],
                            keys[1], keys[2], keys[3]),
                     4);
    for (int k = 0; k < 4; k++) {
        snprintf(line, sizeof line, "One of the special magic numbers for %s is: %s.", keys[k], s.references[k]);
        ck_assert_int_eq(occurs(s.text.data, line), 1);
    }
    lh_synthetic_sample_clear(&s);
}
END_TEST

/* Without its needles the context of the text is the text itself: its first words, joined by single blanks. */
START_TEST(test_the_haystack_is_the_text_with_needles_between_sentences)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        lh_synthetic_sample s = sample_of("niah_multivalue", 4500, seed);
        lh_buf bare = {0}, wanted = {0};
        const char *at = strchr(s.text.data, '\n') + 1;
        for (const char *needle; (needle = strstr(at, "One of the special"));
             at = strchr(strstr(needle, " is: "), '.') + 1) {
            /* the text may end within a sentence */
            ck_assert(needle[-1] == ' ' && (strchr("\n.!? ", needle[-2]) || strlen(strstr(needle, " is: ")) <= 14));
            OK(lh_buf_append(&bare, at, needle - at));
        }
        OK(lh_buf_puts(&bare, at));
        int words = 0;
        for (char *word = strtok(bare.data, " "); word; word = strtok(NULL, " "), words++)
            OK(lh_buf_printf(&wanted, "%s%s", words ? " " : "", word));
        ck_assert_int_eq(words, s.units);
        ck_assert_int_eq(strncmp(sources.text.data, wanted.data, (size_t)wanted.bytes), 0);
        lh_buf_clear(&bare);
        lh_buf_clear(&wanted);
        lh_synthetic_sample_clear(&s);
    }
}
END_TEST

/* A published sample (4,096 tokens of niah_multikey_3) has the lines, the question and the prefix of ours. */
START_TEST(test_a_published_sample_has_the_same_form)
{
    char path[1024];
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    lh_buf text = {0};
    json_t *record = NULL;
    snprintf(path, sizeof path, "%s/tasks/ruler-4096/niah_multikey_3.jsonl", folder ? folder : LH_TEST_DATA);
    if (!lh_file_exists(path)) {
        printf("'%s' skipped\n", path);
        return;
    }
    OK(lh_file_read(&text, path, 1 << 24));
    OK(lh_json_parse_line(&record, "line 1", text.data, (int64_t)strcspn(text.data, "\n")));
    lh_synthetic_sample ours = sample_of("niah_multikey_3", 6000, 0);
    lh_buf theirs = {0}, all = {0};
    int n, m;
    OK(lh_buf_puts(&theirs, json_string_value(json_object_get(record, "input"))));
    if (json_object_get(record, "answer_prefix"))
        OK(lh_buf_puts(&theirs, json_string_value(json_object_get(record, "answer_prefix"))));
    OK(lh_buf_printf(&all, "%s\n%s%s", ours.text.data, ours.question.data, ours.prefix.data));
    char **a = lines_of(&theirs, &n), **b = lines_of(&all, &m);
    ck_assert_str_eq(a[0], b[0]);
    for (int side = 0; side < 2; side++)
        for (int k = 1; k < (side ? m : n); k++) { /* the UUIDs become x */
            char *line = side ? b[k] : a[k];
            for (char *at = line; strlen(at) >= 36; at++)
                if (is_uuid(at)) memset(at, 'x', 36);
        }
    for (int k = 1; k < n - 1; k++) ck_assert_str_eq(a[k], b[1]);
    ck_assert_str_eq(a[n - 1], b[m - 1]);
    free(a);
    free(b);
    lh_buf_clear(&theirs);
    lh_buf_clear(&all);
    lh_buf_clear(&text);
    lh_synthetic_sample_clear(&ours);
    json_decref(record);
}
END_TEST

/* ---- tracking and aggregation ---- */

/* Checks the chain of assignments in lines of noise; `letters` of its names, which are appended to *names. */
static void check_chain(char **lines, int n, int letters, lh_buf *names, const char *value)
{
    char last[16] = "", line[64];
    int found = 0;
    for (int i = 0; i < n; i++) {
        char name[16];
        if (strcmp(lines[i], NOISE) == 0) continue;
        ck_assert_msg(sscanf(lines[i], "VAR %15[A-Z] = ", name) == 1, "'%s'", lines[i]);
        ck_assert_int_eq((int)strlen(name), letters);
        if (found)
            snprintf(line, sizeof line, "VAR %s = VAR %s ", name, last);
        else
            snprintf(line, sizeof line, "VAR %s = %s", name, value);
        ck_assert_str_eq(lines[i], line);
        OK(lh_buf_printf(names, " %s", name));
        memcpy(last, name, sizeof last);
        found++;
    }
    ck_assert_int_eq(found, 5);
}

START_TEST(test_tracking_shows_an_example_and_one_chain)
{
    static const char head[] = "Memorize and track the chain(s) of variable assignment hidden in the following text.";
    lh_synthetic_sample s = sample_of("vt", 4500, 11);
    lh_buf names = {0}, question = {0};
    int n, example = 0;
    char value[2][8];
    char **lines = lines_of(&s.text, &n);
    ck_assert_str_eq(lines[0], head);
    while (strncmp(lines[example], "Question: ", 10) != 0) example++;
    sscanf(strstr(lines[example], "the value "), "the value %5s", value[0]);
    sscanf(strstr(s.question.data, "the value "), "the value %5s", value[1]);
    check_chain(lines + 2, example - 2, 3, &names, value[0]);
    OK(lh_buf_printf(&question,
                     "Question: Find all variables that are assigned the value %s in the text above. Answer: According "
                     "to the chain(s) of variable assignment in the text above, 5 variables are assigned the value %s, "
                     "they are: %s",
                     value[0], value[0], names.data));
    ck_assert_str_eq(lines[example], question.data);
    ck_assert_str_eq(lines[example + 1], "");
    ck_assert_str_eq(lines[example + 2], head);
    ck_assert_str_eq(lines[example + 3], "");
    names.bytes = question.bytes = 0;
    check_chain(lines + example + 4, n - example - 4, 5, &names, value[1]);
    ck_assert_str_eq(s.expected.data, names.data);
    OK(lh_buf_printf(&question, "Question: Find all variables that are assigned the value %s in the text above.",
                     value[1]));
    ck_assert_str_eq(s.question.data, question.data);
    question.bytes = 0;
    OK(lh_buf_printf(&question,
                     " Answer: According to the chain(s) of variable assignment in the text above, 5 variables are "
                     "assigned the value %s, they are: ",
                     value[1]));
    ck_assert_str_eq(s.prefix.data, question.data);
    ck_assert_int_eq((int)s.units, n - example - 4 - 5);
    free(lines);
    lh_buf_clear(&names);
    lh_buf_clear(&question);
    lh_synthetic_sample_clear(&s);
}
END_TEST

/* Times that a word is in a numbered list. */
static int times_of(const char *list, const char *word)
{
    char item[96];
    int n = 0;
    size_t bytes = (size_t)snprintf(item, sizeof item, ". %s", word);
    for (const char *at = strstr(list, item); at; at = strstr(at + 1, item))
        n += at[bytes] == ' ' || at[bytes] == '\0' || at[bytes] == '\n';
    return n;
}

static void check_common(int64_t length, int common, int other, int example_words)
{
    static const char head[] = "Below is a numbered list of words. In these words, some appear more often than others. "
                               "Memorize the ones that appear most often.\n",
                      prefix[] = " Answer: The top 10 words that appear most often in the list are:";
    lh_synthetic_sample s = sample_of("cwe", length, 4);
    lh_buf end = {0};
    ck_assert_int_eq(occurs(s.text.data, head), 2);
    ck_assert_int_eq(strncmp(s.text.data, head, strlen(head)), 0);
    ck_assert_str_eq(s.question.data, "Question: What are the 10 most common words in the above list?");
    ck_assert_str_eq(s.prefix.data, prefix);
    OK(lh_buf_printf(&end, "%s%s 1. ", s.question.data, prefix));
    ck_assert_ptr_nonnull(strstr(s.text.data, end.data)); /* the answer to the example */
    char *list = strstr(s.text.data + 1, head) + strlen(head);
    int total = 0, numbers = 0;
    ck_assert_int_eq((int)s.reference_count, 10);
    for (int r = 0; r < 10; r++) ck_assert_int_eq(times_of(list, s.references[r]), common);
    for (char *at = list; *at; total++) { /* "17. word " */
        char word[64];
        int number, bytes;
        ck_assert_int_eq(sscanf(at, "%d. %63s%n", &number, word, &bytes), 2);
        ck_assert_int_eq(number, ++numbers);
        int is_common = 0;
        for (int r = 0; r < 10; r++) is_common |= strcmp(word, s.references[r]) == 0;
        ck_assert_int_eq(times_of(list, word), is_common ? common : other);
        at += bytes + (at[bytes] == ' ');
    }
    ck_assert_int_eq(total, 10 * common + ((int)s.units - 10) * other);
    *strchr(s.text.data + strlen(head), '\n') = '\0'; /* the list of the example */
    ck_assert_int_eq(occurs(s.text.data + strlen(head), ". "), example_words);
    lh_buf_clear(&end);
    lh_synthetic_sample_clear(&s);
}

START_TEST(test_common_words_are_as_frequent_as_published)
{
    check_common(4000, 6, 1, 10 * 3 + 10 * 1);
    check_common(12000, 30, 3, 10 * 10 + 30 * 3);
}
END_TEST

START_TEST(test_coded_words_follow_the_zeta_distribution)
{
    static const char head[] =
        "Read the following coded text and track the frequency of each coded word. Find the three "
        "most frequently appeared coded words. ";
    static const double zeta = 1.6449340668482264;
    lh_synthetic_sample s = sample_of("fwe", 6000, 2);
    int times[4], longest = 0;
    ck_assert_int_eq(strncmp(s.text.data, head, strlen(head)), 0);
    ck_assert_str_eq(s.question.data,
                     "Question: Do not provide any explanation. Please ignore the dots '....'. What are "
                     "the three most frequently appeared words in the above coded text?");
    ck_assert_str_eq(s.prefix.data, " Answer: According to the coded text above, the three most frequently appeared "
                                    "words are:");
    times[0] = occurs(s.text.data + strlen(head), "...");
    for (int r = 0; r < 3; r++) {
        ck_assert_int_eq((int)strspn(s.references[r], "abcdefghijklmnopqrstuvwxyz"), 6);
        times[r + 1] = occurs(s.text.data, s.references[r]);
    }
    for (int k = 0; k < 4; k++) ck_assert_int_eq(times[k], (int)((double)s.units / (zeta * (k + 1) * (k + 1))));
    for (char *word = strtok(s.text.data + strlen(head), " "); word; word = strtok(NULL, " ")) longest++;
    ck_assert_int_gt(longest, times[0] + times[1] + times[2] + times[3]);
    lh_synthetic_sample_clear(&s);
}
END_TEST

/* ---- questions ---- */

static void check_documents(const char *name, uint64_t seed, const char *query, const char *gold)
{
    static const char rule[] =
        "Answer the question based on the given documents. Only give me the answer and do not output "
        "any other words.\n\n";
    lh_synthetic_sample s = sample_of(name, 900, seed);
    lh_buf expected = {0};
    OK(lh_buf_printf(&expected, "%sThe following are given documents.\n\nDocument 1:\n", rule));
    ck_assert_int_eq(strncmp(s.text.data, expected.data, (size_t)expected.bytes), 0);
    ck_assert_int_eq(occurs(s.text.data, "Document "), (int)s.units);
    ck_assert_ptr_nonnull(strstr(s.text.data, gold));
    expected.bytes = 0;
    OK(lh_buf_printf(&expected, "%sQuestion: %s", rule, query));
    ck_assert_str_eq(s.question.data, expected.data);
    ck_assert_str_eq(s.prefix.data, " Answer:");
    lh_buf_clear(&expected);
    lh_synthetic_sample_clear(&s);
}

START_TEST(test_questions_have_their_documents)
{
    ck_assert_int_eq((int)sources.squad.n, 4); /* one stands twice */
    ck_assert_int_eq((int)sources.squad.question_count, 2);
    ck_assert_int_eq((int)sources.squad.questions[0].answer_count, 2);
    ck_assert_int_eq((int)sources.squad.questions[1].related.n, 2);
    ck_assert_int_eq((int)sources.hotpot.n, 3);
    ck_assert_str_eq(sources.hotpot.at[0], "One\nA first. And more.");
    check_documents("qa_1", 0, "Which colour has the tower?", ":\nThe tower is red.");
    check_documents("qa_1", 3, "How wide?", ":\nA river is wide.");
    check_documents("qa_2", 0, "Which came first?", ":\nOne\nA first. And more.");
}
END_TEST

/* ---- scores, by hand from string_match_all and string_match_part ---- */

START_TEST(test_scores_are_the_published_ones)
{
    static const struct {
        const char *references[3], *answer;
        int part;
        double score;
    } cases[] = {{{"123", "456"}, " 123 and 456.", 0, 100},
                 {{"123", "456"}, "456", 0, 50},
                 {{"123", "456", "789"}, "x1234x", 0, 100.0 / 3},
                 {{"Amber-Acorn"}, "the AMBER-acorn", 0, 100},
                 {{"one two"}, "one\ttwo", 0, 0}, /* control characters are line ends */
                 {{"one\ntwo"}, "one\ttwo", 0, 100},
                 {{"end "}, "the end \n", 0, 0}, /* the answer is stripped */
                 {{"red", "blue"}, "It is blue", 1, 100},
                 {{"red", "blue"}, "green", 1, 0},
                 {{"\xC3\x89t\xC3\xA9"}, "l'\xC3\xA9t\xC3\xA9", 1, 100},
                 {{"x"}, "", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *references[3];
        lh_synthetic_sample s = {.references = references};
        double score = -1;
        for (int r = 0; r < 3 && cases[i].references[r]; r++) {
            references[r] = (char *)(uintptr_t)cases[i].references[r];
            s.reference_count++;
        }
        OK(lh_synthetic_score(&s, task_of(cases[i].part ? "qa_1" : "vt"), cases[i].answer, &score));
        ck_assert_msg(score > cases[i].score - 1e-9 && score < cases[i].score + 1e-9, "case %zu: %g", i, score);
    }
}
END_TEST

START_TEST(test_what_cannot_be_made_is_refused)
{
    lh_tokenizer *tok = open_tokenizer("tiny");
    lh_documents none = {0};
    const lh_synthetic_form form = {&sources, tok, NULL, NULL, 0};
    ck_assert_int_eq(lh_synthetic_fit(&form, &(lh_synthetic_spec){.task = task_of("vt"), .length = 600}), LH_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "task 'vt'"));
    ck_assert_int_eq(lh_documents_squad(&none, "hotpot.json"), LH_EINPUT);
    ck_assert_ptr_nonnull(strstr(lh_error_message(), "SQuAD"));
    lh_documents_clear(&none);
    ck_assert_int_eq(lh_documents_hotpot(&none, "squad.json"), LH_EINPUT);
    lh_documents_clear(&none);
    lh_tokenizer_close(tok);
}
END_TEST

static void make_sources(void)
{
    lh_buf text = {0};
    tiny_sentences(&text);
    program_file("squad.json", squad);
    program_file("hotpot.json", hotpot);
    program_must(lh_synthetic_sources_text(&sources, &text) == LH_OK, "text");
    program_must(lh_documents_squad(&sources.squad, "squad.json") == LH_OK, "SQuAD");
    program_must(lh_documents_hotpot(&sources.hotpot, "hotpot.json") == LH_OK, "HotpotQA");
    lh_buf_clear(&text);
}

int main(void)
{
    const TTest *const tests[] = {test_prompts_of_all_tasks_fit_and_say_the_same_in_both_scenarios,
                                  test_the_seed_makes_the_prompt,
                                  test_needles_have_the_published_templates,
                                  test_among_needles_only_the_asked_key_has_the_answers,
                                  test_four_queries_are_joined_as_published,
                                  test_the_haystack_is_the_text_with_needles_between_sentences,
                                  test_a_published_sample_has_the_same_form,
                                  test_tracking_shows_an_example_and_one_chain,
                                  test_common_words_are_as_frequent_as_published,
                                  test_coded_words_follow_the_zeta_distribution,
                                  test_questions_have_their_documents,
                                  test_scores_are_the_published_ones,
                                  test_what_cannot_be_made_is_refused,
                                  NULL};
    program_enter();
    tiny_write("tiny");
    make_sources();
    int code = suite_run("ruler", tests);
    lh_synthetic_sources_clear(&sources);
    program_leave();
    return code;
}

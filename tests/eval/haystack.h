/* haystack.h - tokenizers and a text for tests of prompts with facts. */
#ifndef LH_TESTS_EVAL_HAYSTACK_H
#define LH_TESTS_EVAL_HAYSTACK_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "import/tokenizer_source.h"
#include "text/tokenizer.h"

#define OK(call) ck_assert_msg((call) == LH_OK, "%s", lh_error_message())

/* Tokenizers: the one of single bytes, then those of the data folder that are there. `slack`: tokens that a word has at
 * most, by which a prompt may be shorter than it could be. */
static const struct {
    const char *name; /* a folder of the data's tokenizers */
    int chat;         /* it has a chat format */
    int64_t slack;
} tokenizers[] = {{"tiny", 1, 14}, {"smollm2", 0, 8}, {"llama3", 0, 8}, {"codellama", 0, 8}, {"gemma2", 0, 8}};
enum { TOKENIZERS = sizeof tokenizers / sizeof *tokenizers };

static lh_tokenizer *open_tokenizer(int i)
{
    lh_tokenizer *tok = NULL;
    char path[1024];
    const char *folder = getenv("LONGHAUL_TEST_DATA");
    snprintf(path, sizeof path, "%s/tokenizers/%s/tokenizer.json", folder ? folder : LH_TEST_DATA, tokenizers[i].name);
    if (i > 0 && !lh_file_exists(path)) {
        printf("'%s' skipped\n", tokenizers[i].name);
        return NULL;
    }
    OK(lh_tokenizer_open(&tok, i ? path : tokenizers[i].name));
    return tok;
}

/* A text of sentences that are all different. */
static char *make_haystack(int sentences)
{
    lh_buf text = {0};
    static const char *const ends[] = {". ", "? ", "!\" ", ".)\n\n", "... "};
    for (int i = 0; i < sentences; i++)
        OK(lh_buf_printf(&text, "%sentence %d has some words, e.g%d%% of café-talk: it's No.%d%s", i % 7 ? "S" : "\"S",
                         i, i * i % 97, i, ends[i % 5]));
    return text.data;
}

static int occurs(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) n++;
    return n;
}

#endif

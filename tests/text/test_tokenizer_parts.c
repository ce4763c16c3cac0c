/* Pre-tokenizers, normalizers and decoders by themselves; expected values are those of Hugging Face's tokenizers. */
#include <stdlib.h>

#include "base/unicode.h"
#include "suite.h"
#include "text/pretok.h"
#include "text/tokenizer_impl.h"
#include "tiny_tokenizers.h"

static json_t *spec_of(const char *text)
{
    char *json = tt_json(text);
    json_t *spec = json_loads(json, JSON_DECODE_ANY, NULL);
    ck_assert_msg(spec != NULL, "%s", text);
    lh_free(json);
    return spec;
}

/* Words with | between them. */
static lh_buf joined(const lh_words *words)
{
    lh_buf out = {0};
    lh_buf_puts(&out, "");
    for (int64_t i = 0, start = 0; i < words->n; start = words->ends[i++]) {
        if (i) lh_buf_puts(&out, "|");
        lh_buf_append(&out, words->text.data + start, words->ends[i] - start);
    }
    return out;
}

START_TEST(test_pre_tokenizers)
{
    static const struct {
        const char *spec, *text, *words;
        lh_place place;
    } rows[] = {
        {"{'type': 'Split', 'pattern': {'String': '-'}, 'behavior': 'Removed'}", "a-b--c", "a|b|c", 0},
        {"{'type': 'Split', 'pattern': {'String': '-'}, 'behavior': 'Isolated'}", "a-b--c", "a|-|b|-|-|c", 0},
        {"{'type': 'Split', 'pattern': {'String': '-'}, 'behavior': 'MergedWithPrevious'}", "a-b--c", "a-|b-|-|c", 0},
        {"{'type': 'Split', 'pattern': {'String': '-'}, 'behavior': 'MergedWithNext'}", "a-b--c", "a|-b|-|-c", 0},
        {"{'type': 'Split', 'pattern': {'String': '-'}, 'behavior': 'Contiguous'}", "a-b--c", "a|-|b|--|c", 0},
        {"{'type': 'Split', 'pattern': {'Regex': '[a-z]+'}, 'behavior': 'Removed', 'invert': true}", "ab1cd2", "ab|cd",
         0},
        {"{'type': 'Split', 'pattern': {'Regex': '(?=([0-9]{3})+(?![0-9]))'}, 'behavior': 'Isolated'}", "1234567",
         "1|234|567", 0},
        {"{'type': 'Digits', 'individual_digits': true}", "a12b", "a|1|2|b", 0},
        {"{'type': 'Digits', 'individual_digits': false}", "a12½b", "a|12½|b", 0},
        {"{'type': 'Whitespace'}", "Hey friend!   How\u00a0é", "Hey|friend|!|How|é", 0},
        {"{'type': 'WhitespaceSplit'}", "Hey friend!\u3000x\u180ey", "Hey|friend!|x\u180ey", 0},
        {"{'type': 'Punctuation'}", "a,b+c…", "a|,|b|+|c|…", 0},
        {"{'type': 'Punctuation', 'behavior': 'Contiguous'}", "a,+b", "a|,+|b", 0},
        {"{'type': 'CharDelimiterSplit', 'delimiter': 'x'}", "axbxc", "a|b|c", 0},
        {"{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always'}", "a b", "▁a|▁b", LH_PLACE_LATER},
        {"{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first'}", "a b", "a|▁b", LH_PLACE_LATER},
        {"{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first', 'split': false}", "a b", "▁a▁b",
         LH_PLACE_START},
        {"{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first', 'split': false}", " a", "▁a",
         LH_PLACE_START},
        {"{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always'}", "a", "a", LH_PLACE_CONTINUES},
        {"{'type': 'Metaspace', 'replacement': '_', 'add_prefix_space': false}", "a b", "a|_b", 0},
        {"{'type': 'ByteLevel', 'add_prefix_space': false}", "Hello my 'll  x", "Hello|Ġmy|Ġ'|ll|Ġ|Ġx", 0},
        {"{'type': 'ByteLevel', 'add_prefix_space': true, 'use_regex': false}", "é\n", "ĠÃ©Ċ", 0},
        {"{'type': 'Sequence', 'pretokenizers': [{'type': 'WhitespaceSplit'}, {'type': 'Digits', 'individual_digits': "
         "true}]}",
         "a1 22", "a|1|2|2", 0},
        {"{'type': 'Split', 'pattern': {'Regex': '\\\\s+|\\\\w+|[^\\\\s\\\\w]'}, 'behavior': 'Isolated'}",
         "e\u0301_1 \u180e!", "e\u0301_1| |\u180e|!", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *spec = spec_of(rows[i].spec);
        lh_pretok *pretok = NULL;
        lh_matcher *matcher = NULL;
        lh_words words = {0}, spare = {0};
        ck_assert_msg(lh_pretok_parse(&pretok, "test", spec) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(lh_matcher_open(&matcher, 0), LH_OK);
        ck_assert_int_eq(lh_words_add(&words, rows[i].text, (int64_t)strlen(rows[i].text)), LH_OK);
        ck_assert_int_eq(lh_pretok_run(pretok, matcher, rows[i].place, &words, &spare), LH_OK);
        lh_buf got = joined(&words);
        ck_assert_msg(strcmp(got.data, rows[i].words) == 0, "%s of '%s': wanted %s, got %s", rows[i].spec, rows[i].text,
                      rows[i].words, got.data);
        lh_buf_clear(&got);
        lh_words_clear(&words), lh_words_clear(&spare);
        lh_matcher_close(matcher);
        lh_pretok_free(pretok);
        json_decref(spec);
    }
}
END_TEST

START_TEST(test_normalizers)
{
    static const struct {
        const char *spec, *text, *gives;
    } rows[] = {
        {"{'type': 'NFC'}", "e\u0301\u212b", "é\u00c5"},
        {"{'type': 'NFD'}", "é", "e\u0301"},
        {"{'type': 'NFKC'}", "ﬁ½", "fi1\u20442"},
        {"{'type': 'NFKD'}", "é①", "e\u03011"},
        {"{'type': 'Lowercase'}", "ÀİΣ", "ài\u0307σ"},
        {"{'type': 'Strip', 'strip_left': true, 'strip_right': true}", " \u3000a b\n", "a b"},
        {"{'type': 'Strip', 'strip_left': false}", " a ", " a"},
        {"{'type': 'StripAccents'}", "e\u0301x", "ex"},
        {"{'type': 'Replace', 'pattern': {'String': 'aa'}, 'content': 'b'}", "aaaaa", "bba"},
        {"{'type': 'Replace', 'pattern': {'Regex': ' +'}, 'content': '_'}", "a  b c", "a_b_c"},
        {"{'type': 'Prepend', 'prepend': '▁'}", "a", "▁a"},
        {"{'type': 'Prepend', 'prepend': '▁'}", "", ""},
        {"{'type': 'Sequence', 'normalizers': [{'type': 'Lowercase'}, {'type': 'Prepend', 'prepend': 'X'}]}", "AB",
         "Xab"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *spec = spec_of(rows[i].spec);
        lh_norm *norm = NULL;
        lh_matcher *matcher = NULL;
        lh_buf text = {0}, spare = {0};
        ck_assert_msg(lh_norm_parse(&norm, "test", spec) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(lh_matcher_open(&matcher, 0), LH_OK);
        lh_buf_puts(&text, rows[i].text);
        ck_assert_int_eq(lh_norm_run(norm, matcher, LH_PLACE_START, &text, &spare), LH_OK);
        ck_assert_msg(strcmp(text.data, rows[i].gives) == 0, "%s of '%s': wanted %s, got %s", rows[i].spec,
                      rows[i].text, rows[i].gives, text.data);
        lh_buf_clear(&text), lh_buf_clear(&spare);
        lh_matcher_close(matcher);
        lh_norm_free(norm);
        json_decref(spec);
    }
}
END_TEST

START_TEST(test_decoders)
{
    static const struct {
        const char *spec, *pieces[6], *gives;
    } rows[] = {
        {"null", {"a", "b"}, "a b"},
        {"{'type': 'ByteLevel'}", {"Hello", "Ġmy", "ðŁĻ", "Ĥ"}, "Hello my🙂"},
        {"{'type': 'ByteLevel'}",
         {"ðŁĻ", "a b"},
         "\xEF\xBF\xBD"
         "a b"},
        {"{'type': 'Sequence', 'decoders': [{'type': 'ByteFallback'}, {'type': 'Fuse'}]}",
         {"a", "<0xE2>", "<0x82>", "<0xAC>", "b"},
         "a€b"},
        {"{'type': 'Sequence', 'decoders': [{'type': 'ByteFallback'}, {'type': 'Fuse'}]}",
         {"a", "<0xE2>", "<0x82>", "b"},
         "a\xEF\xBF\xBD\xEF\xBF\xBD"
         "b"},
        {"{'type': 'Strip', 'content': 'H', 'start': 1, 'stop': 0}", {"HHey", "Hi"}, "Heyi"},
        {"{'type': 'Strip', 'content': 'y', 'start': 0, 'stop': 2}", {"Heyyy", "i"}, "Heyi"},
        {"{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always'}", {"▁Hey", "▁you▁"}, "Hey you "},
        {"{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'never'}", {"▁Hey", "▁you"}, " Hey you"},
        {"{'type': 'Replace', 'pattern': {'String': '_'}, 'content': ' '}", {"_a", "b_"}, " ab "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *json = tt_json(rows[i].spec);
        json_t *spec = json_loads(json, JSON_DECODE_ANY, NULL);
        lh_decoder *decoder = NULL;
        lh_matcher *matcher = NULL;
        lh_words pieces = {0}, spare = {0};
        ck_assert_msg(lh_decoder_parse(&decoder, "test", spec) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(lh_matcher_open(&matcher, 0), LH_OK);
        for (int k = 0; k < 6 && rows[i].pieces[k]; k++)
            lh_words_add(&pieces, rows[i].pieces[k], (int64_t)strlen(rows[i].pieces[k]));
        ck_assert_int_eq(lh_decoder_run(decoder, &(lh_decoder_work){.matcher = matcher}, &pieces, &spare), LH_OK);
        ck_assert_msg(strcmp(pieces.text.data, rows[i].gives) == 0, "%s: wanted %s, got %s", rows[i].spec,
                      rows[i].gives, pieces.text.data);
        lh_words_clear(&pieces), lh_words_clear(&spare);
        lh_matcher_close(matcher);
        lh_decoder_free(decoder);
        json_decref(spec);
        lh_free(json);
    }
}
END_TEST

/* n parts in one Sequence, within `depth` more of them. */
static json_t *nested(const char *list, const char *part, int n, int depth)
{
    json_t *spec = json_pack("{s:s, s:[]}", "type", "Sequence", list);
    for (int i = 0; i < n; i++) json_array_append_new(json_object_get(spec, list), json_pack("{s:s}", "type", part));
    for (int i = 0; i < depth; i++) spec = json_pack("{s:s, s:[o]}", "type", "Sequence", list, spec);
    return spec;
}

/* Pieces that follow other text keep what is stripped at the start of one; bytes of a character stay bytes. */
START_TEST(test_decoders_know_where_pieces_stand)
{
#define STRIPS                                                                                              \
    "{'type': 'Sequence', 'decoders': [{'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}, " \
    "{'type': 'ByteFallback'}, {'type': 'Fuse'}, {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]}"
    static const struct {
        const char *spec, *piece, *text, *later, *bytes;
    } rows[] = {
        {STRIPS, "▁▁a", " a", "  a", "  a"},
        {STRIPS, "<0xF0>", "\xEF\xBF\xBD", "\xEF\xBF\xBD", "\xF0"},
        {"{'type': 'Metaspace'}", "▁a", "a", " a", " a"},
        {"{'type': 'Metaspace', 'prepend_scheme': 'never'}", "▁a", " a", " a", " a"},
        {"{'type': 'ByteLevel'}", "Ġa", " a", " a", " a"},
        {"{'type': 'ByteLevel'}", "ð", "\xEF\xBF\xBD", "\xEF\xBF\xBD", "\xF0"},
        {"{'type': 'Strip', 'content': 'x', 'start': 1, 'stop': 0}", "xa", "a", "a", "a"}, /* of every piece */
        {"null", "a", "a", " a", " a"},                                                    /* joined by spaces */
    };
    static const lh_decoding how[] = {LH_DECODING_TEXT, LH_DECODING_CONTINUES,
                                      LH_DECODING_CONTINUES | LH_DECODING_BYTES};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *spec = spec_of(rows[i].spec);
        lh_decoder *decoder = NULL;
        ck_assert_msg(lh_decoder_parse(&decoder, "test", spec) == LH_OK, "%s", lh_error_message());
        for (int k = 0; k < 3; k++) {
            const char *want = k == 0 ? rows[i].text : k == 1 ? rows[i].later : rows[i].bytes;
            lh_words pieces = {0}, spare = {0};
            lh_decoder_work work = {.how = how[k]};
            ck_assert_int_eq(lh_matcher_open(&work.matcher, 0), LH_OK);
            lh_words_add(&pieces, rows[i].piece, (int64_t)strlen(rows[i].piece));
            ck_assert_int_eq(lh_decoder_run(decoder, &work, &pieces, &spare), LH_OK);
            ck_assert_msg(strcmp(pieces.text.data, want) == 0, "%s %d: wanted '%s', got '%s'", rows[i].spec, k, want,
                          pieces.text.data);
            lh_words_clear(&pieces), lh_words_clear(&spare);
            lh_matcher_close(work.matcher);
        }
        lh_decoder_free(decoder);
        json_decref(spec);
    }
}
END_TEST

START_TEST(test_sequences_have_an_end)
{
    static const struct {
        int n, depth;
        const char *says;
    } rows[] = {{64, 15, NULL}, {65, 0, "more than 64 steps"}, {1, 16, "nested too deep"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *norms = nested("normalizers", "Lowercase", rows[i].n, rows[i].depth),
               *decoders = nested("decoders", "Fuse", rows[i].n, rows[i].depth),
               *pretoks = nested("pretokenizers", "ByteLevel", rows[i].n, rows[i].depth);
        lh_norm *norm = NULL;
        lh_decoder *decoder = NULL;
        lh_pretok *pretok = NULL;
        const lh_status want = rows[i].says ? LH_EINPUT : LH_OK;
        ck_assert_int_eq(lh_norm_parse(&norm, "test", norms), want);
        if (rows[i].says) ck_assert(strstr(lh_error_message(), rows[i].says) && strstr(lh_error_message(), "'test'"));
        ck_assert_int_eq(lh_decoder_parse(&decoder, "test", decoders), want);
        ck_assert_int_eq(lh_pretok_parse(&pretok, "test", pretoks), want);
        if (rows[i].says) ck_assert(strstr(lh_error_message(), "'pre_tokenizer'") != NULL);
        lh_norm_free(norm);
        lh_decoder_free(decoder);
        lh_pretok_free(pretok);
        json_decref(norms), json_decref(decoders), json_decref(pretoks);
    }
}
END_TEST

/* The words that a Split with this expression makes of a text; its message if it fails. */
static lh_status split_by(const char *regex, const char *text, int64_t bytes, lh_words *words)
{
    lh_status st = LH_OK;
    json_t *spec = json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex", regex, "behavior", "Isolated");
    lh_pretok *pretok = NULL;
    lh_matcher *matcher = NULL;
    lh_words spare = {0};
    LH_TRY_DONE(lh_pretok_parse(&pretok, "test.json", spec));
    LH_TRY_DONE(lh_matcher_open(&matcher, bytes));
    LH_TRY_DONE(lh_words_add(words, text, bytes));
    LH_TRY_DONE(lh_pretok_run(pretok, matcher, LH_PLACE_START, words, &spare));
done:
    lh_words_clear(&spare);
    lh_matcher_close(matcher);
    lh_pretok_free(pretok);
    json_decref(spec);
    return st;
}

/* Each took minutes to hours, or gigabytes: by backtracking at one place, at every place, by walking to the end of the
 * text from every place or at every step, and by what it remembers of the text. */
START_TEST(test_a_text_has_one_budget_of_steps_and_memory)
{
    static const struct {
        const char *regex, *says;
        int64_t bytes;
    } rows[] = {
        {"(a+)+$", "more than", 64},
        {"(?:a|a){0,21}b|.", "more than 16841216 steps", 1000},
        {"a*b|.", "more than 83886080 steps", 1 << 20},
        {"(?:a*b|a)*c|.", "steps", 1 << 20},
        {"a{60000}b|.", "steps", 1 << 20},
        {"a(?=.*b)|.", "steps", 1 << 20},
        {"(?:(a)|b)*c|.", " MiB", 5 << 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_words words = {0};
        char *text = malloc((size_t)rows[i].bytes);
        ck_assert_ptr_nonnull(text);
        memset(text, 'a', (size_t)rows[i].bytes);
        text[rows[i].bytes - 1] = '-';
        ck_assert_msg(split_by(rows[i].regex, text, rows[i].bytes, &words) == LH_EINPUT, "%s", rows[i].regex);
        ck_assert_msg(strstr(lh_error_message(), rows[i].says) && strstr(lh_error_message(), "'test.json'") &&
                          strstr(lh_error_message(), rows[i].regex),
                      "%s: %s", rows[i].regex, lh_error_message());
        lh_words_clear(&words);
        free(text);
    }
}
END_TEST

START_TEST(test_verbs_and_back_references_are_refused)
{
    static const struct {
        const char *regex, *says; /* NULL: fine */
    } rows[] = {{"(*NO_JIT)a", "verb"},     {"(*LIMIT_MATCH=4294967295)a", "verb"},
                {"(*UTF)(*UCP)a", "verb"},  {"a(*ACCEPT)b", "verb"},
                {"(a+)\\1", "refers back"}, {"[(*]+|\\(*", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_words words = {0};
        ck_assert_int_eq(split_by(rows[i].regex, "a", 1, &words), rows[i].says ? LH_EINPUT : LH_OK);
        if (rows[i].says)
            ck_assert_msg(strstr(lh_error_message(), rows[i].says) && strstr(lh_error_message(), "'test.json'"), "%s",
                          lh_error_message());
        lh_words_clear(&words);
    }
}
END_TEST

/* Words as Split of Hugging Face's tokenizers 0.23 makes them, which compiles expressions with Oniguruma. */
START_TEST(test_expressions_mean_what_they_mean_to_oniguruma)
{
    static const struct {
        const char *regex, *text, *words;
    } rows[] = {
        {"\\w+", "aé½²_ Ⅷ中१!", "aé½²_| |Ⅷ中१|!"},
        {"[\\w-]+", "aé½²_ Ⅷ-१!", "aé|½²|_| |Ⅷ-१|!"},
        {"\\W+", "a½ !b", "a½| !|b"},
        {"[^\\W_]+", "ab_½c", "ab|_½|c"},
        {"\\h+", "09afxg", "09af|xg"},
        {"[^\\h]+", "09xg", "09|xg"},
        {"\\b", "ab, ½c", "ab|, |½c"},
        {"\\p{Han}+", "中々、〇ab", "中々|、|〇|ab"},
        {"\\p{^Han}+", "中、〇ab", "中|、|〇|ab"},
        {"[a-z&&[^aeiou]]+", "abcei1xyz", "a|bc|ei1|xyz"},
        {"[a-c[x-z]]+", "abcdexyz", "abc|de|xyz"},
        {"[^a-c[x-z]]+", "abcdexyz", "abc|de|xyz"},
        {"[^a-z&&[^c]]+", "abcd1c", "ab|c|d|1c"},
        {"[\\S\\n]+", "ab \n c", "ab| |\n| |c"},
        {"[^\\S\\n]+", "ab \n \n", "ab| |\n| |\n"},
        {"[\\p{L}&&[^\\p{Han}]]+", "ab中c々d", "ab|中|c|々|d"},
        {"^a", "a\na\nba", "a|\n|a|\nba"},
        {"a$", "ba\na\nab", "b|a|\n|a|\nab"},
        {"\\s+$", "a  \nb  ", "a|  |\nb|  "},
        {"\\p{N}{1,3}+", "1234567a12", "1234567|a|12"},
        {"a{2}?", "aaaab", "aa|aa|b"},
        {"a{,2}b", "aaab", "a|aab"},
        {"(?m:a.)", "a\na", "a\n|a"},
        {"(?i:a(?-i:[\\p{Lu}]))|(?i:\\p{Lu})", "aBAbc", "aB|A|bc"},
        {"(?i)ab|c", "ABxC", "AB|x|C"},
        {"\\v", "a\vb\nc", "a|\v|b\nc"},
        {"\\u0061\\x{62}", "xabx", "x|ab|x"},
        {"[]a]+", "b]a", "b|]a"},
        {"[a^]+", "^a^b", "^a^|b"},
        {".", "a\r\nb", "a|\r|\n|b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_words words = {0};
        ck_assert_msg(split_by(rows[i].regex, rows[i].text, (int64_t)strlen(rows[i].text), &words) == LH_OK, "%s",
                      lh_error_message());
        lh_buf got = joined(&words);
        ck_assert_msg(strcmp(got.data, rows[i].words) == 0, "%s of '%s': wanted %s, got %s", rows[i].regex,
                      rows[i].text, rows[i].words, got.data);
        lh_buf_clear(&got);
        lh_words_clear(&words);
    }
}
END_TEST

START_TEST(test_what_is_not_understood_of_an_expression_is_named)
{
    static const struct {
        const char *regex, *named;
    } rows[] = {{"(?i:[\\p{Lu}])", "'\\p{Lu}'"},
                {"(?i)a|([\\P{^Ll}])", "'\\P{^Ll"},
                {"\\X", "'\\X'"},
                {"a\\G", "'\\G'"},
                {"\\pL", "'\\pL'"},
                {"\\p{L&}", "'\\p{L&}'"},
                {"\\p{Letter}", "Letter"},
                {"[[:alpha:]]", "'[:alpha:"},
                {"[a-\\d]", "'-\\'"},
                {"[\\d-z]", "'-z'"},
                {"[a&&]", "without char"},
                {"[[a]", "does not end"},
                {"(?s:.)", "'(?s'"},
                {"(?x:a)", "'(?x'"},
                {"x(?i)a|b", "'(?i)'"},
                {"(?P<n>a)", "'(?P'"},
                {"(?~a)", "'(?~'"},
                {"\\xE4", "'\\xE4'"},
                {"\\Qa\\E", "'\\Q'"},
                {"a)", "')'"},
                {"(a", "missing"},
                {"(?<a", "'(?<a'"},
                {"a\\p", "'\\p'"},
                {"a\\P", "'\\P'"},
                {"[\\p", "'\\p'"},
                {"\\cA", "'\\c'"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_words words = {0};
        ck_assert_msg(split_by(rows[i].regex, "a", 1, &words) == LH_EINPUT, "%s", rows[i].regex);
        ck_assert_msg(strstr(lh_error_message(), rows[i].named) && strstr(lh_error_message(), "is not understood"),
                      "%s", lh_error_message());
        lh_words_clear(&words);
    }
    lh_buf deep = {0};
    for (int i = 0; i < 50000; i++) lh_buf_puts(&deep, "[");
    lh_words words = {0};
    ck_assert_int_eq(split_by(deep.data, "a", 1, &words), LH_EINPUT);
    deep.bytes = 0;
    for (int i = 0; i < 50000; i++) lh_buf_puts(&deep, "(");
    ck_assert_int_eq(split_by(deep.data, "a", 1, &words), LH_EINPUT);
    lh_buf_clear(&deep);
    lh_words_clear(&words);
}
END_TEST

/* Words of n characters and runs of n spaces, n from 1 to 400: matches do not depend on where a search looks first. */
START_TEST(test_words_of_any_length_are_found_whole)
{
    static const char *const letters[] = {"a", "é", "中", "𝒳"};
    enum { LONGEST = 400 };
    for (size_t l = 0; l < sizeof letters / sizeof *letters; l++) {
        lh_buf text = {0}, want = {0}, have;
        lh_words words = {0};
        for (int n = 1; n <= LONGEST; n++) {
            for (int i = 0; i < n; i++) lh_buf_puts(&text, letters[l]), lh_buf_puts(&want, letters[l]);
            lh_buf_puts(&want, "|");
            for (int i = 0; i < n; i++) {
                if (i && i == n - 1) lh_buf_puts(&want, "|"); /* the last space is not before white space */
                lh_buf_puts(&text, " "), lh_buf_puts(&want, " ");
            }
            lh_buf_puts(&text, "1"), lh_buf_puts(&want, "|1|");
        }
        want.data[--want.bytes] = '\0';
        ck_assert_int_eq(split_by("\\p{L}+|\\s+(?!\\S)|\\s+|1", text.data, text.bytes, &words), LH_OK);
        have = joined(&words);
        ck_assert_str_eq(have.data, want.data);
        lh_words_clear(&words);
        lh_buf_clear(&have);
        /* Matches far apart, as many as there are digits. */
        ck_assert_int_eq(split_by("\\p{N}", text.data, text.bytes, &words), LH_OK);
        ck_assert_int_eq(words.n, 2 * LONGEST);
        lh_words_clear(&words);
        lh_buf_clear(&text), lh_buf_clear(&want);
    }
}
END_TEST

START_TEST(test_utf8_reads_what_it_writes_and_nothing_else)
{
    char bytes[4];
    uint32_t cp;
    int skip;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        int n = lh_utf8_write(bytes, c);
        ck_assert(lh_utf8_read(bytes, n, &cp, &skip) == n && cp == c && skip == n);
        ck_assert(n == 1 || lh_utf8_read(bytes, n - 1, &cp, &skip) == 0);
    }
    /* overlong, surrogate, above U+10FFFF, lone continuation */
    static const char *const bad[] = {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xFF"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert(lh_utf8_read(bad[i], (int64_t)strlen(bad[i]), &cp, &skip) == 0 && cp == 0xFFFD && skip == 1);
        ck_assert(!lh_utf8_valid(bad[i], (int64_t)strlen(bad[i])));
    }
    for (int b = 0; b < 256; b++) ck_assert_int_eq(lh_char_to_byte(lh_byte_to_char((uint8_t)b)), b);
    ck_assert(lh_byte_to_char(' ') == 0x120 && lh_byte_to_char(0) == 0x100 && lh_char_to_byte(0x180) == -1);
}
END_TEST

int main(void)
{
    return suite_run("tokenizer parts",
                     (const TTest *const[]){
                         test_pre_tokenizers, test_normalizers, test_decoders_know_where_pieces_stand, test_decoders,
                         test_sequences_have_an_end, test_a_text_has_one_budget_of_steps_and_memory,
                         test_verbs_and_back_references_are_refused, test_expressions_mean_what_they_mean_to_oniguruma,
                         test_what_is_not_understood_of_an_expression_is_named,
                         test_words_of_any_length_are_found_whole, test_utf8_reads_what_it_writes_and_nothing_else,
                         NULL});
}

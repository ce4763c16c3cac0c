/* Probe tokens, at 1 to 4 ranks: scores by context reconstruction equal the scores of kvpress' KVzipPress, and in
 * segments the weights of a pass of Hugging Face with a mask; scores by questions equal the weights of its passes
 * (families/repeat.h5, made by tools/make_repeat_goldens.py); the prompt itself does not notice probe tokens, and the
 * model has positions for them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/h5.h"
#include "base/mem.h"
#include "engine/session.h"
#include "import/import.h"
#include "mpi_check.h"
#include "tiny_engine.h"

enum { VOCAB = 96, MORE = 4 };

/* Eager, fused and tiled attention round logits in other ways: weights differ by up to 2e-5 of themselves. */
static const double TOLERANCE = 2e-4;

enum { PATH_BYTES = MT_FOLDER_BYTES + 32 };
static struct fixture {
    char folder[MT_FOLDER_BYTES], plain[PATH_BYTES];
    char chat[PATH_BYTES]; /* with a chat format, line ends in its vocabulary, and sliding layers */
    lh_profiles profiles;  /* texts of policies */
} fix;

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    mt_check(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s cannot be written", path);
}

static const char *in_folder(const char *folder, const char *name)
{
    static char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* smollm3-window: the last byte but one of its vocabulary becomes the line end. */
static void make_chat_folder(const char *folder)
{
    static const char *const same[] = {"config.json", "model.safetensors"};
    lh_buf tokenizer = {0};
    mt_check(mkdir(folder, 0777) == 0, "%s", folder);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char target[256];
        snprintf(target, sizeof target, LH_FAMILIES "/smollm3-window/%s", same[i]);
        mt_check(symlink(target, in_folder(folder, same[i])) == 0, "%s", target);
    }
    mt_try(lh_file_read(&tokenizer, LH_FAMILIES "/smollm3-window/tokenizer.json", 1 << 20));
    memcpy(strstr(tokenizer.data, "\u00a1"), "\u010a", 2);
    write_file(in_folder(folder, "tokenizer.json"), tokenizer.data);
    write_file(in_folder(folder, "chat_template.jinja"),
               "{% for m in messages %}[{{ m.role }}]\n{{ m.content }}\n{% endfor %}"
               "{% if add_generation_prompt %}[assistant]\n{% endif %}");
    lh_buf_clear(&tokenizer);
}

static void make_fixture(void)
{
    char folder[PATH_BYTES];
    mt_folder_make(fix.folder);
    snprintf(fix.plain, sizeof fix.plain, "%s/plain.h5", fix.folder);
    snprintf(fix.chat, sizeof fix.chat, "%s/chat.h5", fix.folder);
    snprintf(folder, sizeof folder, "%s/chat", fix.folder);
    if (mt_rank() == 0) {
        make_chat_folder(folder);
        mt_try(lh_import(&(lh_import_options){.src = LH_FAMILIES "/mistral-nemo", .out = fix.plain, .dtype = "f32"}));
        mt_try(lh_import(&(lh_import_options){.src = folder, .out = fix.chat, .dtype = "f32"}));
    }
    mt_try(lh_comm_barrier(mt_comm()));
}

static void remove_fixture(void)
{
    mt_folder_remove(fix.folder);
    lh_profiles_clear(&fix.profiles);
}

/* '--rows-at' with questions, one a line. */
static const char *rows_at(const char *questions)
{
    static char text[64];
    uint64_t hash = 0;
    mt_try(lh_profile_parse(&fix.profiles, LH_PROFILE_LINES,
                            &(lh_profile_text){"questions", questions, (int64_t)strlen(questions)}, &hash));
    snprintf(text, sizeof text, "--rows-at text:%016llx", (unsigned long long)hash);
    return text;
}

/* The scores of every layer, of this rank's KV heads: [layers, kv_count, n]. */
typedef struct taken {
    lh_engine *engine;
    lh_session *session;
    float *scores;
    int64_t layers, n;
    lh_heads heads;
} taken;

static lh_status take_scores(void *self, int64_t layer, const lh_evict_scores *scores)
{
    taken *t = self;
    for (int64_t h = 0; h < t->heads.kv_count; h++)
        memcpy(t->scores + (layer * t->heads.kv_count + h) * t->n, scores->scores + h * scores->ld,
               (size_t)t->n * sizeof *t->scores);
    return LH_OK;
}

static lh_policy policy_with(const char *options)
{
    char policy[160];
    lh_policy resolved = {.evicts = 0};
    snprintf(policy, sizeof policy, "snapkv --statistic max --window 0 --pool none --sinks 4 %s", options);
    mt_try(lh_policy_resolve(&resolved,
                             &(lh_policy_options){.policy = policy, .budget = "20%", .profiles = &fix.profiles}));
    return resolved;
}

static void prefill(taken *t, const char *model, const char *options, int64_t tokens)
{
    const lh_policy resolved = policy_with(options);
    int32_t *ids = NULL;
    *t = (taken){.n = tokens};
    const lh_kv_listener listener = {.self = t, .scored = take_scores};
    t->engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = model});
    const lh_engine_view *parts = lh_engine_get(t->engine);
    const lh_kv_shape shape = lh_model_kv_shape(parts->model, &parts->kv_types);
    t->heads = shape.heads;
    t->layers = shape.layers;
    mt_try(lh_calloc(&t->scores, t->layers * t->heads.kv_count * tokens, sizeof *t->scores));
    mt_try(lh_calloc(&ids, tokens, sizeof *ids));
    for (int64_t i = 0; i < tokens; i++) ids[i] = (int32_t)((i * 31 + i / 7) % VOCAB);
    mt_try(lh_session_open(&t->session, t->engine,
                           &(lh_session_options){.policy = &resolved,
                                                 .profiles = &fix.profiles,
                                                 .prompt = tokens,
                                                 .more = MORE,
                                                 .length = tokens + MORE,
                                                 .listener = &listener}));
    mt_try(lh_session_prefill(t->session, ids, tokens, NULL));
    lh_free(ids);
}

static void clear(taken *t)
{
    lh_session_close(t->session);
    lh_engine_close(t->engine);
    lh_free(t->scores);
}

/* The last entries of every head against an array of the golden file. */
static void compare(const taken *t, const char *name)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape shape = {0};
    float *want = NULL;
    double worst = 0;
    int64_t wrong = 0;
    mt_try(lh_h5_open(&h5, LH_FAMILIES "/repeat.h5", &(lh_h5_header){0}));
    mt_try(lh_h5_get(h5, name, &(lh_h5_shape){LH_F32, 3, {t->layers, t->heads.kv_heads, -1}}, &shape, &want));
    const int64_t last = shape.dims[2];
    for (int64_t l = 0; want && l < t->layers; l++)
        for (int64_t h = 0; h < t->heads.kv_count; h++)
            for (int64_t i = 0; i < last; i++) {
                const double a = (double)t->scores[(l * t->heads.kv_count + h) * t->n + t->n - last + i],
                             b = (double)want[(l * t->heads.kv_heads + t->heads.kv_first + h) * last + i];
                const double error = fabs(a - b) / (b > 0 ? b : 1); /* 0: a layer that is not scored */
                wrong += !(error < TOLERANCE);                      /* also NaN, which fmax leaves out */
                worst = fmax(worst, error);
            }
    mt_check(!wrong, "%s: %lld scores are NaN or differ, by at most %g of themselves", name, (long long)wrong, worst);
    lh_free(want);
    lh_h5_close(h5);
}

static void check_scores(const char *model, const char *options, int64_t tokens, const char *name)
{
    taken t;
    prefill(&t, model, options, tokens);
    compare(&t, name);
    clear(&t);
}

/* Two chunks of 2,048 and 100 tokens. */
START_TEST(test_scores_are_those_of_kvzip)
{
    check_scores(fix.plain, "--rows-at repeat", 2148, "/kvzip");
    mt_end();
}
END_TEST

START_TEST(test_scores_by_shares_of_rows_are_those_of_kvzip_plus)
{
    check_scores(fix.plain, "--rows-at repeat --output-norms", 2148, "/kvzip-plus");
    mt_end();
}
END_TEST

START_TEST(test_segments_see_sinks_their_stretch_and_themselves)
{
    check_scores(fix.plain, "--rows-at repeat:64", 200, "/segments");
    mt_end();
}
END_TEST

START_TEST(test_questions_see_the_prompt_and_themselves)
{
    check_scores(fix.plain, rows_at("What is it?\r\n\n  Where was it, and when?"), 200, "/text");
    mt_end();
}
END_TEST

/* As questions of the user's turn, and in the layers that attend to the whole prompt. */
START_TEST(test_questions_end_the_turn_of_a_chat)
{
    check_scores(fix.chat, rows_at("What is it?\nWhere was it, and when?"), 200, "/text-chat");
    mt_end();
}
END_TEST

/* Logits after the prompt, and the entries of a cache. */
START_TEST(test_a_prompt_does_not_notice_probe_tokens)
{
    const char *const options[] = {"--rows-at after --rows sample:8", "--rows-at repeat", "--rows-at repeat:8",
                                   rows_at("What?\nWhere?\nWhen?\n")};
    enum { OPTIONS = sizeof options / sizeof *options };
    float logits[OPTIONS][VOCAB];
    for (int i = 0; i < OPTIONS; i++) {
        taken t;
        const float *own = NULL;
        int64_t rows = 0;
        prefill(&t, fix.plain, options[i], 90);
        mt_try(lh_session_logits(t.session, &own, &rows));
        if (own) memcpy(logits[i], own, sizeof logits[i]);
        clear(&t);
    }
    if (mt_rank() == 0)
        for (int i = 1; i < OPTIONS; i++)
            mt_check(memcmp(logits[0], logits[i], sizeof logits[0]) == 0, "'%s' changes the logits", options[i]);
    mt_end();
}
END_TEST

/* Of 8,192 positions of the model: a lead-in has 38 tokens or more here, one for each character and blank. */
START_TEST(test_probe_tokens_need_positions_of_the_model)
{
    const struct {
        const char *options;
        int64_t tokens;
        const char *message; /* NULL: the positions are enough */
    } cases[] = {{"--rows-at repeat", 6000, NULL},
                 {"--rows-at repeat", 6300, "6300 tokens of prompt and 21"},
                 {"--rows-at repeat", 6300,
                  "longer than the 8192 positions of the model: shorten the prompt, or its parts "
                  "('--rows-at repeat:N', N up to 18"},
                 {"--rows-at repeat:64", 6300, NULL},
                 {"--rows-at repeat:64", 8150, "positions of the model: shorten the prompt"},
                 {rows_at("Why?\nWhat is it?"), 8150, NULL},
                 {rows_at("Why?\nWhat is it?"), 8185, "of the longest question after them"}};
    lh_engine *engine = tiny_engine_open(mt_comm(), &(lh_engine_options){.model = fix.plain});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lh_policy policy = policy_with(cases[i].options);
        lh_session *session = NULL;
        const lh_status st = lh_session_open(&session, engine,
                                             &(lh_session_options){.policy = &policy,
                                                                   .profiles = &fix.profiles,
                                                                   .prompt = cases[i].tokens,
                                                                   .more = MORE,
                                                                   .length = cases[i].tokens + MORE});
        mt_check(st == (cases[i].message ? LH_EUSAGE : LH_OK), "case %zu: status %d", i, st);
        if (cases[i].message)
            mt_check(strstr(lh_error_message(), cases[i].message) != NULL, "case %zu: '%s'", i, lh_error_message());
        lh_error_clear();
        lh_session_close(session);
    }
    lh_engine_close(engine);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probes");
    TCase *tests = tcase_create("probes");
    tcase_add_unchecked_fixture(tests, make_fixture, remove_fixture);
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, test_scores_are_those_of_kvzip);
    tcase_add_test(tests, test_scores_by_shares_of_rows_are_those_of_kvzip_plus);
    tcase_add_test(tests, test_segments_see_sinks_their_stretch_and_themselves);
    tcase_add_test(tests, test_questions_see_the_prompt_and_themselves);
    tcase_add_test(tests, test_questions_end_the_turn_of_a_chat);
    tcase_add_test(tests, test_a_prompt_does_not_notice_probe_tokens);
    tcase_add_test(tests, test_probe_tokens_need_positions_of_the_model);
    suite_add_tcase(suite, tests);
    return mt_run(suite);
}

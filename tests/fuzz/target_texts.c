/* What reads text: JSON, configurations, tokenizers, chat templates, prompts. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "engine/prompt.h"
#include "fuzz.h"
#include "import/tokenizer_source.h"
#include "policies/budgets.h"
#include "policies/profile.h"
#include "targets.h"
#include "text/chat.h"

void fz_touch(const void *data, int64_t bytes)
{
    const volatile unsigned char *at = data;
    for (int64_t i = 0; i < bytes; i++) (void)at[i];
}

/* ---- JSON and configurations ---- */

static lh_status run_json(fz_case *c)
{
    lh_status st = LH_OK;
    json_t *json = NULL, *text = lh_json_text(c->data, c->bytes);
    int64_t whole = 0;
    double real = 0;
    int truth = 0;
    const char *string = "";
    if (!text) LH_FAIL_DONE(LH_EINTERNAL, "'%s' gives no text", c->path);
    LH_TRY_DONE(lh_json_parse(&json, c->path, c->data, c->bytes));
    LH_TRY_DONE(lh_json_i64(json, c->path, "hidden_size", 0, 1 << 20, &whole));
    LH_TRY_DONE(lh_json_f64(json, c->path, "rope_theta", &real));
    LH_TRY_DONE(lh_json_bool(json, c->path, "use_cache", &truth));
    LH_TRY_DONE(lh_json_string(json, c->path, "model_type", &string));
    fz_touch(string, (int64_t)strlen(string));
done:
    json_decref(json);
    json_decref(text);
    return st;
}

void fz_use_config(const lh_config *config)
{
    static const int64_t lengths[] = {1, 100, 1 << 20};
    float inv_freq[4096], scale;
    for (int64_t l = 0; l < config->layers; l++) fz_touch(&config->sliding[l], 1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && config->rotary_dim <= 8192; i++) {
        lh_rope_frequencies(&config->rope_global, config->rotary_dim, lengths[i], inv_freq, &scale);
        lh_rope_frequencies(&config->rope_local, config->rotary_dim, lengths[i], inv_freq, &scale);
    }
    for (int w = 0; w < LH_WEIGHTS; w++) {
        int64_t rows, cols;
        lh_weight_shape(config, (lh_weight)w, &rows, &cols);
    }
}

static lh_status run_config(fz_case *c)
{
    lh_status st = LH_OK;
    lh_config config = {0};
    LH_TRY_DONE(lh_config_parse_text(&config, c->data, c->bytes, c->path));
    fz_use_config(&config);
done:
    lh_config_clear(&config);
    return st;
}

/* ---- tokenizers ---- */

static lh_status use_text(const lh_tokenizer *tok, const char *text, int64_t bytes, fz_rng *rng)
{
    lh_status st = LH_OK;
    lh_tokens ids = {0};
    lh_buf out = {0};
    lh_detokenizer d = {.tok = tok, .continues = (int)fz_below(rng, 2)};
    int64_t *offsets = NULL;
    LH_TRY_DONE(lh_tokenizer_encode(tok, text, bytes, (lh_encode)fz_below(rng, 4), &ids));
    LH_TRY_DONE(lh_tokenizer_decode(tok, ids.ids, ids.n, &out));
    for (int64_t i = 0; i < ids.n && i < 20; i++) LH_TRY_DONE(lh_detokenizer_push(&d, ids.ids[i], &out));
    for (int i = 0; i < 5; i++) LH_TRY_DONE(lh_detokenizer_push(&d, (int32_t)fz_below(rng, 400) - 3, &out));
    LH_TRY_DONE(lh_detokenizer_finish(&d, &out));
    LH_TRY_DONE(lh_calloc(&offsets, ids.n, sizeof *offsets));
    LH_TRY_DONE(lh_detokenizer_offsets(&d, ids.ids, ids.n, offsets));
    for (int i = 0; i < 5; i++) LH_TRY_DONE(lh_tokenizer_bytes(tok, (int32_t)fz_below(rng, 400) - 3, &out));
done:
    lh_free(offsets);
    lh_detokenizer_clear(&d);
    lh_buf_clear(&out);
    lh_tokens_clear(&ids);
    return st;
}

lh_status fz_use_tokenizer(const lh_tokenizer *tok, fz_rng *rng)
{
    static const char *const texts[] = {
        "hello world  \n 123 <|special|> <s> \xff\xe4 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x99\x82 \xe2\x96\x81", "",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "<x> <x><added>\xc3\xa9\xcc\x81\xc4\xb0\t\r\n  "};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        LH_TRY(use_text(tok, texts[i], (int64_t)strlen(texts[i]), rng));
    lh_tokenizer_find(tok, "a");
    lh_tokenizer_is_eos(tok, 3);
    return LH_OK;
}

static const char meta[] = "{\"bos\": 1, \"eos\": [2, 3], \"add_bos\": true, \"chat_format\": \"chatml\"}";

static lh_status run_tokenizer(fz_case *c)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    int with_meta = fz_below(&c->rng, 2) != 0;
    LH_TRY_DONE(lh_tokenizer_parse(&tok, c->path, c->data, c->bytes, with_meta ? meta : NULL,
                                   with_meta ? (int64_t)sizeof meta - 1 : 0));
    LH_TRY_DONE(fz_use_tokenizer(tok, &c->rng));
done:
    lh_tokenizer_close(tok);
    return st;
}

/* A tokenizer of the corpus, for the targets that damage something else. */
static lh_status read_tokenizer(lh_buf *json, const char *name)
{
    lh_status st = LH_OK;
    char *path = NULL;
    LH_TRY_DONE(lh_path_join(&path, LH_FUZZ_CORPUS "/tokenizer", name));
    LH_TRY_DONE(lh_file_read(json, path, 1 << 20));
done:
    lh_free(path);
    return st;
}

static lh_status put_tokenizer(void **state, const char *folder)
{
    lh_status st = LH_OK;
    lh_buf json = {0};
    *state = NULL;
    LH_TRY_DONE(read_tokenizer(&json, "byte-level.json"));
    LH_TRY_DONE(fz_put(folder, "tokenizer.json", json.data, json.bytes));
done:
    lh_buf_clear(&json);
    return st;
}

/* What lies beside a tokenizer.json, and what a checkpoint stores of it. */
static lh_status run_tokenizer_meta(fz_case *c)
{
    lh_status st = LH_OK;
    lh_tokenizer *tok = NULL;
    lh_buf json = {0}, made = {0};
    LH_TRY_DONE(lh_tokenizer_source(&tok, c->folder, &json, &made));
    lh_tokenizer_close(tok);
    tok = NULL;
    LH_TRY_DONE(lh_tokenizer_parse(&tok, c->path, json.data, json.bytes, made.data, made.bytes));
    LH_TRY_DONE(fz_use_tokenizer(tok, &c->rng));
    lh_tokenizer_close(tok);
    tok = NULL;
    LH_TRY_DONE(lh_tokenizer_parse(&tok, c->path, json.data, json.bytes, c->data, c->bytes));
    LH_TRY_DONE(fz_use_tokenizer(tok, &c->rng));
done:
    lh_tokenizer_close(tok);
    lh_buf_clear(&json);
    lh_buf_clear(&made);
    return st;
}

/* ---- text ---- */

typedef struct tokenizers {
    lh_tokenizer *at[2];
} tokenizers;

static void close_tokenizers(void *state)
{
    tokenizers *t = state;
    for (int i = 0; t && i < 2; i++) lh_tokenizer_close(t->at[i]);
    lh_free(t);
}

static lh_status open_tokenizers(void **state, const char *folder)
{
    static const char *const names[] = {"byte-level.json", "sentence.json"};
    lh_status st = LH_OK;
    tokenizers *t = NULL;
    lh_buf json = {0};
    (void)folder;
    LH_TRY_DONE(lh_calloc(&t, 1, sizeof *t));
    for (int i = 0; i < 2; i++) {
        lh_buf_clear(&json);
        LH_TRY_DONE(read_tokenizer(&json, names[i]));
        LH_TRY_DONE(lh_tokenizer_parse(&t->at[i], names[i], json.data, json.bytes, NULL, 0));
    }
    *state = t;
    t = NULL;
done:
    close_tokenizers(t);
    lh_buf_clear(&json);
    return st;
}

static lh_status run_text(fz_case *c)
{
    tokenizers *t = c->state;
    for (int i = 0; i < 2; i++) LH_TRY(use_text(t->at[i], c->data, c->bytes, &c->rng));
    return LH_OK;
}

/* ---- chat templates ---- */

/* A conversation of roles that exist and one that does not, cut somewhere. */
static lh_status talk(const lh_chat_format *format, const tokenizers *t, fz_rng *rng)
{
    static const char *const roles[] = {"user", "assistant", "system", "tool", "someone"};
    static const char letters[] = "\n <think></think>x\xe2\x96\x81[INST]";
    lh_status st = LH_OK;
    lh_message messages[4];
    lh_chat_text text = {0};
    lh_tokens ids = {0};
    lh_buf after = {0};
    lh_chat_form form;
    char contents[4][64];
    for (int i = 0; i < 4; i++) {
        int64_t n = fz_below(rng, 64);
        for (int64_t j = 0; j < n; j++) contents[i][j] = letters[fz_below(rng, (int64_t)sizeof letters - 1)];
        contents[i][n] = '\0';
        messages[i] = (lh_message){.role = roles[fz_below(rng, 8) ? i % 2 : fz_below(rng, 5)], .content = contents[i]};
    }
    lh_status rendered = lh_chat_render(
        format, &(lh_chat_request){messages, 1 + fz_below(rng, 4), (int)fz_below(rng, 2), "<s>", NULL, NULL}, &text);
    if (rendered != LH_OK) goto done; /* the template refuses such messages */
    int64_t cut = lh_chat_cut(&text, fz_below(rng, 4), fz_below(rng, 70));
    if (cut < 0) cut = text.text.bytes;
    LH_TRY_DONE(lh_chat_encode(t->at[fz_below(rng, 2)], &text, 0, cut, &ids));
    LH_TRY_DONE(lh_chat_encode(t->at[fz_below(rng, 2)], &text, cut, text.text.bytes, &ids));
    LH_TRY_DONE(lh_chat_form_of(format, t->at[fz_below(rng, 2)], text.text.data, cut, &form));
    LH_TRY_DONE(lh_chat_after_answer(format, "</s>", &after));
done:
    lh_buf_clear(&after);
    lh_tokens_clear(&ids);
    lh_chat_text_clear(&text);
    return st;
}

static lh_status run_chat(fz_case *c)
{
    const lh_chat_format *format = NULL;
    if (lh_chat_open(&format, c->path, c->data, c->bytes) != LH_OK) return lh_fail_within(LH_EINPUT, "'%s'", c->path);
    lh_status st = talk(format, c->state, &c->rng);
    lh_chat_close(format);
    return st;
}

static lh_status run_ids(fz_case *c)
{
    lh_tokens ids = {0};
    lh_status st = lh_prompt_ids(c->path, 1000, &ids);
    fz_touch(ids.ids, ids.n * (int64_t)sizeof *ids.ids);
    lh_tokens_clear(&ids);
    return st;
}

/* Budgets by what was read. */
static void use_profile(const lh_profile *p)
{
    int64_t budgets[64], room[64];
    lh_policy_numbers fixed = {.evicts = 1, .budget = 100, .budgets.layers = LH_LAYERS_PROFILE};
    lh_protection protect = {.budget = 30, .sinks = 2, .recents = 3, .base = 25};
    fz_touch(p->weights, p->layers * p->heads * (int64_t)sizeof *p->weights);
    if (p->kind == LH_PROFILE_OF_LAYERS && p->layers <= 64)
        lh_policy_layers(&fixed, &(lh_layers_request){.layers = p->layers, .seen = 500, .profile = p}, budgets);
    for (int64_t h = 0; h < 64; h++) room[h] = 50 * (h % 3);
    if (p->kind == LH_PROFILE_OF_HEADS && p->heads <= 64)
        lh_policy_heads(&(lh_heads_request){p->layers - 1, p->heads, &protect, room, p}, budgets);
}

static lh_status run_profile(fz_case *c)
{
    lh_status st = LH_OK, other;
    lh_profiles all = {0}, back = {0};
    lh_policy plan = {0};
    json_t *json = json_object();
    uint64_t hash;
    lh_profile_kind kind = (lh_profile_kind)fz_below(&c->rng, LH_PROFILE_KINDS);
    other = lh_profile_read(&all, kind, c->path, &hash);
    if (other != LH_OK) {
        kind = (lh_profile_kind)((kind + 1) % LH_PROFILE_KINDS);
        LH_TRY_DONE(lh_profile_read(&all, kind, c->path, &hash));
    }
    const lh_profile *p = lh_profiles_find(&all, kind, hash);
    use_profile(p);
    if (kind == LH_PROFILE_OF_LAYERS) plan.budgets.layer_profile = hash;
    if (kind == LH_PROFILE_OF_HEADS) plan.budgets.head_profile = hash;
    if (kind == LH_PROFILE_LINES) plan.score.text = hash;
    LH_TRY_DONE(lh_profiles_put_json(&all, &plan, json));
    LH_TRY_DONE(lh_profiles_get_json(&back, json, c->path));
    if (!lh_profiles_find(&back, kind, hash)) LH_FAIL_DONE(LH_EINTERNAL, "'%s' comes back as another profile", c->path);
done:
    json_decref(json);
    lh_profiles_clear(&all);
    lh_profiles_clear(&back);
    return st;
}

const fz_target fz_json = {.name = "json",
                           .summary = "JSON and its typed members",
                           .file = "config.json",
                           .form = FZ_TEXT,
                           .quick = 5000,
                           .share = 160000,
                           .corpus = "config",
                           .run = run_json};

const fz_target fz_config = {.name = "config",
                             .summary = "the configuration of a model",
                             .file = "config.json",
                             .form = FZ_JSON,
                             .quick = 4000,
                             .share = 120000,
                             .corpus = "config",
                             .run = run_config};

const fz_target fz_tokenizer = {.name = "tokenizer",
                                .summary = "tokenizer.json, and text through what it makes",
                                .file = "tokenizer.json",
                                .form = FZ_JSON,
                                .quick = 1000,
                                .share = 60000,
                                .corpus = "tokenizer",
                                .run = run_tokenizer};

const fz_target fz_tokenizer_meta = {.name = "tokenizer-meta",
                                     .summary = "what lies beside a tokenizer.json, and what a checkpoint keeps of it",
                                     .file = "tokenizer_config.json",
                                     .form = FZ_JSON,
                                     .quick = 300,
                                     .share = 15000,
                                     .corpus = "meta",
                                     .prepare = put_tokenizer,
                                     .run = run_tokenizer_meta};

const fz_target fz_text = {.name = "text",
                           .summary = "any bytes as text, through two tokenizers",
                           .file = "prompt.txt",
                           .form = FZ_TEXT,
                           .quick = 1000,
                           .share = 50000,
                           .corpus = "text",
                           .prepare = open_tokenizers,
                           .forget = close_tokenizers,
                           .run = run_text};

const fz_target fz_chat = {.name = "chat",
                           .summary = "built-in chat templates, and conversations in them",
                           .file = "chat_template.jinja",
                           .form = FZ_TEXT,
                           .quick = 2000,
                           .share = 80000,
                           .corpus = "../../../src/text/chat",
                           .prepare = open_tokenizers,
                           .forget = close_tokenizers,
                           .run = run_chat};

const fz_target fz_template = {.name = "template",
                               .summary = "chat templates of every construct, and conversations in them",
                               .file = "chat_template.jinja",
                               .form = FZ_TEXT,
                               .quick = 2000,
                               .share = 80000,
                               .corpus = "../../text/template",
                               .prepare = open_tokenizers,
                               .forget = close_tokenizers,
                               .run = run_chat};

const fz_target fz_ids = {.name = "ids",
                          .summary = "a file of token ids",
                          .file = "ids.txt",
                          .form = FZ_TEXT,
                          .quick = 4000,
                          .share = 60000,
                          .corpus = "ids",
                          .run = run_ids};

const fz_target fz_profile = {.name = "profile",
                              .summary = "weights of budgets, and questions",
                              .file = "weights.csv",
                              .form = FZ_TEXT,
                              .quick = 4000,
                              .share = 60000,
                              .corpus = "profile",
                              .run = run_profile};

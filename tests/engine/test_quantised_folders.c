/* Quantised Hugging Face folders, as tests/import/quantised has them, on 1 to 4 ranks: their logits are those of one
 * rank, in every bit. Rank 0 runs alone, too. Heads of 16 and MLPs of 96 channels divide unevenly into blocks of 32. */
#include <stdio.h>
#include <string.h>

#include "base/h5.h"
#include "engine/generate.h"
#include "import/import.h"
#include "mpi_check.h"
#include "tiny_engine.h"

enum { PROMPT = 40, NEW = 6, VOCAB = 16 };

static char folder[64], model[96];

/* The logits of the last prompt tokens and of the steps, read by rank 0 (lh_free); collective over `comm`. */
static float *logits_of(lh_comm *comm, const lh_engine_options *options, int64_t *n)
{
    char path[96];
    int32_t ids[PROMPT];
    lh_h5 *h5 = NULL;
    lh_h5_shape shape = {0};
    float *values = NULL;
    lh_policy plan;
    lh_generation out = {0};
    for (int i = 0; i < PROMPT; i++) ids[i] = (int32_t)(i * 7 % 13 + 3);
    snprintf(path, sizeof path, "%s/logits.h5", folder);
    mt_try(lh_policy_resolve(&plan, &(lh_policy_options){.policy = "full"}));
    lh_generate_request request = {.prompt = {ids, PROMPT, PROMPT},
                                   .max_new = NEW,
                                   .ignore_eos = 1,
                                   .sampling = {.top_p = 1, .repeat_penalty = 1},
                                   .policy = &plan,
                                   .logits = path,
                                   .logits_last = 5};
    lh_engine *engine = tiny_engine_open(comm, options);
    if (engine) mt_try(lh_generate(engine, &request, &out));
    if (mt_rank() == 0) {
        mt_try(lh_h5_open(&h5, path, &(lh_h5_header){0}));
        if (h5) mt_try(lh_h5_get(h5, "/logits", &(lh_h5_shape){LH_F32, 2, {-1, VOCAB}}, &shape, &values));
        lh_h5_close(h5);
        *n = lh_h5_shape_count(&shape);
    }
    lh_generation_clear(&out);
    lh_engine_close(engine);
    return values;
}

static void check_folder(const char *name)
{
    char source[400];
    int64_t n = 0, m = 0;
    float *one = NULL;
    lh_comm *self = NULL;
    const lh_engine_options fixed = {.model = model, .deterministic = 1};
    snprintf(source, sizeof source, "%s/%s", LH_QUANTISED, name);
    if (mt_rank() == 0) {
        mt_try(lh_import(&(lh_import_options){.src = source, .out = model, .dtype = "auto"}));
        mt_try(lh_comm_open_self(&self));
        one = logits_of(self, &fixed, &n);
        lh_comm_close(self);
    }
    mt_try(lh_comm_barrier(mt_comm()));
    float *all = logits_of(mt_comm(), &fixed, &m);
    if (mt_rank() == 0)
        mt_check(one && all && n == m && n > 0 && memcmp(one, all, (size_t)n * sizeof *one) == 0, "%s: other logits",
                 name);
    lh_free(one);
    lh_free(all);
}

/* The logits of a folder, imported as `stored`, by an engine with weights of the type `dtype`. */
static float *logits_as(const char *name, const char *stored, const char *dtype, int deterministic, int64_t *n)
{
    char source[400];
    snprintf(source, sizeof source, "%s/%s", LH_QUANTISED, name);
    if (mt_rank() == 0) mt_try(lh_import(&(lh_import_options){.src = source, .out = model, .dtype = stored}));
    mt_try(lh_comm_barrier(mt_comm()));
    return logits_of(mt_comm(), &(lh_engine_options){.model = model, .dtype = dtype, .deterministic = deterministic},
                     n);
}

START_TEST(test_floats_of_8_bits_have_the_logits_of_plain_numbers)
{
    static const char *const folders[] = {"fp8-wide", "float8-wide"}, *const types[] = {"bf16", "f32"};
    mt_folder_make(folder);
    snprintf(model, sizeof model, "%s/model.h5", folder);
    for (int i = 0; i < 4; i++) {
        const char *name = folders[i / 2], *type = types[i / 2];
        int64_t n = 0, m = 0;
        float *plain = logits_as(name, type, type, i % 2, &n), *f8 = logits_as(name, "auto", type, i % 2, &m);
        if (mt_rank() == 0)
            mt_check(plain && f8 && n == m && n > 0 && memcmp(plain, f8, (size_t)n * sizeof *f8) == 0,
                     "%s, %s, deterministic %d: other logits", name, type, i % 2);
        lh_free(plain);
        lh_free(f8);
    }
    mt_folder_remove(folder);
    mt_end();
}
END_TEST

START_TEST(test_any_number_of_ranks_gives_the_same_bits)
{
    static const char *const folders[] = {"int4-group", "awq",      "gptq-8bit", "gptq-desc-act",
                                          "fp8-block",  "fp8-wide", "experts"};
    mt_folder_make(folder);
    snprintf(model, sizeof model, "%s/model.h5", folder);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) check_folder(folders[i]);
    mt_folder_remove(folder);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quantised folders");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_floats_of_8_bits_have_the_logits_of_plain_numbers);
    tcase_add_test(all, test_any_number_of_ranks_gives_the_same_bits);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}

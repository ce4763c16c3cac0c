/* Every model family against Hugging Face's logits and greedy tokens. Models and their results lie in families/ here,
 * made by tools/make_family_goldens.py (ministral3 and qwen3-vl, models for images and text: by transformers 5.24, in
 * the same form), and in golden/families of the folder LONGHAUL_TEST_DATA, if it is there. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/h5.h"
#include "engine/generate.h"
#include "import/import.h"
#include "mpi_check.h"

/* Eager and fused attention of the reference differ by 1.6e-5 on these models; standard deviation of the logits: 2. */
static const double TOLERANCE = 1e-3;

typedef struct golden {
    int32_t *tokens, *greedy;
    float *last, *steps; /* [rows, vocab] of the last prompt tokens, [new, vocab] */
    int64_t n, new_tokens, rows, vocab;
} golden;

static void read_golden(golden *g, const char *path)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape tokens = {0}, greedy = {0}, last = {0}, steps = {0};
    *g = (golden){0};
    mt_try(lh_h5_open(&h5, path, &(lh_h5_header){0}));
    if (!h5) return;
    mt_try(lh_h5_get(h5, "/tokens", &(lh_h5_shape){LH_I32, 1, {-1}}, &tokens, &g->tokens));
    mt_try(lh_h5_get(h5, "/greedy", &(lh_h5_shape){LH_I32, 1, {-1}}, &greedy, &g->greedy));
    mt_try(lh_h5_get(h5, "/logits", &(lh_h5_shape){LH_F32, 2, {-1, -1}}, &last, &g->last));
    mt_try(lh_h5_get(h5, "/step_logits", &(lh_h5_shape){LH_F32, 2, {-1, -1}}, &steps, &g->steps));
    g->n = tokens.dims[0];
    g->new_tokens = greedy.dims[0];
    g->rows = last.dims[0];
    g->vocab = last.dims[1];
    lh_h5_close(h5);
}

static void clear_golden(golden *g)
{
    lh_free(g->tokens);
    lh_free(g->greedy);
    lh_free(g->last);
    lh_free(g->steps);
}

/* Row r of the file is row r of the last prompt tokens, then step 1, 2, …: step 0 is the last prompt token. */
static double worst_difference(const golden *g, const char *path)
{
    lh_h5 *h5 = NULL;
    lh_h5_shape shape = {0};
    float *got = NULL;
    double worst = 0;
    mt_try(lh_h5_open(&h5, path, &(lh_h5_header){0}));
    if (h5) mt_try(lh_h5_get(h5, "/logits", &(lh_h5_shape){LH_F32, 2, {-1, -1}}, &shape, &got));
    if (!got || shape.dims[0] != g->rows + g->new_tokens - 1 || shape.dims[1] != g->vocab) worst = INFINITY;
    for (int64_t r = 0; worst < INFINITY && r < shape.dims[0]; r++) {
        const float *want = r < g->rows ? g->last + r * g->vocab : g->steps + (r - g->rows + 1) * g->vocab;
        for (int64_t i = 0; worst < INFINITY && i < g->vocab; i++) {
            double one = fabs((double)got[r * g->vocab + i] - (double)want[i]);
            if (!(one <= worst)) worst = one; /* NaN stays, unlike in fmax(); and gcc 12 fails over fmax() on arm64 */
        }
    }
    lh_free(got);
    lh_h5_close(h5);
    return worst;
}

static void check_family(const char *folder, const char *work)
{
    char path[720], model[128], logits[128];
    const char *name = strrchr(folder, '/') + 1;
    golden g;
    lh_engine *engine = NULL;
    lh_generation out = {0};
    lh_policy plan;
    snprintf(path, sizeof path, "%s.h5", folder);
    snprintf(model, sizeof model, "%s/model.h5", work);
    snprintf(logits, sizeof logits, "%s/logits.h5", work);
    read_golden(&g, path);
    if (mt_rank() == 0) mt_try(lh_import(&(lh_import_options){.src = folder, .out = model, .dtype = "f32"}));
    mt_try(lh_comm_barrier(mt_comm()));
    mt_try(lh_engine_open_on(
        &engine, mt_comm(),
        &(lh_engine_options){.model = model, .device = "cpu", .dtype = "f32", .kv_dtype = "f32", .threads = 1}));
    mt_try(lh_policy_resolve(&plan, &(lh_policy_options){.policy = "full"}));
    lh_generate_request request = {.prompt = {g.tokens, g.n, g.n},
                                   .max_new = g.new_tokens,
                                   .ignore_eos = 1,
                                   .sampling = {.top_p = 1, .repeat_penalty = 1},
                                   .policy = &plan,
                                   .logits = logits,
                                   .logits_last = g.rows};
    if (engine) mt_try(lh_generate(engine, &request, &out));
    if (mt_rank() == 0 && out.answers) {
        double worst = worst_difference(&g, logits);
        mt_check(worst <= TOLERANCE, "%s: logits differ by %g", name, worst);
        mt_check(out.answers[0].ids.n == g.new_tokens &&
                     memcmp(out.answers[0].ids.ids, g.greedy, (size_t)g.new_tokens * sizeof *g.greedy) == 0,
                 "%s: other greedy tokens", name);
    }
    lh_generation_clear(&out);
    lh_engine_close(engine);
    clear_golden(&g);
}

/* All families in a folder; their number. */
static int check_folder(const char *root)
{
    char work[64] = "", command[96];
    DIR *dir = opendir(root);
    int found = 0;
    mt_folder_make(work);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char folder[700];
        snprintf(folder, sizeof folder, "%s/%s", root, e->d_name);
        if (e->d_name[0] == '.' || !lh_file_is_folder(folder)) continue;
        check_family(folder, work);
        found++;
    }
    if (dir) closedir(dir);
    snprintf(command, sizeof command, "rm -rf %s", work);
    if (mt_rank() == 0 && system(command) != 0) mt_check(0, "cannot remove %s", work);
    return found;
}

START_TEST(test_families_compute_what_hugging_face_computes)
{
    int found = check_folder(LH_FAMILIES);
    mt_check(found > 0, "no families in %s", LH_FAMILIES);
    mt_end();
}
END_TEST

START_TEST(test_families_of_the_reference_data)
{
    char root[400];
    const char *given = getenv("LONGHAUL_TEST_DATA"), *data = given ? given : LH_TEST_DATA;
    snprintf(root, sizeof root, "%s/golden/families", data);
    int found = mt_size() > 3 ? 0 : check_folder(root); /* one of them has 3 heads */
    if (mt_rank() == 0)
        printf(found ? "%d families\n" : "skipped: no families under LONGHAUL_TEST_DATA, or more than 3 ranks\n",
               found);
    mt_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("families");
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_families_compute_what_hugging_face_computes);
    tcase_add_test(all, test_families_of_the_reference_data);
    suite_add_tcase(suite, all);
    return mt_run(suite);
}

/* What reads Longhaul's own files when others damaged them. As in the program the structure is probed in a child
 * process first: there HDF5 may crash, and the file is then refused. What passes is opened here. */
#include <jansson.h>

#include "base/h5.h"
#include "fuzz.h"
#include "import/checkpoint.h"
#include "lab/report/report.h"
#include "main/file_kinds.h"
#include "targets.h"

typedef struct reader {
    lh_checkpoint *ck;
    float *values;
} reader;

static lh_status read_weight(void *self, lh_weight weight, int64_t layer)
{
    reader *r = self;
    lh_weight_range range = {.weight = weight, .layer = layer};
    lh_weight_shape(lh_checkpoint_config(r->ck), weight, &range.rows, &range.cols);
    LH_TRY(lh_realloc(&r->values, range.rows * range.cols, sizeof *r->values));
    LH_TRY(lh_checkpoint_read(r->ck, &range, r->values, LH_F32, range.cols));
    if (!lh_checkpoint_format(r->ck, weight, layer)->is_plain)
        LH_TRY(lh_checkpoint_read_blocks(r->ck, &range, r->values));
    return LH_OK;
}

lh_status fz_read_checkpoint(const char *path)
{
    lh_status st = LH_OK;
    reader r = {0};
    lh_tokenizer *tok = NULL;
    LH_TRY_DONE(lh_checkpoint_open(&r.ck, path));
    int64_t json_bytes, meta_bytes;
    const char *json = lh_checkpoint_tokenizer(r.ck, &json_bytes);
    const char *meta = lh_checkpoint_tokenizer_meta(r.ck, &meta_bytes);
    if (json) LH_TRY_DONE(lh_tokenizer_parse(&tok, path, json, json_bytes, meta, meta_bytes));
    LH_TRY_DONE(lh_checkpoint_each(lh_checkpoint_config(r.ck), read_weight, &r));
done:
    lh_tokenizer_close(tok);
    lh_checkpoint_close(r.ck);
    lh_free(r.values);
    return st;
}

static lh_status describe(const char *path)
{
    lh_status st = LH_OK;
    json_t *json = NULL;
    LH_TRY_DONE(lh_info_json(path, file_kinds, &json));
done:
    json_decref(json);
    return st;
}

static lh_status verify(const char *path)
{
    lh_verify_report report;
    return lh_verify(path, file_kinds, NULL, &report);
}

static lh_status run_checkpoint(fz_case *c)
{
    switch (fz_below(&c->rng, 4)) {
    case 0: LH_TRY(verify(c->path)); break;
    case 1: LH_TRY(describe(c->path)); break;
    default: LH_TRY(lh_h5_probe(c->path)); LH_TRY(fz_read_checkpoint(c->path));
    }
    return LH_OK;
}

static lh_status open_cache(void **state, const char *folder)
{
    fz_cache *cache = NULL;
    (void)folder;
    LH_TRY(fz_cache_open(&cache));
    *state = cache;
    return LH_OK;
}

static void close_cache(void *state)
{
    fz_cache_close(state);
}

/* Of each kind in turn, until one takes the file. */
static lh_status take_file(fz_case *c, int kinds, lh_status (*take)(fz_cache *cache, int kind, const char *path))
{
    lh_status st = LH_OK;
    if (fz_below(&c->rng, 8) == 0) {
        LH_TRY(verify(c->path));
        return st;
    }
    LH_TRY(lh_h5_probe(c->path));
    for (int kind = 0; kind < kinds; kind++) {
        st = take(c->state, kind, c->path);
        if (st == LH_OK) break;
    }
    if (st == LH_EUSAGE) st = lh_fail_within(LH_EFILE, "of another policy");
    return st;
}

static lh_status run_cache(fz_case *c)
{
    return take_file(c, FZ_CACHES, fz_cache_restore);
}

static lh_status run_prefill(fz_case *c)
{
    return take_file(c, FZ_PREFILLS, fz_prefill_go_on);
}

static lh_status run_keep_sets(fz_case *c)
{
    return fz_below(&c->rng, 3) ? verify(c->path) : describe(c->path);
}

static lh_status draw(const char *path)
{
    lh_status st = LH_OK;
    lh_report *report = NULL;
    lh_buf text = {0};
    LH_TRY_DONE(lh_h5_probe(path));
    LH_TRY_DONE(lh_report_open(&report, &path, 1));
    LH_TRY_DONE(lh_report_page(report, &text));
    LH_TRY_DONE(lh_report_markdown(report, &text));
    LH_TRY_DONE(lh_report_plots(report, &text));
done:
    lh_buf_clear(&text);
    lh_report_close(report);
    return st;
}

static lh_status run_analysis(fz_case *c)
{
    return fz_below(&c->rng, 3) ? draw(c->path) : verify(c->path);
}

const fz_target fz_checkpoint = {.name = "checkpoint",
                                 .summary = "structure and weights of a checkpoint",
                                 .file = "model.h5",
                                 .form = FZ_BINARY,
                                 .quick = 60,
                                 .share = 3000,
                                 .seeds = fz_checkpoint_seeds,
                                 .run = run_checkpoint};

const fz_target fz_cache_file = {.name = "cache",
                                 .summary = "a cache file, restored",
                                 .file = "cache.h5",
                                 .form = FZ_BINARY,
                                 .quick = 60,
                                 .share = 1500,
                                 .seeds = fz_cache_seeds,
                                 .prepare = open_cache,
                                 .forget = close_cache,
                                 .run = run_cache};

const fz_target fz_prefill_file = {.name = "prefill",
                                   .summary = "a prefill in flight, which goes on",
                                   .file = "prefill.h5",
                                   .form = FZ_BINARY,
                                   .quick = 60,
                                   .share = 1500,
                                   .seeds = fz_prefill_seeds,
                                   .prepare = open_cache,
                                   .forget = close_cache,
                                   .run = run_prefill};

const fz_target fz_keep_sets = {.name = "keep-sets",
                                .summary = "a file of keep sets, verified and described",
                                .file = "keep.h5",
                                .form = FZ_BINARY,
                                .quick = 60,
                                .share = 2000,
                                .seeds = fz_keep_sets_seeds,
                                .run = run_keep_sets};

const fz_target fz_analysis = {.name = "analysis",
                               .summary = "figures and tables of an analysis, verified and drawn",
                               .file = "analysis.h5",
                               .form = FZ_BINARY,
                               .quick = 60,
                               .share = 2000,
                               .seeds = fz_analysis_seeds,
                               .run = run_analysis};

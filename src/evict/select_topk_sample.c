/* NaCl (arXiv 2408.03675, algorithm 1): a share by score, the rest drawn with probabilities softmax(score); or in
 * proportion to the scores (VaSE, arXiv 2606.03928). Joint heads draw as one. */
#include "evict/evict_impl.h"

typedef struct sample_params {
    lh_fraction share; /* as it was written, "7/19" or a decimal */
    int by_score;
} sample_params;

static const sample_params *params_of(const lh_policy_numbers *p)
{
    return lh_params_of(&p->methods, LH_METHOD_topk_sample);
}

static void stages(lh_evictor *ev, const lh_evict_job *job, lh_stage_scores *by)
{
    float *y = lh_layer_scores(ev, by->second);
    lh_ragged view = *job->entries;
    lh_draw draw = lh_draw_of(ev, job);
    if (ev->policy.select.joint) {
        draw.first_head = 0;
        view.heads = 1;
    }
    LH_RUN(&ev->exec, gumbel_scores, .y = y, .x = lh_layer_scores(ev, by->first), .kv = &view, .ld = ev->ld,
           .temperature = 1.0f, .proportional = params_of(&ev->policy)->by_score, .draw = draw);
    for (int64_t g = 1; g < ev->shape.heads.kv_count && ev->policy.select.joint; g++)
        lh_exec_copy(&ev->exec, y + g * ev->ld, y, job->cols * (int64_t)sizeof *y, LH_COPY_ON_DEVICE);
}

static lh_stage first_stage(const lh_policy_numbers *fixed, const lh_protection *protect)
{
    const lh_fraction drawn = params_of(fixed)->share;
    (void)protect;
    return (lh_stage){.share = {drawn.den - drawn.num, drawn.den}, .up = 1};
}

static const lh_part parts[] = {{LH_PART_FRACTION(topk_sample, sample_params, share), .def = "7/19",
                                 .row.name = "random-share", .row.arg = "X",
                                 .row.help = "Share that topk+sample draws, such as 0.3 or 7/19."},
                                {LH_PART_WORD(topk_sample, sample_params, by_score), .def = "softmax",
                                 .row.name = "draw", .row.choices = (const char *const[]){"softmax", "score", NULL},
                                 .meanings = (const char *const[]){"Drawn by the softmax of the scores (NaCl).",
                                                                   "Drawn in proportion to the scores (VaSE)."},
                                 .row.help = "Probabilities by which topk+sample draws."},
                                {.row.name = NULL}};

static const lh_selection selection = {.stages = stages};

const lh_method lh_method_topk_sample = {.word = "topk+sample",
                                         .help = "The best scores, then entries that are drawn by their scores.",
                                         .parts = parts,
                                         .traits = LH_STAGED | LH_NEEDS_ATTENTION | LH_DRAWS,
                                         .stage = first_stage,
                                         .selection = &selection};

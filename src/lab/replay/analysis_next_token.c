/* The effect of the eviction on the model's predictions: it continues the prompt with the entries that a policy keeps,
 * the tokens after the prompt are forced, and its distributions of the next token are compared with the distributions
 * of the full cache. The only figures that need the model. */
#include "lab/replay/analysis.h"

static const lh_analysis_figure figures[] = {
    {.name = "next-token-kl",
     .title = "Next token: distance from the full cache",
     .about =
         "KL divergence of the distribution of the next token with the entries that are kept from that with all of "
         "them, mean over the tokens after the prompt, which are forced on both. Less is better.",
     .unit = "nats",
     .source = "measured as by 'longhaul eval fidelity'",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_POLICY,
     .better = -1,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET}},
    {.name = "next-token-agreement",
     .title = "Next token: same as with the full cache",
     .about =
         "Share of the tokens after the prompt at which the most probable token is that of the full cache. More is "
         "better.",
     .unit = "share of 1",
     .source = "measured as by 'longhaul eval fidelity'",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_POLICY,
     .better = 1,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET}},
    {.name = "answer-nll",
     .title = "Negative log-likelihood of the continuation",
     .about = "Mean over the tokens after the prompt, with the entries that are kept. The logarithm of the perplexity. "
              "Less is better.",
     .unit = "nats per token",
     .source = "measured as by 'longhaul eval ppl'",
     .view = LH_VIEW_CURVES,
     .x = LH_AXIS_BUDGET,
     .y = LH_AXIS_POLICY,
     .better = -1,
     .axes = {LH_AXIS_POLICY, LH_AXIS_BUDGET}},
    {0}};

static lh_status continued(const lh_continued *c, double *const *out)
{
    const double values[] = {c->kl, c->agreement, c->nll};
    const int64_t at = lh_figure_at(c->study, figures, (const int64_t[LH_FIGURE_DIMS]){c->policy, c->budget});
    for (int f = 0; f < 3; f++) out[f][at] += values[f];
    return LH_OK;
}

const lh_analysis lh_analysis_next_token = {.name = "next-token",
                                            .summary = "distribution of the next token, by the model",
                                            .figures = figures,
                                            .continued = continued};

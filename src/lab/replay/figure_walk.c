#include "lab/replay/replay_impl.h"

const lh_analysis_figure *lh_replay_next_figure(lh_figure_walk *w)
{
    for (; w->replay->request.analyses[w->analysis]; w->analysis++, w->figure = 0) {
        const lh_analysis_figure *f = &w->replay->request.analyses[w->analysis]->figures[w->figure];
        if (!f->name) continue;
        w->figure++;
        w->index++;
        return f;
    }
    return NULL;
}

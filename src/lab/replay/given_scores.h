/* given_scores.h - scores of entries from a file, made by a script that reads the trace: replay shapes, protects and
 * selects by them as by the scores of a policy. The file (HDF5, kind `scores`) has an array /layers/000/scores
 * [kv_heads, tokens] f32 for each layer, larger for entries that should stay. */
#ifndef LH_LAB_REPLAY_GIVEN_SCORES_H
#define LH_LAB_REPLAY_GIVEN_SCORES_H

#include "base/status.h"

typedef struct lh_given_scores lh_given_scores;

/* LH_EFILE. */
lh_status lh_given_scores_open(lh_given_scores **out, const char *path);
void lh_given_scores_close(lh_given_scores *scores); /* NULL is fine */

/* Valid until lh_given_scores_close. The scorer fails with LH_EFILE, naming file and layer, if the file has no scores
 * of an entry. */
lh_scorer lh_given_scores_scorer(lh_given_scores *scores);

#endif

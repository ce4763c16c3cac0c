/* group.h - requests that name the same context, on rank 0: what they share, and what each of them asks. With a
 * context_file that is the file's text, and the messages before it; with a context_id alone what the prompts of all of
 * them begin with. Requests whose policy or messages differ,
 * or whose runs are so long that the rotary factors are others, share less: they get contexts of their own. What a
 * context is depends on the input alone, not on what is answered already. */
#ifndef LH_BATCH_GROUP_H
#define LH_BATCH_GROUP_H

#include "batch/work.h"

typedef struct lh_batch_group lh_batch_group;

lh_status lh_batch_group_open(lh_batch_group **out, const lh_batch_common *common);
void lh_batch_group_close(lh_batch_group *group); /* NULL is fine */

/* A request, opened as one that shares a context; borrowed only for the call. Its line gets the hash of the file's
 * text. wanted: 0 for one that is answered already. LH_EINPUT, LH_EUSAGE: it cannot be answered, and does not belong to
 * the group. */
lh_status lh_batch_group_add(lh_batch_group *group, lh_batch_work *work, int wanted);

/* After the last of them: what they share. */
lh_status lh_batch_group_settle(lh_batch_group *group);

/* The next one that is wanted; those of one context follow each other. 0: there is none any more. */
typedef struct lh_batch_member {
    int64_t i;                /* of the line in the input */
    const lh_tokens *context; /* borrowed until the group is closed; NULL: it shares nothing */
    int64_t more;             /* of lh_context */
    int64_t number;           /* of the context's cache within the group */
    uint64_t hash;            /* context_hash of its line */
    const lh_tokens *prompt;  /* that follows the context, borrowed */
} lh_batch_member;
int lh_batch_group_next(lh_batch_group *group, lh_batch_member *out);

#endif

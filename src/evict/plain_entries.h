/* plain_entries.h - blocks of the entries of a KV head as plain numbers: keys without their rotation, and values, f32.
 */
#ifndef LH_EVICT_PLAIN_ENTRIES_H
#define LH_EVICT_PLAIN_ENTRIES_H

#include "exec/exec.h"
#include "kernels/ragged.h"

enum { LH_PLAIN_ENTRIES_AT_ONCE = 512 };

typedef struct lh_plain_entries {
    const lh_exec *exec;
    const lh_ragged *entries;
    const lh_rotation *rotation; /* of the layer; NULL: keys are not rotated */
    int64_t *len, *offset;       /* host, [heads] */
    int64_t mark;                /* of the scratch stack */
    float *keys, *values; /* device, [LH_PLAIN_ENTRIES_AT_ONCE, head_dim]: the loaded block. values NULL: not wanted */
    float *inverse;       /* device: frequencies of the inverse rotation */
    int32_t *numbers;     /* device: positions where the view has none */
} lh_plain_entries;

/* Memory of the scratch stack. wants: keys alone, or keys and values. Close it also after a failure. */
typedef enum lh_plain_wants { LH_PLAIN_KEYS, LH_PLAIN_KEYS_AND_VALUES } lh_plain_wants;
lh_status lh_plain_entries_open(lh_plain_entries *out, const lh_exec *exec, const lh_ragged *entries,
                                const lh_rotation *rotation, lh_plain_wants wants);
void lh_plain_entries_close(lh_plain_entries *p);

/* Loads slots [first, first + count) of head h, at most LH_PLAIN_ENTRIES_AT_ONCE. */
void lh_plain_entries_load(const lh_plain_entries *p, int64_t h, int64_t first, int64_t count);

#endif

/* rotation.h - how the queries and keys of a layer are rotated by their positions (RoPE), and how that is undone. */
#ifndef LH_EXEC_ROTATION_H
#define LH_EXEC_ROTATION_H

#include "exec/exec.h"

typedef struct lh_rotation {
    const float *inv_freq; /* [rotary / 2], device */
    int64_t rotary;        /* dimensions */
    float scale;
    lh_query_scaling queries; /* a further factor, of queries alone */
    uint64_t hash;            /* of frequencies and factors: the rotations of two sequences are equal if these are */
} lh_rotation;

/* *out = [rotary / 2] frequencies, new memory of the host. */
lh_status lh_rotation_fetch(const lh_rotation *rotation, const lh_exec *exec, float **out);

/* The frequencies of the inverse rotation, which are the negative ones, into [rotary / 2] floats of the device. With
 * them rope wants the scale 1 / rotation->scale. */
lh_status lh_rotation_put_inverse(const lh_rotation *rotation, const lh_exec *exec, float *device);

/* The scaling that takes back the one of the queries. */
lh_query_scaling lh_rotation_unscaled(const lh_rotation *rotation);

#endif

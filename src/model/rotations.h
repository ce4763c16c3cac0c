/* rotations.h - the rotary embeddings of a sequence in all layers. They belong to a sequence and not to the model,
 * because some scalings depend on the final length of the sequence. */
#ifndef LH_MODEL_ROTATIONS_H
#define LH_MODEL_ROTATIONS_H

#include "exec/exec.h"
#include "import/config.h"

typedef struct lh_rotations lh_rotations;

/* length: tokens of the whole sequence, prompt and answer. Not collective. */
lh_status lh_rotations_open(lh_rotations **out, const lh_config *config, const lh_exec *exec, int64_t length);
void lh_rotations_close(lh_rotations *rotations); /* NULL is fine */

int64_t lh_rotations_bytes(const lh_config *config); /* bytes of device memory */

const lh_rotation *lh_rotations_layers(const lh_rotations *rotations); /* [layers], borrowed */

#endif

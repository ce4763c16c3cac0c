/* config_rope.h - the rotary embeddings of a configuration. For config.c, which reads everything else. */
#ifndef LH_IMPORT_CONFIG_ROPE_H
#define LH_IMPORT_CONFIG_ROPE_H

#include "import/families.h"

/* Fill rope_global and rope_local of a configuration whose family, sizes and max_positions are set. */
lh_status lh_config_rope(lh_config *config, const json_t *json, const char *name);

/* Free the memory of both. */
void lh_config_rope_clear(lh_config *config);

#endif

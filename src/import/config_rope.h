/* config_rope.h - the rotary part of a configuration; config.c's other half. */
#ifndef LH_IMPORT_CONFIG_ROPE_H
#define LH_IMPORT_CONFIG_ROPE_H

#include "import/families.h"

/* Fill rope_global and rope_local of a configuration whose family, sizes and max_positions are known. */
lh_status lh_config_rope(lh_config *config, const json_t *json, const char *name);

/* Frees what the two own. */
void lh_config_rope_clear(lh_config *config);

#endif

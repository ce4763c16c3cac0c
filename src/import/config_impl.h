/* config_impl.h - parts of the reading of a configuration: known members and rotary embeddings. */
#ifndef LH_IMPORT_CONFIG_IMPL_H
#define LH_IMPORT_CONFIG_IMPL_H

#include <jansson.h>

#include "base/mem.h"
#include "import/families.h"

/* LH_EINPUT, naming the member, if the configuration asks for a computation that no family here does. */
lh_status lh_config_refuse_members(const json_t *json, const char *name);

/* Append the names of members, in quotes, that are neither read for this family nor known to change nothing. Members
 * that are null, false, 0 or empty are not named. `json`: of the text model. */
lh_status lh_config_unknown_members(lh_buf *out, const lh_family *family, const json_t *json);

/* Fill rope_global and rope_local of a configuration with a family, sizes and max_positions; free them. */
lh_status lh_config_rope(lh_config *config, const json_t *json, const char *name);
void lh_config_rope_clear(lh_config *config);

#endif

/* config_members.h - which members of a configuration are known. */
#ifndef LH_IMPORT_CONFIG_MEMBERS_H
#define LH_IMPORT_CONFIG_MEMBERS_H

#include <jansson.h>

#include "base/mem.h"
#include "import/families.h"

/* LH_EINPUT, naming the member, if the configuration asks for a computation that no family here does. */
lh_status lh_config_refuse_members(const json_t *json, const char *name);

/* Append the names of members, in quotes, that are neither read for this family nor known to change nothing. Members
 * that are null, false, 0 or empty are not named. `json`: of the text model. */
lh_status lh_config_unknown_members(lh_buf *out, const lh_family *family, const json_t *json);

#endif

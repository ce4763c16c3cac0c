/* load_plugin.h - shared objects and Python files become plug-ins (plugin.h). */
#ifndef LH_POLICIES_LOAD_PLUGIN_H
#define LH_POLICIES_LOAD_PLUGIN_H

#include "policies/plugin.h"

/* True if the name of a policy is a file: it has a '/', or ends with ".so" or ".py". */
int lh_plugin_is_file(const char *name);

/* Loads a file, which runs its code, unless it is loaded. A Python file that has changed is loaded again, for policies
 * that are made from then on. LH_EINPUT, naming the file: it is missing, is no shared
 * object, has no table, a table of another ABI, or an invalid one; its name is the name of another policy. */
lh_status lh_plugin_open(const lh_loaded_plugin **out, const char *path);

#endif

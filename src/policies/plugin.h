/* plugin.h - scores from shared objects (lh_plugin of longhaul.h). A file is opened once and stays loaded to the end of
 * the process. From then on it is a policy by its name, with its options as parts; its score runs as a function of the
 * program does (the methods `caller` and `caller_rows`). */
#ifndef LH_POLICIES_PLUGIN_H
#define LH_POLICIES_PLUGIN_H

#include "policies/method.h"

typedef struct lh_loaded_plugin {
    lh_policy_preset preset; /* the first member: lh_plugin_of */
    const lh_plugin *table;
    lh_scorer scorer;
    lh_part parts[LH_PLUGIN_OPTIONS + 1]; /* a part without a name ends them */
    char *path;                           /* of the file, resolved */
    uint64_t hash;                        /* of its contents */
    struct lh_loaded_plugin *next;
} lh_loaded_plugin;

/* The newest plug-in by the name of its policy, NULL: there is none; and number i, NULL after the last. */
const lh_loaded_plugin *lh_plugin_find(const char *name);
const lh_loaded_plugin *lh_plugin_at(int i);

/* The plug-in of a preset, NULL: it has none. */
const lh_loaded_plugin *lh_plugin_of(const lh_policy_preset *preset);

/* Adds a plug-in, which stays. */
void lh_plugin_add(lh_loaded_plugin *plugin);

/* The reader and the writer of its options. */
lh_status lh_plugin_read_option(lh_policy *policy, const lh_part *part, const char *text);
void lh_plugin_write_option(const lh_policy *policy, const lh_part *part, lh_part_value *out);

#endif

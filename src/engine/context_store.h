/* context_store.h - evicted caches of contexts that were read before (--context-cache FOLDER), for the commands that
 * read one: `generate`, `chat`, `batch`. A cache is found by everything that its contents depend on: the tokens, the
 * model and its types, the resolved policy with its profiles, the seed, the rotary factors, the version. Any number of
 * ranks writes and reads it; cache/store.h has the files. */
#ifndef LH_ENGINE_CONTEXT_STORE_H
#define LH_ENGINE_CONTEXT_STORE_H

#include "engine/session.h"

typedef struct lh_context_store_options {
    const char *folder;  /* NULL: there is no store */
    int64_t limit_bytes; /* of all entries together; 0: no limit */
} lh_context_store_options;

/* Texts for people that go with the files: the name of the model, and `run` of lh_cache_extra. */
typedef struct lh_context_store_about {
    const char *model, *run;
} lh_context_store_about;

typedef struct lh_context_store lh_context_store;

/* Rank 0 creates the folder. All is borrowed. *out: NULL without a folder; all calls below do
 * nothing then. Collective. LH_EWRITE, LH_EUSAGE. */
lh_status lh_context_store_open(lh_context_store **out, lh_engine *engine, const lh_context_store_options *options,
                                lh_context_store_about about);
void lh_context_store_close(lh_context_store *store);

/* Collective. Opens the cache of a session with these options after `ids`, their prompt: *found, and *saved for
 * lh_session_read, after which lh_context_store_loaded ends the lock of the file. A damaged file is removed, with a
 * warning. */
lh_status lh_context_store_find(lh_context_store *store, const lh_session_options *options, const lh_tokens *ids,
                                lh_saved_kv *saved, int *found);
void lh_context_store_loaded(lh_context_store *store);

/* Collective. Keeps the cache of a session that has just read its prompt. One that cannot be written is a warning, and
 * nothing is done where another process writes it. */
lh_status lh_context_store_keep(lh_context_store *store, lh_session *session);

#endif

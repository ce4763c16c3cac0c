/* store.h - a folder of cache files that many processes share, each found by what its contents depend on. An entry is
 * two files: KEY.h5, a cache file, and KEY.json, its description with the identity of the contents, the size and the
 * hash of KEY.h5. KEY is the hash of the identity. The description is renamed into place last, and a cache file is
 * believed only where its description says so: a killed writer leaves nothing that is believed, and a damaged file is
 * found before HDF5 reads it. The time of modification of the description is the time of the last use.
 *
 * A reader holds a read lock of the description while it loads the cache; an entry that is read is not removed. All
 * calls are made by one process, and are not collective. */
#ifndef LH_CACHE_STORE_H
#define LH_CACHE_STORE_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

/* Names of an entry's files, of an identity (a JSON object). All zero is empty. */
typedef struct lh_store_entry {
    char *cache, *description;
    int lock; /* descriptor that holds the read lock, valid if `locked` */
    int locked;
} lh_store_entry;

lh_status lh_store_name(lh_store_entry *out, const char *folder, const json_t *identity);
void lh_store_release(lh_store_entry *entry); /* ends the lock */
void lh_store_clear(lh_store_entry *entry);

/* Creates the folder unless it exists. LH_EWRITE; LH_EUSAGE: the name is no folder. */
lh_status lh_store_make(const char *folder);

/* ABSENT: there is no entry, or an entry of another identity with the same hash. DAMAGED: description and cache file do
 * not match. WHOLE: the hash of the cache file was compared; the entry is locked and marked as used now. */
typedef enum lh_store_state { LH_STORE_ABSENT, LH_STORE_WHOLE, LH_STORE_DAMAGED } lh_store_state;
lh_status lh_store_look(lh_store_entry *entry, const json_t *identity, lh_store_state *state);

/* Claims an entry that is to be written (base/output.h): LH_EWRITE if another process writes it, or the
 * folder cannot be written.
 * Then comes the cache file, and the commit: with the members of `about` it writes the description, and ends the claim.
 * LH_EWRITE: the entry is removed, also if its cache file is larger than limit_bytes (0: no limit). */
lh_status lh_store_claim(const lh_store_entry *entry);
void lh_store_drop_claim(const lh_store_entry *entry);
lh_status lh_store_commit(const lh_store_entry *entry, const json_t *identity, const json_t *about,
                          int64_t limit_bytes);

/* Removes both files of an entry that is not read by another process. */
void lh_store_remove(const lh_store_entry *entry);

/* Removes entries, the least recently used first, until the remaining ones have at most limit_bytes (0: no limit); and
 * files that killed processes left, when they are an hour old. Other files of the folder are not touched. */
lh_status lh_store_sweep(const char *folder, int64_t limit_bytes);

/* *out: the descriptions of all entries, the last used first, each with `file`, `bytes` of both files and `last_use`
 * (Unix time) (json_decref). LH_EFILE: the folder holds files and no entries. */
lh_status lh_store_list(const char *folder, json_t **out);

#endif

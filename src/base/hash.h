/* hash.h - XXH64 of bytes in one piece or in several, for arrays in files and the identity of models. */
#ifndef LH_BASE_HASH_H
#define LH_BASE_HASH_H

#include <stdint.h>

#include "base/status.h"

uint64_t lh_hash64(const void *data, int64_t bytes);

typedef struct lh_hasher lh_hasher;

lh_status lh_hasher_open(lh_hasher **out);
void lh_hasher_close(lh_hasher *hasher); /* NULL is fine */
void lh_hasher_add(lh_hasher *hasher, const void *data, int64_t bytes);
uint64_t lh_hasher_value(const lh_hasher *hasher); /* of all bytes so far */

#endif

/* file_kinds.h - the kinds of file that this room writes, for `verify`. */
#ifndef LH_CACHE_FILE_KINDS_H
#define LH_CACHE_FILE_KINDS_H

#include "import/verify.h"

extern const lh_file_kind lh_cache_kind, lh_prefill_kind, lh_keep_sets_kind;

#endif

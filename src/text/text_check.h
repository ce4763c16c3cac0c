/* text_check.h - looks at what is given as text for what is none. */
#ifndef LH_TEXT_TEXT_CHECK_H
#define LH_TEXT_TEXT_CHECK_H

#include <stdint.h>

#include "base/status.h"

/* LH_EINPUT, with the way out, for a PDF, an archive, a compressed file or UTF-16. `name`: as in messages. */
lh_status lh_text_check_kind(const char *name, const char *text, int64_t bytes);

/* The same, and a warning with the first byte that is not UTF-8. */
lh_status lh_text_check(const char *name, const char *text, int64_t bytes);

#endif

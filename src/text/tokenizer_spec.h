/* tokenizer_spec.h - how the normalizer, pre_tokenizer and decoder of a tokenizer.json are written: an object whose
 * 'type' says what it is, or a Sequence of them. */
#ifndef LH_TEXT_TOKENIZER_SPEC_H
#define LH_TEXT_TOKENIZER_SPEC_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

/* Parts in all Sequences together, at most. */
enum { LH_SPEC_PARTS = 64 };

typedef struct lh_spec {
    const char *name;              /* of the file, for messages */
    const char *member;            /* "decoder" */
    const char *list;              /* what a Sequence calls the list of its parts: "decoders" */
    const char *(*type_at)(int i); /* types known besides Sequence; NULL behind the last */
    void *self;
    lh_status (*read)(void *self, int type, const json_t *part); /* a part of type_at(type) */
} lh_spec;

/* Read every part of `json` in order; there is none in NULL or null. Fails with LH_EINPUT, naming file and member, on
 * a type that is not known, on too many parts and on Sequences nested too deep. */
lh_status lh_spec_read(const lh_spec *spec, const json_t *json);

/* A string of a part, which must be there: new memory, *bytes long. `text` is what was found under `key`. */
lh_status lh_spec_text(const lh_spec *spec, const char *key, const json_t *text, char **out, int64_t *bytes);

#endif

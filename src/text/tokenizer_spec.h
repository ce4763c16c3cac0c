/* tokenizer_spec.h - the common form of normalizer, pre_tokenizer and decoder in a tokenizer.json: an object with a
 * 'type', or a Sequence of such objects. Each reader brings its table of types. */
#ifndef LH_TEXT_TOKENIZER_SPEC_H
#define LH_TEXT_TOKENIZER_SPEC_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

/* Maximum number of parts in all Sequences together. */
enum { LH_SPEC_PARTS = 64 };

typedef struct lh_spec {
    const char *name;              /* of the file, for messages */
    const char *member;            /* "decoder" */
    const char *list;              /* name of the list of parts in a Sequence: "decoders" */
    const char *(*type_at)(int i); /* known types except Sequence; NULL after the last */
    void *self;
    lh_status (*read)(void *self, int type, const json_t *part); /* a part of type_at(type) */
} lh_spec;

/* Read every part of `json` in order; NULL and null have none. Fails with LH_EINPUT, naming file and member, on
 * unknown types, too many parts and Sequences nested too deep. */
lh_status lh_spec_read(const lh_spec *spec, const json_t *json);

/* A required string of a part: new memory, *bytes long. `text` is the value found under `key`. */
lh_status lh_spec_text(const lh_spec *spec, const char *key, const json_t *text, char **out, int64_t *bytes);

#endif

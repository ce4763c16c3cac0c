/* quantiser.h - the member 'quantization_config' of a Hugging Face configuration: the quantisation method of a folder,
 * and the shapes of the scales of its matrices. The tensors, not the lists of modules in the member, decide which
 * matrices are quantised (quantised.h). */
#ifndef LH_IMPORT_QUANTISER_H
#define LH_IMPORT_QUANTISER_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

/* Bits of a set of methods. */
typedef enum lh_quant_method {
    LH_QUANT_FP8 = 1,
    LH_QUANT_COMPRESSED = 2,
    LH_QUANT_GPTQ = 4,
    LH_QUANT_AWQ = 8
} lh_quant_method;

/* The bits of a code, and the rows and columns of the rectangle of codes that share a scale; 0: all. */
typedef struct lh_quant_layout {
    int bits;
    int64_t rows, cols;
} lh_quant_layout;

enum { LH_QUANT_LAYOUTS = 16 };

typedef struct lh_quantiser {
    lh_quant_method method;
    const char *name;                          /* of the method; NULL: the folder is not quantised */
    lh_quant_layout layouts[LH_QUANT_LAYOUTS]; /* a matrix has the first one that fits the shapes of its tensors */
    int n;
    int zeros_less_one; /* true: 1 was subtracted from every zero point of a word, by one subtraction from the word */
} lh_quantiser;

/* Reads the member of the configuration or of its text model; *out is all 0 without the member. LH_EINPUT: a method or
 * an option that is not supported; the message names both the value and the supported ones. `name` stands for the
 * configuration. */
lh_status lh_quantiser_read(lh_quantiser *out, const json_t *config, const char *name);

/* Deletes the member. True if there was one. */
int lh_quantiser_drop(json_t *config);

#endif

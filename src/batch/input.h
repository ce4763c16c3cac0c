/* input.h - the input of a batch: a JSON Lines file of requests, one a line, as OpenAI's Batch API takes it. The file
 * is mapped; opening it parses each line once and keeps its place, its hash and its names, not the request. Lines of
 * white space alone are no requests; lines end with a line feed, before which a carriage return may stand, and the last
 * one may end with the file. A line that is no valid request is one that fails, alone, when it is read (request.h). */
#ifndef LH_BATCH_INPUT_H
#define LH_BATCH_INPUT_H

#include <stdint.h>

#include "base/status.h"

/* Limits: a longer line is not parsed, and fails; a line with a longer custom_id has none. */
enum { LH_BATCH_LINE_BYTES = 1 << 26, LH_BATCH_ID_BYTES = 512 };

typedef struct lh_batch_line {
    int64_t number;   /* in the file, from 1; blank lines count */
    uint64_t hash;    /* XXH64 of the line without its end */
    const char *text; /* [bytes], in the mapping */
    int64_t bytes;
    uint64_t context;      /* hash of its context_id and context_file; 0: it has neither */
    char *custom_id;       /* NULL: the line has none, a longer one, or the custom_id of an earlier line */
    char *context_file;    /* its name; NULL: the line has none */
    int64_t same_as;       /* number of an earlier line with the same custom_id; 0: none */
    uint64_t context_hash; /* of the text of its context_file (work.h); 0: it has none, or was not read yet */
} lh_batch_line;

typedef struct lh_batch_input lh_batch_input;

/* LH_EINPUT: the file is not regular, of another kind (text/text_check.h), or has no line that is an object with a
 * custom_id. */
lh_status lh_batch_input_open(lh_batch_input **out, const char *path);
void lh_batch_input_close(lh_batch_input *input); /* NULL is fine */

/* Keeps part `index`, from 0, of `count` parts: every count-th line, and whole contexts. A part may be empty. Lines
 * keep their numbers and hashes; a custom_id belongs to the first line of the whole input that has it. */
lh_status lh_batch_input_shard(lh_batch_input *input, int64_t index, int64_t count);

const char *lh_batch_input_path(const lh_batch_input *input);
int64_t lh_batch_input_count(const lh_batch_input *input);
int64_t lh_batch_input_total(const lh_batch_input *input); /* lines of all parts */

/* True if another part has a line with this hash. */
int lh_batch_input_is_elsewhere(const lh_batch_input *input, uint64_t hash);

const lh_batch_line *lh_batch_input_line(const lh_batch_input *input, int64_t i); /* i in [0, count) */

/* The line with this custom_id, or with this number; -1: none. */
int64_t lh_batch_input_find(const lh_batch_input *input, const char *custom_id);
int64_t lh_batch_input_find_number(const lh_batch_input *input, int64_t number);

/* LH_EINPUT if the file changed while it was open: before a line is read, and at the end. */
lh_status lh_batch_input_unchanged(const lh_batch_input *input);

/* From a custom_id to a number, by hash: which line of an input or an output it belongs to. */
typedef struct lh_ids lh_ids;

/* For at most `count` ids, which are borrowed. */
lh_status lh_ids_open(lh_ids **out, int64_t count);
void lh_ids_close(lh_ids *ids); /* NULL is fine */

/* The number of `id`; where it has none, -1, and from now on `number`. */
int64_t lh_ids_add(lh_ids *ids, const char *id, int64_t number);

/* The number of `id`, or -1. */
int64_t lh_ids_find(const lh_ids *ids, const char *id);

#endif

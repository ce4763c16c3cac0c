/* input.h - the input of a batch: a JSON Lines file of requests, one a line, as OpenAI's Batch API takes it. The file
 * is mapped; opening it parses each line once and keeps its place, its hash and its names, not the request. Lines of
 * white space alone are no requests; lines end with a line feed, before which a carriage return may stand, and the last
 * one may end with the file. A line that is no valid request is one that fails, alone, when it is read (request.h). */
#ifndef LH_BATCH_INPUT_H
#define LH_BATCH_INPUT_H

#include <stdint.h>

#include "base/status.h"

/* A longer line is not looked into, and fails. A custom_id of more bytes is none. */
enum { LH_BATCH_LINE_BYTES = 1 << 26, LH_BATCH_ID_BYTES = 512 };

typedef struct lh_batch_line {
    int64_t number;   /* in the file, from 1; blank lines count */
    uint64_t hash;    /* XXH64 of the line without its end */
    const char *text; /* [bytes], in the mapping */
    int64_t bytes;
    uint64_t context;      /* hash of its context_id and context_file; 0: it has neither */
    char *custom_id;       /* NULL: the line has none, a longer one, or the custom_id of an earlier line */
    char *context_file;    /* its name; NULL: the line has none */
    int64_t same_as;       /* number of the line that has the custom_id of this one, 0: none */
    uint64_t context_hash; /* of the text of its context_file (context_file.h); 0: it has none, or it is not read yet */
} lh_batch_line;

typedef struct lh_batch_input lh_batch_input;

/* LH_EINPUT: not a regular file, one of another kind (text/text_check.h), or one of which no line is an object with a
 * custom_id. */
lh_status lh_batch_input_open(lh_batch_input **out, const char *path);
void lh_batch_input_close(lh_batch_input *input); /* NULL is fine */

/* Leaves one of `count` parts, number `index` from 0: every count-th line, and whole contexts. It may be empty. Numbers
 * and hashes of lines stay, and a custom_id that a line of another part had first is none here, too. */
lh_status lh_batch_input_shard(lh_batch_input *input, int64_t index, int64_t count);

const char *lh_batch_input_path(const lh_batch_input *input);
int64_t lh_batch_input_count(const lh_batch_input *input);
int64_t lh_batch_input_total(const lh_batch_input *input); /* with those of all parts */

/* 1 if another part has a line with this hash. */
int lh_batch_input_is_elsewhere(const lh_batch_input *input, uint64_t hash);

const lh_batch_line *lh_batch_input_line(const lh_batch_input *input, int64_t i); /* i in [0, count) */

/* The line with this custom_id, or with this number; -1: none. */
int64_t lh_batch_input_find(const lh_batch_input *input, const char *custom_id);
int64_t lh_batch_input_find_number(const lh_batch_input *input, int64_t number);

/* LH_EINPUT if the file changed while it was open: before a line is read, and at the end. */
lh_status lh_batch_input_unchanged(const lh_batch_input *input);

#endif

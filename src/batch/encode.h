/* encode.h - a request as token ids: its prompt, or a context and the question about it. */
#ifndef LH_BATCH_ENCODE_H
#define LH_BATCH_ENCODE_H

#include "batch/common.h"

/* The ids of the prompt. LH_EINPUT, LH_EUSAGE. */
lh_status lh_batch_encode(const lh_batch_common *common, const lh_batch_request *request, lh_tokens *prompt);

/* The same where `context` is the text before the prompt, or before that of the last message: *before (NULL: not
 * wanted) ends with the text, and the prompt is what follows it. As `generate` encodes a question. */
lh_status lh_batch_encode_question(const lh_batch_common *common, const lh_batch_request *request,
                                   const lh_buf *context, lh_tokens *before, lh_tokens *prompt);

/* LH_EINPUT, LH_EUSAGE: it is empty, too long for the model with what comes `before` it and its answer, or no ids of
 * the model. */
lh_status lh_batch_check_tokens(const lh_batch_common *common, const lh_batch_request *request, int64_t before,
                                const lh_tokens *prompt);

/* The ids that end an answer, besides the tokenizer's end tokens. */
lh_status lh_batch_encode_ends(const lh_batch_common *common, const lh_batch_request *request, lh_tokens *ends);

#endif

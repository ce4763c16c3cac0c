/* prompt.h - encodes the user's text as token ids, plain or in a chat format; also reads lists of ids. */
#ifndef LH_ENGINE_PROMPT_H
#define LH_ENGINE_PROMPT_H

#include "engine/engine.h"
#include "engine/stops.h"
#include "text/chat.h"

/* Position of a question: part of the prompt, where policies that observe its end see it (question-aware), or after the
 * eviction of the context (context-only). */
typedef enum lh_scenario { LH_QUESTION_AWARE, LH_CONTEXT_ONLY, LH_SCENARIOS } lh_scenario;
extern const char *const lh_scenario_names[]; /* "question-aware", "context-only", NULL */

/* Where the rendering of a conversation ends: with the opening of an answer, after the last turn, or in the last turn,
 * after its contents, which the answer continues. */
typedef enum lh_chat_ending { LH_CHAT_OPENS_ANSWER, LH_CHAT_ENDS_TURN, LH_CHAT_CONTINUES_TURN } lh_chat_ending;

typedef struct lh_prompt_text {
    const char *text; /* of the prompt */
    int64_t bytes;
    const char *const *questions; /* questions about the text, each answered from the same cache */
    int64_t question_count;
    int special; /* true: special tokens are recognised in a prompt that stands alone, and in questions, where there is
                    no chat; a text with questions is a document, in which they never are */
    int is_document;              /* true: so is this text, though nothing is asked yet */
    const char *joint;            /* between the text and a question in the user's turn; NULL: an empty line */
    const char *answer;           /* how the model's answer begins, in a chat format; NULL: nothing is given */
    int chat;                     /* 1: render in a chat format, the text (and question) as the user's turn */
    const char *chat_template;    /* name or file; NULL: the model's own */
    const lh_chat_format *format; /* replaces both; NULL: none */
    const json_t *arguments;      /* variables of the chat template; NULL: none */
    lh_chat_ending ending;        /* of `messages` without a question */
    const char *system;           /* NULL: none */
    const lh_message *messages;   /* [message_count] a conversation that replaces text and system message; the questions
                                     belong to its last turn; NULL: none */
    int64_t message_count;
    int64_t positions; /* of the model: what cannot fit is refused before it is tokenized; 0: nothing is */
    int after_cache;   /* 1: continues a loaded cache, so no first token is added */
    int after_answer;  /* 1: the cache ends in the assistant's turn, so that a question opens a new one */
    lh_stops stops;    /* texts that end an answer: one that is a special token ends it at that token's id */
    int ignore_eos;    /* true: the end of a turn ends no answer */
} lh_prompt_text;

/* The chat format of the text: given, named, or the model's; lh_chat_close unless it was given. LH_EUSAGE if it has
 * none. */
lh_status lh_prompt_format(const lh_tokenizer *tok, const lh_prompt_text *in, const lh_chat_format **out);

/* The chat format of a text if nothing says whether it has one; lh_chat_close unless it was given. NULL where the model
 * has none; where its template cannot be read; and where a prompt that stands alone has been rendered in the format: it
 * begins with a turn and ends where an answer begins. Warnings say the latter two, and where a prompt begins with a
 * turn and ends otherwise. LH_EUSAGE if a system message or messages need a format. */
lh_status lh_prompt_auto_format(const lh_tokenizer *tok, const lh_prompt_text *in, const lh_chat_format **out);

/* *prompt: ids of the text, with a begin-of-sequence token if the tokenizer adds one and the text does not begin with
 * it; NULL: only the questions are encoded. *questions: new array [question_count]. With a chat format the rendered
 * template is cut where the question begins; the user's turn is the context, an empty line, the question. After a cache
 * the text of a chat is the next turn of the user; none there, and no question, continues an answer. */
lh_status lh_prompt_encode(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *prompt, lh_tokens **questions);

/* Tokens that end an answer besides the tokenizer's end tokens: of the chat format, and special tokens among the stop
 * texts. */
lh_status lh_prompt_ends(const lh_tokenizer *tok, const lh_prompt_text *in, lh_tokens *ends);

/* LH_EUSAGE for an id that is not in [0, vocab). */
lh_status lh_prompt_check_ids(const lh_tokens *ids, int64_t vocab);

/* Collective. Broadcasts rank 0's ids, which replace the ids of other ranks. */
lh_status lh_prompt_share(lh_comm *comm, lh_tokens *ids);

/* Append ids in [0, vocab) that are separated by white space, from a file, or from a text called `name` in messages.
 * LH_EINPUT, naming it and the invalid id. */
lh_status lh_prompt_ids(const char *path, int64_t vocab, lh_tokens *out);
lh_status lh_prompt_ids_parse(const char *name, const lh_buf *text, int64_t vocab, lh_tokens *out);

#endif

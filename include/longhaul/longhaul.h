/* longhaul.h - liblonghaul for programs: large language models over very long prompts, with the key-value cache
 * evicted.
 *
 * The whole interface is this header; it needs nothing else. A run:
 *
 *     lh_world_open     the ranks; collective, and so is every call that is marked so
 *     lh_engine_open    a model on them
 *     lh_policy_parse   which entries of the cache stay
 *     lh_complete       a prompt, or many questions about one long text, to answers
 *     …_close           in the reverse order
 *
 * A session (lh_session_start) is the same step by step. Under mpirun every rank makes the same calls with the same
 * arguments. Options are plain structs: a member that is zero has its default, which its comment says, and only those
 * marked as required must be set.
 *
 * Every struct begins with its size, which the program sets before it passes the struct, so that a library of another
 * version knows which members there are; LH_EUSAGE without it:
 *
 *     lh_engine_options options = {.size = sizeof options, .model = "model.h5"};
 *     lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = "model.h5"));    the same, in C
 *
 * Elements of arrays (lh_turn, lh_kept) have no size, and their members do not change.
 *
 * A callback returns a status: any status but LH_OK, on any rank, ends the call with it on all ranks. A program that
 * ends a call before its end returns LH_EINTERRUPTED: text and tokens so far are kept. A callback is set on all ranks
 * or on none.
 *
 * Functions that can fail return lh_status; a pointer that is NULL where it must not be, a number out of its bounds and
 * a call out of order are LH_EUSAGE and change nothing. Message and trace of a failure belong to the calling thread.
 *
 * An engine, its sessions included, works for one thread at a time: a call while another thread is at work in it is
 * LH_EUSAGE, and so is a call in a fork of the process that opened it. With several ranks all collective calls come
 * from one thread of a rank, since threads would come in another order on each. A tokenizer may be used by any number
 * of threads. */
#ifndef LONGHAUL_H
#define LONGHAUL_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* A struct with its size and these members, which are designated. */
#ifndef __cplusplus
#define LH_STRUCT(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})
#endif

/* ---- status ---- */

/* The values are the exit codes of the program. */
typedef enum lh_status {
    LH_OK = 0,
    LH_EPARTIAL = 1,      /* some requests of a batch failed */
    LH_EUSAGE = 2,        /* invalid options or arguments */
    LH_EINPUT = 3,        /* a bad or missing input file (model source, prompt, tokenizer) */
    LH_EFILE = 4,         /* a bad checkpoint, cache or trace */
    LH_ENOMEM = 5,        /* does not fit in memory */
    LH_EWRITE = 6,        /* cannot write */
    LH_ECOMM = 7,         /* communication between ranks failed */
    LH_EINTERNAL = 8,     /* internal error */
    LH_EINTERRUPTED = 75, /* interrupted, results so far are saved */
} lh_status;

/* What failed and what would be right, in one line; and the places in the source that it came through. Never NULL; ""
 * when nothing failed. Borrowed until the next failure or lh_error_clear of the thread. */
const char *lh_error_message(void);
const char *lh_error_trace(void);
void lh_error_clear(void);

/* Short name of a status, such as "bad input file". */
const char *lh_status_name(lh_status st);

const char *lh_version(void); /* "0.2.0" */

/* Level of messages on stderr: errors, warnings, information (the default), everything. */
typedef enum lh_log_level { LH_LOG_ERROR, LH_LOG_WARN, LH_LOG_INFO, LH_LOG_DEBUG } lh_log_level;
void lh_log_set_level(lh_log_level level);

/* Messages go to this function instead of stderr, a line at a time without its end, on the thread and the rank that
 * write them. NULL: to stderr again. Set it before the world is opened. */
typedef void (*lh_log_sink)(void *self, lh_log_level level, const char *line);
void lh_log_set_sink(lh_log_sink sink, void *self);

/* Release memory that a call returned. NULL is fine. */
void lh_free(void *p);

/* ---- world: the ranks of a run ---- */

typedef struct lh_world lh_world;

typedef struct lh_world_options {
    size_t size;              /* sizeof(lh_world_options) */
    double comm_timeout_s;    /* fail when ranks have waited this long for each other; 0: 600, INFINITY: never */
    const char *const *files; /* HDF5 files that will be read, ends with NULL: every rank probes their structure in a
                                 child process */
    const char *same;         /* text that must be the same on all ranks, such as the options of the run */
    const void *mpi_comm;     /* points to the MPI_Comm whose ranks are the world (longhaul/mpi.h); NULL: all ranks */
} lh_world_options;

/* Collective. One rank that no launcher started needs no MPI. Else MPI is initialised, unless the program has done so
 * (with MPI_THREAD_FUNNELED at least): then a duplicate of MPI_COMM_WORLD is used, whose error handler becomes
 * MPI_ERRORS_RETURN. When this fails *out may still hold a world, for lh_world_close. options may be NULL. Ranks of a
 * communicator of the program's own: lh_world_open_on (longhaul/mpi.h). */
lh_status lh_world_open(lh_world **out, const lh_world_options *options);

int lh_world_rank(const lh_world *world); /* rank 0 of size 1 without a world */
int lh_world_size(const lh_world *world);

/* Collective unless this rank failed alone. The last call: `st` is the status of the run. Writes the message of a
 * failure to stderr (on rank 0, if all ranks agreed on it), unless the program has cleared it (lh_error_clear),
 * finalises MPI if lh_world_open initialised it, after which it cannot start again in this process, and returns the
 * exit code. A rank that failed alone ends its process here with that code, since the others would wait for it. NULL is
 * fine. */
int lh_world_close(lh_world *world, lh_status st);

/* ---- engine: a model that is ready to run ---- */

typedef struct lh_engine lh_engine;

typedef struct lh_engine_options {
    size_t size;          /* sizeof(lh_engine_options) */
    const char *model;    /* required: a checkpoint made by `longhaul import`, or "random:SHAPE", a shape of `import
                             --random` that is drawn in memory; for a forecast also a model's folder */
    int64_t tp;           /* ranks that share the model: all ranks of the world, or 0; for a forecast any number */
    const char *device;   /* "auto" (NULL), "cpu", "cuda", "ref" */
    int share_device;     /* 1: ranks of one host may compute on the same CUDA device */
    const char *dtype;    /* "auto" (NULL: as the checkpoint), "f32", "bf16" */
    const char *kv_dtype; /* "auto" (NULL: as dtype, and q8 for caches that evict), "f32", "bf16", "q8" */
    int64_t threads;      /* of this rank, at most 1024; 0: the cores of the host, or the CPU quota of its container,
                             divided among its ranks, and at most OMP_NUM_THREADS */
    int deterministic;    /* 1: the same bits on any number of ranks */
    int64_t memory;       /* maximum bytes of a rank; 0: the free memory, divided among the ranks that share it */
    int64_t chunk;        /* tokens per chunk of the prompt; 0: chosen automatically */
    const char *weights;  /* format of a random model's weights: "q8_0", "q4_K_M", …; NULL: bf16 */
    const char *score_weights; /* file of weights for '--statistic linear' (`longhaul learn`); NULL: NAME.scores.h5 beside
                                  the model NAME.h5, if it exists */
} lh_engine_options;

/* Collective. The world is closed after the engine. Fails on all ranks or on none. */
lh_status lh_engine_open(lh_engine **out, lh_world *world, const lh_engine_options *options);
void lh_engine_close(lh_engine *engine); /* NULL is fine. It ends with the last open session and the last call */

/* Sizes of the model, and where and as which types this rank computes. Texts are borrowed from the engine. */
typedef struct lh_engine_info {
    size_t size;        /* sizeof(lh_engine_info) */
    const char *family; /* "llama", "qwen3", … */
    int64_t layers, heads, kv_heads, head_dim, hidden, vocab;
    int64_t max_positions;
    int64_t window;               /* of its sliding layers; 0: none slides */
    const char *device;           /* "NVIDIA H100 …", "AMD EPYC …, 2 cores" */
    const char *dtype, *kv_dtype; /* of weights, and of caches that keep all entries: "f32", "bf16", "q8" */
    int has_chat;                 /* 1: the model has a chat format */
    const char *evicted_kv_dtype; /* of caches that evict */
} lh_engine_info;

lh_status lh_engine_describe(lh_engine_info *out, const lh_engine *engine);

/* ---- policy: which entries are kept ---- */

typedef struct lh_policy lh_policy;

/* Parses a policy written as on the command line, such as "ada-snapkv --pool-size 31 --budget 20%" (`longhaul generate
 * --policy help` explains them). LH_EUSAGE, naming the nearest name. Without a name, as in "--budget 20%", it is the
 * default: `ask-later` where questions come after the eviction (`questions` of a completion, `asks_later` of a
 * session), else `longhaul`. */
lh_status lh_policy_parse(lh_policy **out, const char *words);
void lh_policy_close(lh_policy *policy); /* NULL is fine */

/* Entries per KV head, on average, that are kept of a prompt of `tokens` tokens: at least 1. If this is `tokens` or
 * more, nothing is evicted. policy NULL: the full cache. 0 for a budget in bytes ("--budget 512M"), whose entries
 * depend on the model and its cache. */
int64_t lh_policy_entries(const lh_policy *policy, int64_t tokens);

/* Inputs of a score in addition to keys, values and positions; combined (|). With them the policy observes query rows
 * ("--window", "--rows"): the last 32 of the prompt by default. Hidden states exist while the prompt is processed: such
 * a score evicts once, at its end. */
enum { LH_READS_QUERIES = 1, LH_READS_ATTENTION = 2, LH_READS_HIDDEN = 4 };

/* The entries of a KV head when it is evicted, and the observed rows of the query heads that share it: memory of the
 * host, valid during the call. Entries are in no particular order. */
typedef struct lh_head_entries {
    size_t size;            /* of this struct in the library */
    int64_t layer, kv_head; /* of the model */
    int64_t count, head_dim;
    const int32_t *positions;   /* [count] */
    const float *keys, *values; /* [count, head_dim]; keys are rotated */
    int64_t tokens;             /* seen so far: positions are below */
    int64_t window;             /* the last rows of the prompt whose entries are always kept; 0: none */
    int64_t group, rows;        /* query heads that share the KV head; observed rows, 0 if the score reads none */
    const float *queries;   /* [rows, group, head_dim], rotated and scaled: query . key is a logit; NULL: not read */
    const float *attention; /* [group, count] softmax weights, summed over the rows; NULL: not read */
    const int32_t *first_seen, *last_seen; /* [rows]: a row sees the entries at these positions and between them */
    float softcap;                         /* 0, or logits are softcap * tanh(query . key / softcap) */
    const double *options;                 /* of a plug-in: values of its options, in their order */
    char *error;                           /* [LH_SCORE_ERROR] "": where a score writes why it fails */
    int64_t hidden_size;                   /* of the model */
    const int32_t *row_positions;          /* [rows] position of each observed row in the prompt; NULL: none is read */
    /* [rows, hidden_size] input of the layer's query, key and value projections at these positions: the output of its
     * input norm, rounded to the type of the weights. Equal for all heads of a layer, and on all ranks; NULL: not read
     */
    const float *hidden;
} lh_head_entries;

enum { LH_SCORE_ERROR = 256 };

/* A score of the program: writes scores[count], finite numbers; the entries with the largest stay. Called for every
 * eviction of a layer and each KV head of the rank, also for entries that are protected or cannot be seen any more,
 * whose scores are not read. A head that lies on several ranks is scored on each: the same entries must get the same
 * scores. Any status but LH_OK ends the run. */
typedef struct lh_scorer {
    size_t size; /* sizeof(lh_scorer) */
    void *self;  /* passed to the function, as long as the policy is used */
    lh_status (*score)(void *self, const lh_head_entries *entries, float *scores);
    int64_t reads; /* LH_READS_QUERIES, LH_READS_ATTENTION, LH_READS_HIDDEN; 0: entries alone */
} lh_scorer;

/* A policy that ranks entries by a scorer; `words` are a budget and parts, without a name or a statistic, such as
 * "--budget 20% --sinks 4 --head-budget adaptive". The scorer is copied. */
lh_status lh_policy_of_scorer(lh_policy **out, const lh_scorer *scorer, const char *words);

/* ---- plug-in: a score in a shared object ---- */

/* `--policy ./my.so`, and lh_policy_parse of "./my.so", load a shared object and resolve the policy that its table
 * describes (docs/adding.md). The object needs this header and no library:
 *
 *     const lh_plugin longhaul_plugin = {sizeof longhaul_plugin, LH_PLUGIN_ABI, .name = "mine", .score = score};
 *
 * LH_PLUGIN_ABI is the version of this interface: a plug-in of another version must be compiled again, and is refused.
 * New members at the end of a struct do not change the version, since `size` says which members there are. */
enum { LH_PLUGIN_ABI = 1, LH_PLUGIN_OPTIONS = 6 };

/* An option of a plug-in, "--name": a number from min to max (equal: any), or one of the words, of which the value is
 * the index. */
typedef struct lh_plugin_option {
    const char *name, *def, *help; /* without the dashes; required: its default as text; a sentence */
    double min, max;
    int integer;              /* 1: an integer */
    const char *const *words; /* ends with NULL; NULL: a number */
} lh_plugin_option;

typedef struct lh_plugin {
    size_t size;       /* sizeof(lh_plugin) */
    int64_t abi;       /* LH_PLUGIN_ABI */
    const char *name;  /* required: of the policy in tables and files: lower-case letters, digits and '-' */
    const char *help;  /* what scores high, one line without a full stop; may be NULL */
    const char *parts; /* parts of the policy that differ from the defaults, such as "--window 64 --pool avg"; NULL */
    int64_t reads;     /* LH_READS_QUERIES, LH_READS_ATTENTION, LH_READS_HIDDEN; 0: entries alone */
    const lh_plugin_option *options; /* at most LH_PLUGIN_OPTIONS; one without a name ends them; NULL: none */
    const char *(*check)(const double *options); /* why these values do not go together, NULL: they do; may be NULL */
    lh_status (*score)(void *self, const lh_head_entries *entries, float *scores); /* lh_scorer; self is NULL */
} lh_plugin;

/* The table, a symbol of the shared object. */
extern const lh_plugin longhaul_plugin;

/* ---- completion: text to text ---- */

/* What is added to the logit of a token; -INFINITY: it is not chosen. */
typedef struct lh_logit_bias {
    int32_t id; /* one that the model does not have is passed over */
    float bias;
} lh_logit_bias;

/* In this order: bias, repeat penalty, frequency and presence penalty, temperature, top-k, top-p (nucleus), min-p. All
 * zero: greedy. */
typedef struct lh_sampling {
    size_t size;            /* sizeof(lh_sampling) */
    double temperature;     /* 0: greedy, the largest logit, the lowest id among equals */
    int64_t top_k;          /* 0 or -1: off */
    double top_p, min_p;    /* 0: off, and so is a top_p of 1 */
    double repeat_penalty;  /* 0 or 1: off; logits of tokens seen are divided by it where positive, else multiplied */
    uint64_t seed, request; /* random choices are keyed by (seed, request, step) */
    /* What is taken from the logits of tokens among the last `step` ones, which are the answer: for each time that a
     * token came, and once. 0: off. */
    double frequency_penalty, presence_penalty;
    const lh_logit_bias *bias; /* [bias_count], ids all different */
    int64_t bias_count;
} lh_sampling;

typedef enum lh_finish_reason { LH_FINISH_STOP, LH_FINISH_LENGTH, LH_FINISH_INTERRUPTED } lh_finish_reason;

/* auto: where the model has a chat format, unless the prompt has no questions and is rendered in it already: it begins
 * with a turn and ends where an answer begins. */
typedef enum lh_chat_use { LH_CHAT_AUTO, LH_CHAT_ON, LH_CHAT_OFF } lh_chat_use;

/* A turn of a conversation. */
typedef struct lh_turn {
    const char *role, *text; /* "system", "user", "assistant", or a role that the template knows; UTF-8 */
} lh_turn;

typedef struct lh_completion_options {
    size_t size;          /* sizeof(lh_completion_options) */
    const char *prompt;   /* required, unless there are turns or a loaded cache: UTF-8 */
    const lh_turn *turns; /* [turn_count] a conversation that replaces prompt and system message; questions are
                           * asked after its last turn, which is the user's */
    int64_t turn_count;
    const char *const *questions; /* [question_count]: the cache is evicted after the prompt, then each is answered from
                                   * it */
    int64_t question_count;       /* 0: the prompt itself is continued */
    lh_chat_use chat;             /* is the prompt the user's turn, in the chat format of the model? */
    const char *system;           /* system message; NULL: the format's default */
    const lh_policy *policy;      /* NULL: the full cache, or the policy of the loaded cache */
    const char *load_cache;       /* a cache that was saved: the prompt, if there is one, continues it; NULL: none */
    const char *save_cache;       /* where the cache is saved after the prompt; NULL: nowhere */
    const lh_sampling *sampling;  /* NULL: greedy */
    int64_t max_new;              /* maximum tokens of an answer; 0: 128. Its memory is forecast: prompt, question and
                                   * so many tokens must fit in the positions of the model */
    const char *const *stops;     /* [stop_count] texts, none empty, that end an answer and are removed from it, or
                                   * special tokens */
    int64_t stop_count;
    int logprobs; /* 1: answers have the logarithms of their tokens' probabilities */
    int kept;     /* 1: the completion has the positions that every head keeps of the prompt */
    void *self;   /* passed to the functions below, which are called on every rank; each may be NULL */
    lh_status (*prefill)(void *self, int64_t done, int64_t total); /* tokens x layers */
    /* Final text of an answer, one call a token. */
    lh_status (*token)(void *self, int64_t answer, int32_t id, const char *text, int64_t bytes);
} lh_completion_options;

typedef struct lh_completion_answer {
    size_t size; /* of this struct in the library */
    /* UTF-8, NUL-terminated, without special tokens. Without a chat format it continues the text of the prompt, and may
     * begin with a blank. */
    const char *text;
    const int32_t *ids;
    int64_t tokens; /* in ids */
    lh_finish_reason finish;
    const double *logprobs; /* [tokens] natural, of the model: before temperature and penalty; on rank 0, where asked */
} lh_completion_answer;

/* Positions of the prompt that a KV head keeps, ascending. */
typedef struct lh_kept {
    const int32_t *positions;
    int64_t count;
} lh_kept;

typedef struct lh_completion {
    size_t size;                                /* of this struct in the library */
    const lh_completion_answer *const *answers; /* [answer_count] */
    int64_t answer_count;
    int64_t prompt_tokens, new_tokens; /* questions count as prompt; new: of all answers */
    int64_t entries, entries_kept;     /* of the whole model after the prompt: key-value pairs seen, and kept */
    const lh_kept *kept;               /* [layers, kv_heads] of the model, where asked; else NULL */
    double prefill_s, evict_s, decode_s;
} lh_completion;

/* Collective. LH_EUSAGE for an impossible request (empty prompt, longer than the model allows, …), LH_ENOMEM before
 * anything is computed if it does not fit. LH_EINTERRUPTED, from a callback: *out has the answers so far. */
lh_status lh_complete(const lh_completion **out, lh_engine *engine, const lh_completion_options *options);
void lh_completion_close(const lh_completion *completion); /* NULL is fine */

/* ---- tokenizer ---- */

typedef struct lh_tokenizer lh_tokenizer;

const lh_tokenizer *lh_engine_tokenizer(const lh_engine *engine); /* NULL: the model has none */

int64_t lh_tokenizer_vocab(const lh_tokenizer *tok); /* largest id + 1 */
int32_t lh_tokenizer_bos(const lh_tokenizer *tok);   /* -1: none */
int lh_tokenizer_adds_bos(const lh_tokenizer *tok);
int lh_tokenizer_is_eos(const lh_tokenizer *tok, int32_t id);
int32_t lh_tokenizer_special(const lh_tokenizer *tok, const char *text); /* the special token of this text; -1: none */

/* LH_ENCODE_SPECIAL recognises special tokens in the text, LH_ENCODE_PLAIN treats them as text. Either can be combined
 * (|) with LH_ENCODE_CONTINUES: the text continues another, so the tokenizer puts no space in front of it. */
typedef enum lh_encode { LH_ENCODE_PLAIN = 0, LH_ENCODE_SPECIAL = 1, LH_ENCODE_CONTINUES = 2 } lh_encode;

/* The ids of `bytes` bytes of UTF-8 text (invalid bytes count as U+FFFD), without a begin-of-sequence token: new memory
 * (lh_free) of *n ids. */
lh_status lh_tokenizer_ids(const lh_tokenizer *tok, const char *text, int64_t bytes, lh_encode how, int32_t **out,
                           int64_t *n);

/* The text of n ids, special tokens included: new memory (lh_free), NUL-terminated. */
lh_status lh_tokenizer_text(const lh_tokenizer *tok, const int32_t *ids, int64_t n, char **out);

/* ---- session: step by step ---- */

/* One sequence: a prompt, its cache, questions, generated tokens. An engine can have any number of sessions. */
typedef struct lh_session lh_session;

typedef struct lh_session_start_options {
    size_t size;             /* sizeof(lh_session_start_options) */
    const lh_policy *policy; /* copied, so that it may be closed before the session; NULL: the full cache */
    int64_t prompt;          /* required: tokens of the prefill; 0 for lh_session_load */
    int64_t more;       /* maximum tokens after it: questions and answers. With the prompt they fit in the positions
                           of the model */
    int64_t block;      /* maximum tokens of a lh_session_block, at most `more`; 0: it is not called */
    int asks_later;     /* 1: questions come after the prefill, which decides the default policy */
    int restores;       /* 1: lh_session_snapshot and lh_session_restore will be called */
    uint64_t seed;      /* of the policy's random choices */
    int64_t together;   /* maximum sessions of lh_sessions_step: this one, its forks and those beside it; 0: one */
    lh_session *beside; /* a session of the same engine that this one can step together with; it may be closed
                           earlier, and its memory is freed with the last session beside it; NULL: none */
} lh_session_start_options;

/* Collective, as all calls below unless stated otherwise. LH_ENOMEM, before anything is computed, if the run does not
 * fit on a rank. */
lh_status lh_session_start(lh_session **out, lh_engine *engine, const lh_session_start_options *options);
void lh_session_close(lh_session *session); /* not collective; NULL is fine. In a callback: when its call has ended */

/* Called on every rank after every chunk of a layer with tokens x layers done and in total. Any status but LH_OK stops
 * the prefill with it. */
typedef struct lh_forward_progress {
    size_t size; /* sizeof(lh_forward_progress) */
    void *self;
    lh_status (*done)(void *self, int64_t done, int64_t total);
} lh_forward_progress;

/* Prefill the prompt, once, in an empty session, then evict the cache; progress may be NULL. Then append a block of
 * tokens (a question), or a single token: LH_EUSAGE before the prompt, and beyond the lengths that the session was
 * started for. A session in which one of these failed in another way can only be closed. */
lh_status lh_session_prefill(lh_session *s, const int32_t *ids, int64_t n, const lh_forward_progress *progress);
lh_status lh_session_block(lh_session *s, const int32_t *ids, int64_t n);
lh_status lh_session_step(lh_session *s, int32_t id);

/* A token each for n sessions in one step, which reads the weights once: sessions that share their forward pass, since
 * they are forks of one another or were started `beside` one, at most `together` of them. */
lh_status lh_sessions_step(lh_session *const *sessions, const int32_t *ids, int64_t n);

/* Samples the next token from the last row of logits; sampling NULL: greedy. step: number of the draw, which keys its
 * randomness. LH_EUSAGE after the tokens of another session with the same forward pass: its logits are of that one. */
lh_status lh_session_sample(lh_session *s, const lh_sampling *sampling, int64_t step, int32_t *id);

/* The logits of the last row on rank 0, in *rows rows (1) of [vocab] floats of host memory, borrowed until the next
 * call; elsewhere NULL. */
lh_status lh_session_logits(lh_session *s, const float **logits, int64_t *rows);

/* Store this state; restore it, any number of times. For a session that was started with `restores`. */
lh_status lh_session_snapshot(lh_session *s);
lh_status lh_session_restore(lh_session *s);

/* A session that continues from this state, of the same policy, for `more` tokens and blocks of at most `block`: it
 * shares the entries of `from` until they change, and has no logits before its first token. `from` appends no tokens
 * while it has forks; it may be closed before them, and its memory is freed with the last one. */
lh_status lh_session_fork(lh_session **out, lh_session *from, int64_t more, int64_t block);

/* Save the state after all tokens so far as a cache file, as `generate --save-cache` does; start a session from one,
 * on any number of ranks. options: `prompt` 0; `policy` NULL: the one of the file, or the same policy. A score of the
 * program (lh_policy_of_scorer) is not in the file: if it is needed while decoding, its policy must be given. */
lh_status lh_session_save(lh_session *s, const char *path);
lh_status lh_session_load(lh_session **out, lh_engine *engine, const char *path,
                          const lh_session_start_options *options);

/* The positions that a KV head of the model holds now, ascending: new memory (lh_free) of *n positions, on every
 * rank. */
lh_status lh_session_kept(lh_session *s, int64_t layer, int64_t kv_head, int32_t **positions, int64_t *n);

/* All tokens so far: *ids is borrowed until the next call; returns their number. Not collective. 0 of NULL. */
int64_t lh_session_ids(const lh_session *s, const int32_t **ids);

/* ---- forecast: will it fit? ---- */

/* Bytes of the rank that needs the most. */
typedef struct lh_forecast {
    size_t size;            /* sizeof(lh_forecast), before the call */
    int64_t weights, cache; /* cache: the entries that are kept */
    int64_t peak;           /* maximum at any time */
    int64_t free;           /* of a rank's device, or the memory that the options give */
    int fits;
} lh_forecast;

/* Of the session that these options start: its default policy, questions and restored states too. Uses the
 * configuration of the model only, no weights. */
lh_status lh_forecast_make(lh_forecast *out, const lh_engine_options *options, const lh_session_start_options *run);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif

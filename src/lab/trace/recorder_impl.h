/* recorder_impl.h - the recorder's state, and what its files call of each other. */
#ifndef LH_LAB_TRACE_RECORDER_IMPL_H
#define LH_LAB_TRACE_RECORDER_IMPL_H

#include "lab/trace/recorder.h"
#include "lab/trace/segment.h"

/* What this rank records of the layer under way; arrays of the host. */
typedef struct lh_recorded_layer {
    void *keys, *values;     /* [counted heads, tokens, head_dim] as the cache stores them; NULL: not recorded */
    void *queries, *outputs; /* [rows, q_count, head_dim] */
    float *lse;              /* [rows, q_count] */
    float *key_squares, *value_squares; /* [counted heads, tokens] */
    int64_t next_row;                   /* the first that has not passed yet */
} lh_recorded_layer;

/* Rows after the prompt that wait to be written, of every recorded layer. */
typedef struct lh_recorded_after {
    lh_buf *queries, *outputs, *lse, *keys, *values; /* [layers] */
    int64_t *rows;                                   /* [layers] of them that wait */
    int64_t written;                                 /* rows in earlier segments */
    int64_t segments;
    lh_buf positions, answers, tokens; /* int32, of all rows, on rank 0 */
} lh_recorded_after;

/* Steps after the prompt; all but the seconds on rank 0. */
typedef struct lh_recorded_steps {
    lh_buf seconds;          /* float */
    lh_buf rows;             /* int32: of /decode, the last of each step */
    lh_buf ids, logits, lse; /* int32 and float [top], float */
    int64_t count, rows_seen;
} lh_recorded_steps;

/* Statistics of the entries, as policies count them (evict.h). */
typedef struct lh_recorded_stats {
    lh_evictor *evictor;
    lh_entry_stats at;
    float *device; /* [slots, at.count]; NULL: none are recorded */
    int64_t slots, normless;
} lh_recorded_stats;

struct lh_trace {
    lh_trace_options options;
    const lh_trace_level *level;
    lh_dtype row_type;
    lh_engine_view view;
    lh_kv_shape shape;
    int64_t prompt;     /* tokens */
    int64_t last_layer; /* that is recorded */
    uint8_t *layers;    /* [layers] 1: recorded */
    int32_t *positions; /* [rows] of the recorded query rows */
    int64_t rows;
    char *folder;
    lh_segment_writer *writer;
    lh_recorded_layer layer;
    lh_recorded_after after;
    lh_recorded_steps steps;
    lh_recorded_stats stats;
    lh_buf staging; /* rows on the host */
    float *seconds; /* [layers] of the prefill, on this rank */
    double began_s;
};

/* recorder_layer.c: rows of the prompt, and the end of a layer. */
lh_status lh_record_prompt_rows(lh_trace *t, const lh_evict_job *job, const lh_kv_rows *rows);
lh_status lh_record_whole(lh_trace *t, const lh_evict_job *job);
void lh_recorded_layer_clear(lh_recorded_layer *layer);

/* recorder_after.c: rows after it, what waits, and the index of all rows into the last segment. */
lh_status lh_record_after(lh_trace *t, const lh_evict_job *job, const lh_kv_rows *rows);
lh_status lh_record_flush(lh_trace *t);
lh_status lh_record_index(lh_trace *t, lh_segment *segment);
void lh_recorded_after_clear(lh_recorded_after *after, int64_t layers);

/* recorder_after.c: a step after the prompt, collective; all of them into the last segment. */
lh_status lh_record_step(lh_trace *t, lh_session *session, int64_t tokens, double seconds);
lh_status lh_record_steps(lh_trace *t, lh_segment *segment);
void lh_recorded_steps_clear(lh_recorded_steps *steps);

/* Copies `rows` rows of `width` floats with stride ld to the host: row r is at *out + r * ld. */
lh_status lh_record_fetch(lh_trace *t, const float *device, const lh_query_rows *rows, int64_t width, int64_t ld,
                          const float **out);

/* Add a slab of a layer's array: rank, dims and place as given. Takes the data. */
lh_status lh_record_slab(lh_segment *segment, int64_t layer, const char *array, const lh_slab *slab);

#endif

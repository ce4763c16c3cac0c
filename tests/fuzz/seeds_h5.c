/* Inputs without damage: HDF5 files. Each comes three times: as the program writes it; without the hash of its
 * attributes, which would find most damage before anything else does; and in HDF5's oldest format, whose headers carry
 * no checksums of their own. */
#include <hdf5.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "kv/kv_impl.h"
#include "kv/save.h"
#include "report/sample.h"

static const char blocks_config[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 8, \"hidden_size\": 32, \"intermediate_size\": 64, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1}";

/* ---- one file, three times ---- */

static herr_t copy_attribute(hid_t from, const char *name, const H5A_info_t *info, void *arg)
{
    hid_t to = *(hid_t *)arg, a = H5Aopen(from, name, H5P_DEFAULT), type = H5Aget_type(a), space = H5Aget_space(a);
    hid_t b = H5Acreate2(to, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    char value[256] = {0}; /* a number, or the address of a string */
    (void)info;
    herr_t rc = H5Tget_size(type) <= sizeof value && H5Aread(a, type, value) >= 0 ? H5Awrite(b, type, value) : -1;
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, value);
    H5Aclose(a), H5Aclose(b), H5Tclose(type), H5Sclose(space);
    return rc;
}

static herr_t copy_attributes(hid_t from, hid_t to)
{
    hsize_t at = 0;
    return H5Aiterate2(from, H5_INDEX_NAME, H5_ITER_INC, &at, copy_attribute, &to);
}

static herr_t copy_attributes_of(hid_t from, const char *name, const H5L_info_t *info, void *arg)
{
    hid_t a = H5Oopen(from, name, H5P_DEFAULT), b = H5Oopen(*(hid_t *)arg, name, H5P_DEFAULT);
    (void)info;
    herr_t rc = copy_attributes(a, b);
    H5Oclose(a), H5Oclose(b);
    return rc;
}

static herr_t copy_object(hid_t from, const char *name, const H5L_info_t *info, void *arg)
{
    hid_t how = H5Pcreate(H5P_OBJECT_COPY);
    (void)info;
    H5Pset_copy_object(how, H5O_COPY_WITHOUT_ATTR_FLAG); /* HDF5 1.10 crashes on texts among more than 8 */
    herr_t rc = H5Ocopy(from, name, *(hid_t *)arg, name, how, H5P_DEFAULT);
    H5Pclose(how);
    return rc;
}

/* `to` becomes a copy of `from` in HDF5's oldest format. */
static lh_status copy_to_oldest(const char *from, const char *to)
{
    lh_status st = LH_OK;
    hid_t a = H5Fopen(from, H5F_ACC_RDONLY, H5P_DEFAULT), b = -1;
    if (a >= 0) b = H5Fcreate(to, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (b < 0 || H5Literate(a, H5_INDEX_NAME, H5_ITER_INC, NULL, copy_object, &b) < 0 || copy_attributes(a, b) < 0 ||
        H5Lvisit(a, H5_INDEX_NAME, H5_ITER_INC, copy_attributes_of, &b) < 0)
        LH_FAIL_DONE(LH_EINTERNAL, "cannot copy '%s' to '%s'", from, to);
done:
    if (b >= 0) H5Fclose(b);
    if (a >= 0) H5Fclose(a);
    return st;
}

static herr_t remove_hash(hid_t file, const char *name, const H5L_info_t *link, void *arg)
{
    (void)link, (void)arg;
    return H5Aexists_by_name(file, name, "xxh64", H5P_DEFAULT) > 0 ? H5Adelete_by_name(file, name, "xxh64", H5P_DEFAULT)
                                                                   : 0;
}

/* Without the seal and the hashes of arrays, readers see numbers that would be refused as damage. */
static lh_status remove_hashes(const char *path)
{
    lh_status st = LH_OK;
    hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    if (f < 0 || H5Adelete(f, "attributes_xxh64") < 0 || H5Lvisit(f, H5_INDEX_NAME, H5_ITER_INC, remove_hash, NULL) < 0)
        LH_FAIL_DONE(LH_EINTERNAL, "'%s' has no seal", path);
done:
    if (f >= 0) H5Fclose(f);
    return st;
}

static lh_status add_three(fz_seeds *seeds, const char *path)
{
    lh_status st = LH_OK;
    char *oldest = NULL;
    LH_TRY_DONE(lh_asprintf(&oldest, "%s.oldest", path));
    LH_TRY_DONE(fz_seeds_add_file(seeds, path));
    LH_TRY_DONE(remove_hashes(path));
    LH_TRY_DONE(fz_seeds_add_file(seeds, path));
    LH_TRY_DONE(copy_to_oldest(path, oldest));
    LH_TRY_DONE(fz_seeds_add_file(seeds, oldest));
done:
    if (oldest) unlink(oldest);
    unlink(path);
    lh_free(oldest);
    return st;
}

/* Matrices of blocks of different formats; the zeros of other weights are plain. */
static lh_status put_blocks(void *self, lh_weight weight, int64_t layer)
{
    static const char *const formats[] = {"q4_0", "q8_0", "q5_1", "q4_1"};
    lh_status st = LH_OK;
    lh_checkpoint_writer *w = self;
    lh_config config = {0};
    const lh_format *format = lh_format_named(lh_weight_takes_blocks(weight) ? formats[weight % 4] : "f32");
    int64_t rows, cols;
    char *data = NULL;
    LH_TRY_DONE(lh_config_parse_text(&config, blocks_config, sizeof blocks_config - 1, "config.json"));
    lh_weight_shape(&config, weight, &rows, &cols);
    LH_TRY_DONE(lh_calloc(&data, rows, lh_format_bytes(format, cols)));
    LH_TRY_DONE(lh_checkpoint_begin(w, weight, layer, format));
    LH_TRY_DONE(lh_checkpoint_rows(w, data, rows));
    LH_TRY_DONE(lh_checkpoint_end(w));
done:
    lh_free(data);
    lh_config_clear(&config);
    return st;
}

static lh_status write_blocks(const char *path)
{
    lh_status st = LH_OK;
    lh_checkpoint_writer *w = NULL;
    lh_config config = {0};
    const lh_checkpoint_meta meta = {.config_json = blocks_config};
    LH_TRY_DONE(lh_config_parse_text(&config, blocks_config, sizeof blocks_config - 1, "config.json"));
    LH_TRY_DONE(lh_checkpoint_create(&w, path, &meta));
    LH_TRY_DONE(lh_checkpoint_each(&config, put_blocks, w));
    st = lh_checkpoint_finish(w);
    w = NULL;
    LH_TRY_DONE(st);
done:
    lh_checkpoint_drop(w);
    lh_config_clear(&config);
    return st;
}

lh_status fz_checkpoint_seeds(fz_seeds *seeds, const char *folder)
{
    static const char *const types[] = {"f32", "bf16"};
    lh_status st = LH_OK;
    char *source = NULL, *path = NULL;
    LH_TRY_DONE(lh_path_join(&source, folder, "source"));
    LH_TRY_DONE(lh_path_join(&path, folder, "seed.h5"));
    LH_TRY_DONE(fz_put_model(source));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        LH_TRY_DONE(lh_import(&(lh_import_options){.src = source, .out = path, .dtype = types[i]}));
        LH_TRY_DONE(add_three(seeds, path));
    }
    LH_TRY_DONE(write_blocks(path));
    LH_TRY_DONE(add_three(seeds, path));
done:
    lh_free(source);
    lh_free(path);
    return st;
}

/* ---- caches ---- */

enum { MODEL = 4711, LAYERS = 2, HEADS = 4, KV_HEADS = 2, DIM = 4, TOKENS = 40, MORE = 8, VOCAB = 5 };

static const lh_policy_options policies[FZ_CACHES + FZ_PREFILLS] = {
    {.policy = "streaming", .budget = "12"},
    {.policy = "ada-snapkv", .budget = "16", .parts = {.evict = "every:4", .window = "4", .pool_size = "3"}},
    {.policy = "longhaul", .budget = "16", .parts = {.window = "4", .pool_size = "3"}},
    {.policy = "h2o", .budget = "14"}};

struct fz_cache {
    lh_device *device;
    lh_stream *stream;
    lh_comm *comm, *device_comm;
    lh_heads heads;
    uint8_t sliding[LAYERS];
    float rows[TOKENS * HEADS * DIM], lse[TOKENS * HEADS];
    int32_t positions[TOKENS];
};

lh_status fz_cache_open(fz_cache **out)
{
    lh_status st = LH_OK;
    fz_cache *c = NULL;
    LH_TRY_DONE(lh_calloc(&c, 1, sizeof *c));
    LH_TRY_DONE(lh_device_open(&c->device, &(lh_device_choice){.kind = LH_DEVICE_CPU}));
    LH_TRY_DONE(lh_stream_open(&c->stream, c->device));
    LH_TRY_DONE(lh_comm_open_self(&c->comm));
    LH_TRY_DONE(lh_comm_open_on(&c->device_comm, &(lh_comm_on){.host = c->comm, .stream = c->stream}));
    LH_TRY_DONE(lh_heads_of(&c->heads, HEADS, KV_HEADS, 0, 1));
    c->sliding[1] = 1;
    for (int i = 0; i < TOKENS * HEADS * DIM; i++) c->rows[i] = sinf((float)i);
    for (int i = 0; i < TOKENS * HEADS; i++) c->lse[i] = 4;
    for (int i = 0; i < TOKENS; i++) c->positions[i] = i;
    *out = c;
    c = NULL;
done:
    fz_cache_close(c);
    return st;
}

void fz_cache_close(fz_cache *c)
{
    if (!c) return;
    lh_comm_close(c->device_comm);
    lh_comm_close(c->comm);
    if (c->stream) lh_stream_close(c->stream);
    if (c->device) lh_device_close(c->device);
    lh_free(c);
}

static lh_status open_kv(fz_cache *c, int kind, lh_kv **kv)
{
    lh_policy plan;
    const lh_dtype type = kind % 2 ? LH_BF16 : LH_F32;
    lh_kv_shape shape = {.heads = c->heads,
                         .layers = LAYERS,
                         .head_dim = DIM,
                         .types = {type, type, type},
                         .scale = 0.5f,
                         .window = 20,
                         .sliding = c->sliding};
    LH_TRY(lh_policy_resolve(&plan, &policies[kind]));
    LH_TRY(lh_kv_open(
        kv, &(lh_exec){.ops = &lh_ops_ref, .stream = c->stream, .comm = c->comm, .device_comm = c->device_comm}, &shape,
        &plan));
    return LH_OK;
}

static lh_status fill_layers(fz_cache *c, lh_kv *kv, int64_t first, int64_t end)
{
    for (int64_t l = first; l < end; l++) {
        lh_ragged *view = NULL;
        LH_TRY(lh_kv_prefill_begin(kv, l, &view));
        LH_TRY(lh_ops_ref.append(c->stream, &(lh_append_args){.seqs = view,
                                                              .batch = 1,
                                                              .tokens = TOKENS,
                                                              .ld = HEADS * DIM,
                                                              .k = c->rows,
                                                              .v = c->rows + KV_HEADS * DIM,
                                                              .positions = c->positions}));
        if (lh_kv_wants_rows(kv, l) < TOKENS)
            lh_kv_record(kv, l,
                         &(lh_kv_rows){.queries = {.q = c->rows,
                                                   .lse = c->lse,
                                                   .positions = c->positions,
                                                   .tokens = TOKENS,
                                                   .q_ld = HEADS * DIM}});
        LH_TRY(lh_kv_prefill_end(kv, l));
    }
    return LH_OK;
}

static lh_status fill(fz_cache *c, lh_kv *kv)
{
    LH_TRY(lh_kv_begin(kv, TOKENS, MORE));
    return fill_layers(c, kv, 0, LAYERS);
}

typedef lh_status (*save)(fz_cache *c, lh_kv *kv, const char *path, const lh_cache_extra *extra);

static lh_status save_cache(fz_cache *c, lh_kv *kv, const char *path, const lh_cache_extra *extra)
{
    (void)c;
    return lh_kv_save(kv, path, extra);
}

static lh_status save_keep_sets(fz_cache *c, lh_kv *kv, const char *path, const lh_cache_extra *extra)
{
    lh_status st = LH_OK;
    lh_keep_sets sets = {0};
    LH_TRY_DONE(lh_kv_take_keep_sets(kv, LH_KEEP_KEPT, &sets));
    LH_TRY_DONE(lh_kv_take_keep_sets(kv, LH_KEEP_FINAL, &sets));
    LH_TRY_DONE(lh_keep_sets_write(&sets, c->comm, path, extra));
done:
    lh_keep_sets_clear(&sets);
    return st;
}

static lh_status add_caches(fz_seeds *seeds, const char *folder, save how)
{
    static const float logits[VOCAB] = {1, 2, 3, 2, 1};
    lh_status st = LH_OK;
    fz_cache *c = NULL;
    lh_kv *kv = NULL;
    char *path = NULL;
    LH_TRY_DONE(lh_path_join(&path, folder, "seed.h5"));
    LH_TRY_DONE(fz_cache_open(&c));
    const lh_cache_extra extra = {.model = MODEL,
                                  .tokens = c->positions,
                                  .n = TOKENS,
                                  .logits = logits,
                                  .vocab = VOCAB,
                                  .seed = 1,
                                  .run = "{\"command\": \"generate\"}"};
    for (int kind = 0; kind < FZ_CACHES; kind++) {
        LH_TRY_DONE(open_kv(c, kind, &kv));
        kv->layers[0].arena.form.has_bias = kind; /* as if it were of a file with biases */
        LH_TRY_DONE(fill(c, kv));
        LH_TRY_DONE(how(c, kv, path, &extra));
        LH_TRY_DONE(add_three(seeds, path));
        lh_kv_close(kv);
        kv = NULL;
    }
done:
    lh_kv_close(kv);
    fz_cache_close(c);
    lh_free(path);
    return st;
}

lh_status fz_cache_seeds(fz_seeds *seeds, const char *folder)
{
    return add_caches(seeds, folder, save_cache);
}

lh_status fz_keep_sets_seeds(fz_seeds *seeds, const char *folder)
{
    return add_caches(seeds, folder, save_keep_sets);
}

/* Small: its every text is a little hostile as it is. */
lh_status fz_analysis_seeds(fz_seeds *seeds, const char *folder)
{
    lh_status st = LH_OK;
    char *path = NULL;
    LH_TRY_DONE(lh_path_join(&path, folder, "seed.h5"));
    LH_TRY_DONE(sample_write_hostile(path));
    LH_TRY_DONE(add_three(seeds, path));
done:
    lh_free(path);
    return st;
}

lh_status fz_cache_restore(fz_cache *c, int kind, const char *path)
{
    lh_status st = LH_OK;
    lh_saved_kv file = {0};
    lh_kv *kv = NULL;
    LH_TRY_DONE(open_kv(c, kind, &kv));
    LH_TRY_DONE(lh_saved_kv_open(&file, path));
    LH_TRY_DONE(lh_kv_load(kv, &file, MODEL, MORE));
done:
    lh_saved_kv_close(&file);
    lh_kv_close(kv);
    return st;
}

/* ---- prefills in flight: one of the two layers is done ---- */

enum { DONE = 1, WIDTH = HEADS * DIM };

static lh_status begin_kv(fz_cache *c, int kind, lh_kv **kv)
{
    LH_TRY(open_kv(c, FZ_CACHES + kind, kv));
    return lh_kv_begin(*kv, TOKENS, MORE);
}

lh_status fz_prefill_seeds(fz_seeds *seeds, const char *folder)
{
    lh_status st = LH_OK;
    fz_cache *c = NULL;
    lh_kv *kv = NULL;
    char *path = NULL;
    LH_TRY_DONE(lh_path_join(&path, folder, "seed.h5"));
    LH_TRY_DONE(fz_cache_open(&c));
    for (int kind = 0; kind < FZ_PREFILLS; kind++) {
        LH_TRY_DONE(begin_kv(c, kind, &kv));
        LH_TRY_DONE(fill_layers(c, kv, 0, DONE));
        LH_TRY_DONE(lh_kv_save_prefill(kv, path,
                                       &(lh_prefill_extra){.cache = {.model = MODEL,
                                                                     .tokens = c->positions,
                                                                     .n = TOKENS,
                                                                     .seed = 1,
                                                                     .run = "{\"command\": \"generate\"}"},
                                                           .identity = "{\"seed\": 1}",
                                                           .layers_done = DONE,
                                                           .hidden = c->rows,
                                                           .width = WIDTH}));
        LH_TRY_DONE(add_three(seeds, path));
        lh_kv_close(kv);
        kv = NULL;
    }
done:
    lh_kv_close(kv);
    fz_cache_close(c);
    lh_free(path);
    return st;
}

lh_status fz_prefill_go_on(fz_cache *c, int kind, const char *path)
{
    lh_status st = LH_OK;
    lh_saved_prefill saved = {0};
    lh_kv *kv = NULL;
    float hidden[TOKENS * WIDTH];
    LH_TRY_DONE(begin_kv(c, kind, &kv));
    LH_TRY_DONE(lh_saved_prefill_open(&saved, path));
    LH_TRY_DONE(lh_kv_load_prefill(kv, &saved, MODEL));
    const lh_exec exec = {.ops = &lh_ops_ref, .stream = c->stream, .comm = c->comm, .device_comm = c->device_comm};
    LH_TRY_DONE(lh_prefill_file_read_hidden(&saved.file, &exec, hidden, TOKENS, WIDTH));
    LH_TRY_DONE(fill_layers(c, kv, saved.file.state.layers_done, LAYERS));
done:
    lh_saved_prefill_close(&saved);
    lh_kv_close(kv);
    return st;
}

/* Laws of importing quantised Hugging Face folders (import/quantised.h). quantised/ has folders that other programs
 * made, and the hashes of the values that they read from them (tools/make_quantised_goldens.py). */
#include <check.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "import/checkpoint.h"
#include "import/import.h"
#include "model_maker.h"

static char tmp[64], folder[96], out[96];

static void set_up(void)
{
    mm_make_tmp(tmp);
    snprintf(folder, sizeof folder, "%s/model", tmp);
    snprintf(out, sizeof out, "%s/m.h5", tmp);
    dup2(open("/dev/null", O_WRONLY), 2);
}

static void tear_down(void)
{
    mm_remove_tmp(tmp);
}

static lh_status import_as(const char *src, const char *dtype)
{
    return lh_import(&(lh_import_options){.src = src, .out = out, .dtype = dtype});
}

static lh_checkpoint *imported(const char *src, const char *dtype)
{
    lh_checkpoint *ck;
    ck_assert_msg(import_as(src, dtype) == LH_OK, "%s: %s", src, lh_error_message());
    ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
    return ck;
}

static const struct {
    const char *module;
    lh_weight weight;
} modules[] = {{"self_attn.q_proj", LH_W_Q}, {"self_attn.k_proj", LH_W_K}, {"self_attn.v_proj", LH_W_V},
               {"self_attn.o_proj", LH_W_O}, {"mlp.gate_proj", LH_W_GATE}, {"mlp.up_proj", LH_W_UP},
               {"mlp.down_proj", LH_W_DOWN}};
enum { MODULES = sizeof modules / sizeof *modules };

/* The folders, and the formats that 'auto' gives to attention and to MLPs, and '--quantize q8_0' to MLPs. */
static const struct {
    const char *folder, *attention, *mlp, *quantised;
} folders[] = {
    {"int4-group", "q4_0", "q4_0", "q4_0"},
    {"int4-asymmetric", "q5_0", "q5_0", "q5_0"},
    {"int4-channel", "bf16", "bf16", "q8_0"},
    {"int4-act-order", "bf16", "bf16", "q8_0"},
    {"int4-odd-group", "bf16", "bf16", "q8_0"},
    {"int8-group", "q8_0", "q8_0", "q8_0"},
    {"int8-channel", "q8_0", "q8_0", "q8_0"},
    {"int8-asymmetric", "bf16", "bf16", "q8_0"},
    {"float8-block", "bf16", "bf16", "q8_0"},
    {"float8-tensor", "bf16", "bf16", "q8_0"},
    {"float8-channel", "bf16", "bf16", "q8_0"},
    {"nvfp4", "bf16", "bf16", "q8_0"},
    {"fp8-tensor", "bf16", "bf16", "q8_0"},
    {"fp8-block", "bf16", "bf16", "q8_0"},
    {"gptq-8bit", "q8_0", "q8_0", "q8_0"},
    {"gptq-v2", "q5_0", "q5_0", "q5_0"},
    {"gptq-asymmetric", "q5_0", "q5_0", "q5_0"},
    {"gptq-desc-act", "bf16", "bf16", "q8_0"},
    {"awq", "q5_0", "q5_0", "q5_0"},
    {"experts", "q5_0", "q5_0", "q5_0"},
    {"experts-mixed", "q5_0", "bf16", "q8_0"},
    {"int8-odd-rows", "bf16", "bf16", "bf16"},
    {"fp8-wide", "f8_e4m3", "f8_e4m3", "q8_0"},
    {"float8-wide", "f8_e4m3", "f8_e4m3", "q8_0"},
};
enum { FOLDERS = sizeof folders / sizeof *folders };

static const char *golden(int i, char path[400])
{
    snprintf(path, 400, "%s/%s", LH_QUANTISED, folders[i].folder);
    return path;
}

static float *values_of(lh_checkpoint *ck, lh_weight weight, int64_t *n)
{
    float *values = NULL;
    lh_weight_range range = {.weight = weight};
    lh_weight_shape(lh_checkpoint_config(ck), weight, &range.rows, &range.cols);
    *n = range.rows * range.cols;
    ck_assert_int_eq(lh_calloc(&values, *n, sizeof *values), LH_OK);
    ck_assert_int_eq(lh_checkpoint_read(ck, &range, values, LH_F32, range.cols), LH_OK);
    return values;
}

/* The hash of a module of a folder in values.txt. */
static uint64_t golden_hash(const char *name, const char *module)
{
    char path[400], line[200], key[160];
    unsigned long long hash = 0;
    snprintf(path, sizeof path, "%s/values.txt", LH_QUANTISED);
    snprintf(key, sizeof key, "%s model.layers.0.%s ", name, module);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) ck_assert_int_eq(sscanf(line + strlen(key), "%llx", &hash), 1);
    fclose(f);
    ck_assert_msg(hash != 0, "values.txt has no '%s'", key);
    return hash;
}

START_TEST(test_values_are_bit_for_bit_what_other_programs_read)
{
    char path[400];
    lh_checkpoint *ck = imported(golden(_i, path), "f32");
    for (int m = 0; m < MODULES; m++) {
        int64_t n;
        float *values = values_of(ck, modules[m].weight, &n);
        ck_assert_msg(lh_hash64(values, n * 4) == golden_hash(folders[_i].folder, modules[m].module), "%s of %s",
                      modules[m].module, folders[_i].folder);
        lh_free(values);
    }
    lh_checkpoint_close(ck);
}
END_TEST

START_TEST(test_auto_keeps_values_in_blocks_or_rounds_them_to_bf16)
{
    char path[400];
    float *exact[MODULES];
    int64_t n;
    lh_checkpoint *ck = imported(golden(_i, path), "f32");
    for (int m = 0; m < MODULES; m++) exact[m] = values_of(ck, modules[m].weight, &n);
    lh_checkpoint_close(ck);
    ck = imported(path, "auto");
    for (int m = 0; m < MODULES; m++) {
        float *values = values_of(ck, modules[m].weight, &n);
        const lh_format *format = lh_checkpoint_format(ck, modules[m].weight, 0);
        int64_t equal = 0;
        const int is_mlp = strncmp(modules[m].module, "mlp.", 4) == 0;
        ck_assert_str_eq(format->name, is_mlp ? folders[_i].mlp : folders[_i].attention);
        for (int64_t i = 0; i < n; i++)
            equal += values[i] == (format->is_plain ? lh_bf16_to_f32(lh_f32_to_bf16(exact[m][i])) : exact[m][i]);
        ck_assert_int_eq(equal, n);
        lh_free(values);
        lh_free(exact[m]);
    }
    ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_EMBED, 0)->name, "bf16");
    mm_check_header(path, ck);
    lh_checkpoint_close(ck);
}
END_TEST

/* ---- damage ---- */

/* A copy of a golden folder. */
static void copy_folder(const char *name)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s/%s' '%s' && chmod -R u+w '%s'", folder, LH_QUANTISED,
             name, folder, folder);
    ck_assert_int_eq(system(command), 0);
}

/* Replaces the text `from` of the safetensors header, at its first place, by one of the same length. */
static void rename_in_header(const char *from, const char *to)
{
    char path[128];
    lh_buf file = {0};
    int64_t header;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ck_assert_int_eq(lh_file_read(&file, path, 1 << 24), LH_OK);
    memcpy(&header, file.data, 8);
    char *at = memmem(file.data + 8, (size_t)header, from, strlen(from));
    ck_assert_msg(at && strlen(from) == strlen(to), "%s", from);
    memcpy(at, to, strlen(to));
    mm_put(path, file.data, file.bytes);
    lh_buf_clear(&file);
}

/* The file of the folder's weights, and the bytes [first, end) of a tensor in it; false if there is no such tensor. */
static int read_tensor(lh_buf *file, const char *tensor, uint8_t **first, uint8_t **end)
{
    char path[128], key[160];
    int64_t header;
    long long offsets[2];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(key, sizeof key, "\"%s\":", tensor);
    ck_assert_int_eq(lh_file_read(file, path, 1 << 24), LH_OK);
    memcpy(&header, file->data, 8);
    const char *at = memmem(file->data + 8, (size_t)header, key, strlen(key));
    if (!at) return 0;
    ck_assert_int_eq(sscanf(strstr(at, "data_offsets"), "data_offsets\":[%lld,%lld", &offsets[0], &offsets[1]), 2);
    *first = (uint8_t *)file->data + 8 + header + offsets[0];
    *end = (uint8_t *)file->data + 8 + header + offsets[1];
    return 1;
}

static void write_weights(const lh_buf *file)
{
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    mm_put(path, file->data, file->bytes);
}

/* XORs a byte of a tensor with `bits`; false if there is no such tensor. */
static int flip(const char *tensor, int64_t byte, int bits)
{
    lh_buf file = {0};
    uint8_t *first, *end;
    const int found = read_tensor(&file, tensor, &first, &end);
    if (found) {
        first[byte] ^= (uint8_t)bits;
        write_weights(&file);
    }
    lh_buf_clear(&file);
    return found;
}

/* Ands the words of q_proj's zero points with `keep`, and subtracts `less` from each. */
static void change_zeros(uint32_t keep, uint32_t less)
{
    lh_buf file = {0};
    uint8_t *at, *end;
    ck_assert(read_tensor(&file, "model.layers.0.self_attn.q_proj.qzeros", &at, &end));
    for (; at < end; at += 4) {
        uint32_t word;
        memcpy(&word, at, 4);
        word = (word & keep) - less;
        memcpy(at, &word, 4);
    }
    write_weights(&file);
    lh_buf_clear(&file);
}

/* Sets a member of 'quantization_config', from JSON in single quotes. */
static void configure(const char *key, const char *json)
{
    char path[128], text[300];
    char *dumped = NULL;
    json_t *config = NULL;
    snprintf(path, sizeof path, "%s/config.json", folder);
    ck_assert_int_eq(lh_json_read(&config, path, 1 << 20), LH_OK);
    snprintf(text, sizeof text, "%s", json);
    for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
    json_t *made = json_loads(text, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(made);
    if (!json_object_get(config, "quantization_config"))
        json_object_set_new(config, "quantization_config", json_object());
    ck_assert_int_eq(json_object_set_new(json_object_get(config, "quantization_config"), key, made), 0);
    ck_assert_int_eq(lh_json_dump(&dumped, config, 0), LH_OK);
    mm_put(path, dumped, (int64_t)strlen(dumped));
    lh_free(dumped);
    json_decref(config);
}

static void refused(const char *says)
{
    ck_assert_msg(import_as(folder, "auto") == LH_EINPUT, "no refusal: %s", says);
    ck_assert_msg(strstr(lh_error_message(), says) != NULL, "%s\nnot: %s", lh_error_message(), says);
    ck_assert_msg(strstr(lh_error_message(), folder) != NULL, "%s", lh_error_message());
    ck_assert(!lh_file_exists(out));
}

START_TEST(test_configurations_of_other_methods_and_options_are_refused)
{
    static const struct {
        const char *folder, *key, *json, *says;
    } rows[] = {
        {"awq", "quant_method", "'bitsandbytes'",
         "by the method 'bitsandbytes' ('quant_method' of 'quantization_config'): fp8, compressed-tensors, gptq and "
         "awq are"},
        {"awq", "quant_method", "null", "'quantization_config' has no 'quant_method'"},
        {"awq", "quant_method", "7", "'quant_method' must be a string"},
        {"awq", "bits", "3", "'bits' of 'quantization_config' is 3: only 4 is supported"},
        {"awq", "version", "'gemv'", "'version' of 'quantization_config' is 'gemv': only 'gemm' is supported"},
        {"awq", "group_size", "0", "'group_size' is 0"},
        {"gptq-v2", "bits", "3", "'bits' of 'quantization_config' is 3: 4 and 8 are supported"},
        {"gptq-v2", "checkpoint_format", "'marlin'", "'checkpoint_format' of 'quantization_config' is 'marlin'"},
        {"gptq-v2", "group_size", "64", "model.layers.0.mlp.down_proj.scales' is [3, 64], the quantisation of the"},
        {"gptq-v2", "bits", "8", "asks for ["},
        {"fp8-block", "fmt", "'e5m2'", "'fmt' of 'quantization_config' is 'e5m2': only 'e4m3' is supported"},
        {"fp8-block", "weight_block_size", "[16]", "must be a list of two sizes, such as [128, 128]"},
        {"fp8-block", "weight_block_size", "[0, 32]", "must be a list of two sizes"},
        {"fp8-block", "weight_block_size", "[64, 64]", "weight_scale_inv' is ["},
        {"int4-group", "format", "'marlin-24'", "'format' of 'quantization_config' is 'marlin-24': float-quantized"},
        {"int4-group", "transform_config", "{'config_groups': {}}", "rotated weights are not supported"},
        {"int4-group", "sparsity_config", "{'format': 'sparse-24-bitmask'}",
         "'format' of 'quantization_config' is 'sparse"},
        {"int4-group", "config_groups", "{}", "'config_groups' of 'quantization_config' quantises no weights"},
        {"int4-group", "config_groups", "{'g': {'weights': {'num_bits': 3, 'type': 'int', 'strategy': 'channel'}}}",
         "weights of type 'int' with 3 bits"},
        {"int4-group", "config_groups", "{'g': {'weights': {'num_bits': 4, 'type': 'int', 'strategy': 'token'}}}",
         "'strategy' of weights in 'quantization_config' is 'token'"},
        {"int4-group", "config_groups", "{'g': {'weights': {'num_bits': 8, 'type': 'int', 'strategy': 'channel'}}}",
         "weight_packed' is ["},
        {"nvfp4", "config_groups", "{'g': {'weights': {'num_bits': 8, 'type': 'float', 'strategy': 'channel'}}}",
         "the configuration has no weights of such codes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        copy_folder(rows[i].folder);
        configure(rows[i].key, rows[i].json);
        refused(rows[i].says);
    }
}
END_TEST

START_TEST(test_damaged_tensors_are_refused_by_name)
{
    static const struct {
        const char *folder, *from, *to, *says;
    } rows[] = {
        {"fp8-block", "q_proj.weight_scale_inv", "q_proj.weight_scale_xyz",
         "has no tensor 'model.layers.0.self_attn.q_proj.weight_scale', which the quantised matrix of"},
        {"gptq-v2", "q_proj.qzeros", "q_proj.qzerox", "has no tensor 'model.layers.0.self_attn.q_proj.qzeros'"},
        {"int4-group", "q_proj.weight_shape", "q_proj.weight_shapx", "q_proj.weight_shape', which"},
        {"nvfp4", "q_proj.weight_global_scale", "q_proj.weight_global_scalx", "q_proj.weight_global_scale', which"},
        {"awq", "q_proj.qweight", "q_proj.qweighx", "has no tensor 'model.layers.0.self_attn.q_proj.weight' [64, 64]"},
        {"awq", "\"F16\"", "\"I16\"", "is of type I16, it must be F32, F16, BF16 or F8_E4M3"},
    };
    char file[128];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        copy_folder(rows[i].folder);
        rename_in_header(rows[i].from, rows[i].to);
        refused(rows[i].says);
    }
    copy_folder("int4-group");
    ck_assert_int_eq(truncate(strcat(strcpy(file, folder), "/model.safetensors"), 20000), 0);
    refused("is cut off or damaged");
}
END_TEST

START_TEST(test_numbers_out_of_range_are_refused_by_name)
{
    static const struct {
        const char *folder, *tensor;
        int64_t byte;
        int bits;
        const char *says;
    } rows[] = {
        {"gptq-desc-act", "g_idx", 1, 1, "q_proj.g_idx' has the group 256 of column 0: 2 groups have scales"},
        {"gptq-desc-act", "g_idx", 3, 255, "of column 0: 2 groups have scales"},
        {"gptq-v2", "scales", 1, 0x54, "has a q5_0 block at [0, 0] with a scale or a code that is not finite"},
        {"fp8-wide", "weight", 200, 0x6, /* a NaN */
         "has a f8_e4m3 block at [1, 0] with a scale or a code that is not finite"},
        {"int4-act-order", "weight_g_idx", 4, 2, "q_proj.weight_g_idx' has the group"},
        {"int4-group", "weight_shape", 0, 1,
         "q_proj.weight_packed' is [64, 8], the quantisation of the configuration asks"},
        {"int4-group", "weight_shape", 15, 128, "q_proj.weight_packed' is [64, "},
        {"fp8-block", "weight_scale_inv", 3, 64, "q_proj.weight' holds "},
        {"nvfp4", "weight_global_scale", 3, 0x45, "q_proj.weight' holds "},
    };
    char tensor[96];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        copy_folder(rows[i].folder);
        snprintf(tensor, sizeof tensor, "model.layers.0.self_attn.q_proj.%s", rows[i].tensor);
        ck_assert(flip(tensor, rows[i].byte, rows[i].bits));
        refused(rows[i].says);
    }
}
END_TEST

/* GPTQModel's convert_gptq_v2_to_v1_format subtracts 1 from every zero point of a word by one subtraction from the
 * word: a zero point of 0 borrows from the next one. */
START_TEST(test_zero_points_of_0_are_the_same_in_both_versions_of_gptq)
{
    static const struct {
        const char *folder;
        uint32_t ones, keep, less; /* less: from the words of the folder, to have version 2 */
    } rows[] = {{"gptq-v2", 0x11111111, 0x0ffff0f0, 0}, {"gptq-8bit", 0x01010101, 0x00ffff00, -0x01010101u}};
    for (int i = 0; i < 2; i++) {
        int64_t n;
        copy_folder(rows[i].folder);
        configure("checkpoint_format", "'gptq_v2'");
        change_zeros(UINT32_MAX, rows[i].less);
        change_zeros(rows[i].keep, 0);
        lh_checkpoint *ck = imported(folder, "f32");
        float *want = values_of(ck, LH_W_Q, &n);
        for (int c = 0; c < 64; c++) ck_assert(want[c] >= 0); /* codes of row 0 times their scale */
        lh_checkpoint_close(ck);
        configure("checkpoint_format", "'gptq'");
        change_zeros(UINT32_MAX, rows[i].ones);
        ck = imported(folder, "f32");
        float *values = values_of(ck, LH_W_Q, &n);
        ck_assert_mem_eq(values, want, (size_t)n * sizeof *want);
        lh_checkpoint_close(ck);
        ck = imported(folder, "auto");
        ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_Q, 0)->name, i == 0 ? "q5_0" : "bf16");
        lh_checkpoint_close(ck);
        lh_free(want);
        lh_free(values);
    }
}
END_TEST

/* True if the messages of an import with 'auto' hold the text. */
static int import_says(const char *src, const char *text)
{
    char path[128];
    lh_buf log = {0};
    snprintf(path, sizeof path, "%s/log", tmp);
    unlink(path);
    ck_assert_int_eq(lh_log_open(path), LH_OK);
    lh_checkpoint_close(imported(src, "auto"));
    lh_log_close();
    ck_assert_int_eq(lh_file_read(&log, path, 1 << 20), LH_OK);
    const int says = strstr(log.data, text) != NULL;
    if (!says) fprintf(stdout, "%s: %s", src, log.data);
    lh_buf_clear(&log);
    return says;
}

START_TEST(test_the_reason_for_plain_numbers_holds_for_all_of_them)
{
    static const struct {
        const char *folder, *reason;
    } rows[] = {
        {"fp8-block", "their rows are no multiple of 128 long"},
        {"nvfp4", "their codes are floats of 4 bits"},
        {"int4-act-order", "their columns are out of the order of their scales (act-order)"},
        {"int8-odd-rows", "their rows are no multiple of 32 long"},
        {"int4-odd-group", "their groups are no multiple of 32 columns"},
        {"int8-asymmetric", "their 8-bit codes are asymmetric"},
        {"int4-channel", "their scales are no f16 numbers"},
        {"experts-mixed", "the experts of a matrix differ in format"},
    };
    char path[400], text[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(path, sizeof path, "%s/%s", LH_QUANTISED, rows[i].folder);
        snprintf(text, sizeof text, "quantised weights become bf16, because %s: ", rows[i].reason);
        ck_assert_msg(import_says(path, text), "%s does not say: %s", path, text);
    }
    copy_folder("experts-mixed");
    ck_assert(flip("model.layers.0.self_attn.q_proj.weight_scale", 1, 0x20)); /* below f16 */
    ck_assert(import_says(folder, "quantised weights become bf16: "));
}
END_TEST

/* 'quantization_config' describes the weights of the folder, not random ones. */
START_TEST(test_a_random_model_of_a_quantised_folder_is_not_quantised)
{
    static const char member[] = "quantization_config";
    char path[400];
    lh_buf file = {0};
    snprintf(path, sizeof path, "%s/awq", LH_QUANTISED);
    ck_assert_int_eq(lh_import(&(lh_import_options){.random = path, .out = out, .dtype = "auto"}), LH_OK);
    ck_assert_int_eq(lh_file_read(&file, out, 1 << 24), LH_OK);
    ck_assert_ptr_nonnull(memmem(file.data, (size_t)file.bytes, "\"vocab_size\"", 12));
    ck_assert_ptr_null(memmem(file.data, (size_t)file.bytes, member, strlen(member)));
    lh_buf_clear(&file);
}
END_TEST

/* The group -1 of compressed-tensors means that columns are in order. */
START_TEST(test_an_order_that_was_never_set_changes_nothing)
{
    copy_folder("int4-act-order");
    for (int byte = 0; byte < 4; byte++) flip("model.layers.0.self_attn.q_proj.weight_g_idx", byte, 255);
    lh_checkpoint *ck = imported(folder, "auto");
    ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_Q, 0)->name, "q4_0");
    ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_K, 0)->name, "bf16");
    lh_checkpoint_close(ck);
}
END_TEST

/* Published models of compressed-tensors say 'frozen' or 'compressed'. A configuration that no tensor follows is left
 * over from a model that is quantised no more. */
START_TEST(test_the_tensors_decide)
{
    copy_folder("int4-group");
    configure("quantization_status", "'frozen'");
    lh_checkpoint *ck = imported(folder, "auto");
    ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_Q, 0)->name, "q4_0");
    lh_checkpoint_close(ck);
    mm_model llama;
    mm_llama(&llama);
    mm_folder(folder, &llama, MM_LLAMA_CONFIG, LH_F32);
    configure("quant_method", "'fp8'");
    ck = imported(folder, "auto");
    ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_Q, 0)->name, "f32");
    mm_check_header(folder, ck);
    lh_checkpoint_close(ck);
}
END_TEST

START_TEST(test_headers_without_weights_name_the_method)
{
    static const struct {
        const char *source, *weights, *quantiser;
        lh_dtype stored;
    } rows[] = {{"/config.json", NULL, "awq", LH_BF16}, {"", "q8_0", NULL, LH_BF16}, {"", NULL, "awq", LH_BF16}};
    char path[128];
    copy_folder("awq");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_model_header header;
        snprintf(path, sizeof path, "%s%s", folder, rows[i].source);
        ck_assert_int_eq(lh_model_header_read(&header, path, rows[i].weights), LH_OK);
        ck_assert_pstr_eq(header.quantiser, rows[i].quantiser);
        ck_assert_int_eq(header.stored, rows[i].stored);
        ck_assert_int_eq(header.formats != NULL, rows[i].weights != NULL);
        lh_model_header_clear(&header);
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        if (i == 1) ck_assert_int_eq(unlink(path), 0);
    }
}
END_TEST

static void compared(const char *src, lh_status want)
{
    int64_t bytes;
    const lh_status st = lh_import_compare(src, out, &(lh_import_progress){0}, &bytes);
    ck_assert_msg(st == want, "%s: %s", src, st == LH_OK ? "no difference was found" : lh_error_message());
}

START_TEST(test_a_checkpoint_is_compared_with_its_folder)
{
    static const char *const types[] = {"auto", "f32"}, *const codes[] = {"weight", "weight_packed", "qweight"};
    char path[400], tensor[96];
    for (int t = 0; t < 2; t++) {
        lh_checkpoint_close(imported(golden(_i, path), types[t]));
        compared(path, LH_OK);
        copy_folder(folders[_i].folder);
        int flipped = 0;
        for (int c = 0; c < 3; c++) {
            snprintf(tensor, sizeof tensor, "model.layers.0.self_attn.q_proj.%s", codes[c]);
            flipped += flip(tensor, 100, 1);
        }
        ck_assert_int_eq(flipped, 1);
        compared(folder, LH_EFILE);
    }
}
END_TEST

/* A matrix that no block format holds may be quantised to one. */
START_TEST(test_floats_of_8_bits_can_be_quantised_to_blocks)
{
    char path[400];
    for (int i = 0; i < FOLDERS; i++) {
        const lh_import_options options = {.src = golden(i, path), .out = out, .dtype = "auto", .quantize = "q8_0"};
        ck_assert_msg(lh_import(&options) == LH_OK, "%s", lh_error_message());
        lh_checkpoint *ck;
        ck_assert_int_eq(lh_checkpoint_open(&ck, out), LH_OK);
        ck_assert_str_eq(lh_checkpoint_format(ck, LH_W_UP, 0)->name, folders[i].quantised);
        lh_checkpoint_close(ck);
        compared(path, LH_OK);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quantised folders");
    TCase *tc = tcase_create("laws");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, test_values_are_bit_for_bit_what_other_programs_read, 0, FOLDERS);
    tcase_add_loop_test(tc, test_auto_keeps_values_in_blocks_or_rounds_them_to_bf16, 0, FOLDERS);
    tcase_add_loop_test(tc, test_a_checkpoint_is_compared_with_its_folder, 0, FOLDERS);
    tcase_add_test(tc, test_floats_of_8_bits_can_be_quantised_to_blocks);
    tcase_add_test(tc, test_the_tensors_decide);
    tcase_add_test(tc, test_headers_without_weights_name_the_method);
    tcase_add_test(tc, test_zero_points_of_0_are_the_same_in_both_versions_of_gptq);
    tcase_add_test(tc, test_the_reason_for_plain_numbers_holds_for_all_of_them);
    tcase_add_test(tc, test_a_random_model_of_a_quantised_folder_is_not_quantised);
    tcase_add_test(tc, test_an_order_that_was_never_set_changes_nothing);
    tcase_add_test(tc, test_configurations_of_other_methods_and_options_are_refused);
    tcase_add_test(tc, test_damaged_tensors_are_refused_by_name);
    tcase_add_test(tc, test_numbers_out_of_range_are_refused_by_name);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

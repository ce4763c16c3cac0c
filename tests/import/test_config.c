/* Laws of import/config.h: what Hugging Face assumes where a configuration is silent, and rotary frequencies. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "import/config.h"
#include "import/config_impl.h"
#include "import/families.h"
#include "import/weights.h"

static lh_status parse(lh_config *c, const char *text)
{
    char *quoted = NULL;
    ck_assert_int_eq(lh_strdup(&quoted, text), LH_OK);
    for (char *p = quoted; *p; p++)
        if (*p == '\'') *p = '"';
    lh_status st = lh_config_parse_text(c, quoted, (int64_t)strlen(quoted), "config.json");
    lh_free(quoted);
    return st;
}

#define SIZES "'vocab_size':100,'hidden_size':64,'intermediate_size':96,'num_hidden_layers':4,'num_attention_heads':4"

START_TEST(test_llama_defaults)
{
    lh_config c;
    ck_assert_int_eq(parse(&c, "{'model_type':'llama'," SIZES "}"), LH_OK);
    ck_assert_str_eq(lh_config_family_name(&c), "llama");
    ck_assert(c.kv_heads == 4 && c.head_dim == 16 && c.rotary_dim == 16 && c.max_positions == 2048);
    ck_assert(c.norm_eps == 1e-6 && c.norm_offset == 0 && c.embed_scale == 1 && c.attn_scale == 0.25);
    ck_assert(!c.tied && !c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm && !c.post_norms && c.window == 0);
    ck_assert(c.activation == LH_ACT_SILU && c.bos == 1 && c.eos_count == 1 && c.eos[0] == 2);
    ck_assert(c.rope_global.kind == LH_ROPE_DEFAULT && c.rope_global.theta == 10000 && c.rope_local.theta == 10000);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'architectures':['LlamaForCausalLM']," SIZES
                               ",'num_key_value_heads':null,'head_dim':null,'attention_bias':true,'mlp_bias':true,"
                               "'eos_token_id':[5,6],'bos_token_id':null,'tie_word_embeddings':true}"),
                     LH_OK);
    ck_assert(c.kv_heads == 4 && c.head_dim == 16 && c.qkv_bias && c.o_bias && c.mlp_bias && c.tied);
    ck_assert(c.bos == -1 && c.eos_count == 2 && c.eos[1] == 6);
    lh_config_clear(&c);
}
END_TEST

START_TEST(test_mistral_window_absent_null_and_given)
{
    lh_config c;
    ck_assert_int_eq(parse(&c, "{'model_type':'mistral'," SIZES ",'num_key_value_heads':2}"), LH_OK);
    ck_assert(c.window == 4096 && c.sliding[0] && c.sliding[3] && c.max_positions == 131072);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'mistral'," SIZES ",'num_key_value_heads':2,'sliding_window':null}"),
                     LH_OK);
    ck_assert(c.window == 0 && !c.sliding[0]);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'mistral'," SIZES ",'num_key_value_heads':2,'sliding_window':64}"),
                     LH_OK);
    ck_assert(c.window == 64);
    lh_config_clear(&c);
}
END_TEST

START_TEST(test_qwen_windows_are_asked_for)
{
    lh_config c;
    ck_assert_int_eq(parse(&c, "{'model_type':'qwen2'," SIZES ",'num_key_value_heads':2,'sliding_window':32}"), LH_OK);
    ck_assert(c.window == 0 && c.qkv_bias && !c.o_bias && c.bos == -1 && c.eos_count == 0);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'qwen2'," SIZES ",'num_key_value_heads':2,'sliding_window':32,"
                               "'use_sliding_window':true,'max_window_layers':3}"),
                     LH_OK);
    ck_assert(c.window == 32 && !c.sliding[2] && c.sliding[3]);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'qwen2'," SIZES ",'num_key_value_heads':2,'sliding_window':32,"
                               "'use_sliding_window':true}"),
                     LH_OK);
    ck_assert(c.window == 0); /* layers from 28 on, and there are 4 */
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'qwen3'," SIZES ",'num_key_value_heads':2}"), LH_OK);
    ck_assert(c.head_dim == 128 && c.qk_norm && !c.qkv_bias);
    lh_config_clear(&c);
}
END_TEST

START_TEST(test_gemma_peculiarities)
{
    lh_config c;
    ck_assert_int_eq(parse(&c, "{'model_type':'gemma2'}"), LH_OK);
    ck_assert(c.hidden == 2304 && c.layers == 26 && c.head_dim == 256 && c.tied && c.norm_offset == 1 && c.post_norms);
    ck_assert(c.attn_softcap == 50 && c.final_softcap == 30 && c.attn_scale == 1.0 / 16 && c.embed_scale == 48);
    ck_assert(c.window == 4096 && c.sliding[0] && !c.sliding[1] && c.activation == LH_ACT_GELU_TANH);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c,
                           "{'model_type':'gemma3','eos_token_id':[1,106],'text_config':{'model_type':'gemma3_text',"
                           "'hidden_size':2560,'num_hidden_layers':34,'intermediate_size':10240,'sliding_window':1024,"
                           "'rope_scaling':{'factor':8.0,'rope_type':'linear'},'attn_logit_softcapping':20.0}}"),
                     LH_OK);
    ck_assert_str_eq(lh_config_family_name(&c), "gemma3_text");
    ck_assert(c.vocab == 262208 && c.heads == 8 && c.kv_heads == 4 && c.qk_norm && c.eos_count == 2);
    ck_assert(c.window == 1024 && c.sliding[4] && !c.sliding[5] && c.sliding[6]);
    ck_assert(c.rope_global.kind == LH_ROPE_LINEAR && c.rope_global.theta == 1e6);
    ck_assert(c.rope_local.kind == LH_ROPE_DEFAULT && c.rope_local.theta == 10000);
    ck_assert(c.attn_softcap == 0 && c.final_softcap == 0); /* the member is there, the model ignores it */
    lh_config_clear(&c);
    /* Members that a nested configuration leaves open are those of the whole model. */
    ck_assert_int_eq(parse(&c, "{'model_type':'gemma3','bos_token_id':7,'eos_token_id':[1,106],"
                               "'tie_word_embeddings':false,'text_config':"
                               "{'model_type':'gemma3_text','bos_token_id':null,'eos_token_id':null}}"),
                     LH_OK);
    ck_assert(c.bos == 7 && c.eos_count == 2 && c.eos[1] == 106 && !c.tied);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'gemma3_text'," SIZES ",'num_key_value_heads':2,'head_dim':16,"
                               "'layer_types':['full_attention','sliding_attention','full_attention',"
                               "'sliding_attention'],'rope_parameters':{'full_attention':{'rope_type':'linear',"
                               "'factor':4.0,'rope_theta':5e5},'sliding_attention':{'rope_type':'default',"
                               "'rope_theta':777.0}},'sliding_window':8}"),
                     LH_OK);
    ck_assert(!c.sliding[0] && c.sliding[3] && c.rope_global.theta == 5e5 && c.rope_global.factor == 4);
    ck_assert(c.rope_local.theta == 777 && c.rope_local.kind == LH_ROPE_DEFAULT);
    lh_config_clear(&c);
}
END_TEST

START_TEST(test_phi3_longrope_and_new_rope_words)
{
    lh_config c;
    ck_assert_int_eq(parse(&c,
                           "{'model_type':'phi3'," SIZES ",'max_position_embeddings':8192,'rope_scaling':{'type':'su',"
                           "'long_factor':[1,2,3,4,5,6,7,8],'short_factor':[1,1,1,1,1,1,1,1]}}"),
                     LH_OK);
    ck_assert(c.rope_global.kind == LH_ROPE_LONGROPE && c.rope_global.original_positions == 4096);
    ck_assert(c.rope_global.factor == 2 && c.rope_global.long_factor[7] == 8 && c.norm_eps == 1e-5);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'phi3'," SIZES ",'partial_rotary_factor':0.75}"), LH_OK);
    ck_assert(c.head_dim == 16 && c.rotary_dim == 12 && c.window == 0);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'llama'," SIZES ",'max_position_embeddings':131072,'rope_parameters':"
                               "{'rope_type':'llama3','rope_theta':500000.0,'factor':8.0,'low_freq_factor':1.0,"
                               "'high_freq_factor':4.0,'original_max_position_embeddings':8192}}"),
                     LH_OK);
    ck_assert(c.rope_global.kind == LH_ROPE_LLAMA3 && c.rope_global.theta == 500000 && c.rope_local.factor == 8);
    lh_config_clear(&c);
}
END_TEST

START_TEST(test_layers_without_rotation)
{
    static const struct {
        const char *more;
        uint8_t unrotated[4], sliding[4];
    } cases[] = {
        {"'model_type':'smollm3'", {0, 0, 0, 1}, {0}},
        {"'model_type':'smollm3','no_rope_layer_interval':2", {0, 1, 0, 1}, {0}},
        {"'model_type':'smollm3','no_rope_layers':[0,1,1,0],'sliding_window':9", {1, 0, 0, 1}, {0}},
        {"'model_type':'smollm3','no_rope_layers':[0,1,1,0],'sliding_window':9,'use_sliding_window':true",
         {1, 0, 0, 1},
         {1, 0, 0, 1}},
        {"'model_type':'exaone4'", {0, 0, 0, 1}, {1, 1, 1, 0}},
        {"'model_type':'exaone4','sliding_window':null", {0}, {0}},
        {"'model_type':'llama'", {0}, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        lh_config c;
        snprintf(text, sizeof text, "{" SIZES ",'num_key_value_heads':2,%s}", cases[i].more);
        ck_assert_msg(parse(&c, text) == LH_OK, "%s: %s", cases[i].more, lh_error_message());
        ck_assert_msg(memcmp(c.unrotated, cases[i].unrotated, 4) == 0, "%s: other layers", cases[i].more);
        ck_assert_msg(memcmp(c.sliding, cases[i].sliding, 4) == 0, "%s: other layers slide", cases[i].more);
        ck_assert_int_eq(c.window > 0, cases[i].sliding[0] || cases[i].sliding[1]);
        lh_config_clear(&c);
    }
}
END_TEST

START_TEST(test_multipliers_and_parts_of_biases)
{
    lh_config c;
    ck_assert_int_eq(parse(&c, "{'model_type':'granite'," SIZES ",'embedding_multiplier':12,'logits_scaling':8,"
                               "'residual_multiplier':0.5,'attention_multiplier':0.125,'rms_norm_eps':1e-5}"),
                     LH_OK);
    ck_assert(c.embed_scale == 24 && c.logit_scale == 0.125 && c.attn_scale == 0.125 && c.norm_eps == 4e-5);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'seed_oss','num_key_value_heads':2," SIZES "}"), LH_OK);
    ck_assert(c.qkv_bias && !c.o_bias && !c.mlp_bias && c.pre_norms && !c.post_norms);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'seed_oss','num_key_value_heads':2," SIZES
                               ",'attention_bias':false,'attention_out_bias':true}"),
                     LH_OK);
    ck_assert(!c.qkv_bias && c.o_bias);
    lh_config_clear(&c);
}
END_TEST

START_TEST(test_what_cannot_be_is_refused_by_name)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{}", "model_type"},
        {"[]", "JSON object"},
        {"{'model_type':", "is not valid JSON"},
        {"{'model_type':'deepseek_v3'," SIZES "}", "'deepseek_v3' is unknown: llama, mistral"},
        {"{'model_type':'llama'}", "'vocab_size' is missing"},
        {"{'model_type':'llama'," SIZES ",'num_key_value_heads':3}", "multiple of 'num_key_value_heads'"},
        {"{'model_type':'llama'," SIZES ",'head_dim':0}", "'head_dim'"},
        {"{'model_type':'llama'," SIZES ",'head_dim':15}", "even number"},
        {"{'model_type':'llama'," SIZES ",'head_dim':'x'}", "'head_dim'"},
        {"{'model_type':'llama'," SIZES ",'hidden_act':'relu2'}", "'relu2'"},
        {"{'model_type':'llama'," SIZES ",'rope_scaling':{'rope_type':'proportional'}}", "'proportional' is unknown"},
        {"{'model_type':'llama'," SIZES ",'rope_scaling':{'rope_type':'linear'}}", "'factor' is missing"},
        {"{'model_type':'llama'," SIZES ",'rope_scaling':{'rope_type':'linear','factor':-1}}", "'factor'"},
        {"{'model_type':'llama'," SIZES ",'rope_scaling':[1]}", "must be an object"},
        {"{'model_type':'llama'," SIZES ",'rope_theta':0}", "'rope_theta'"},
        {"{'model_type':'llama'," SIZES ",'rope_theta':1e-300}", "'rope_theta' must be 1 or more"},
        {"{'model_type':'phi3'," SIZES ",'rope_scaling':{'type':'longrope','long_factor':[1],'short_factor':[1]}}",
         "list of 8 numbers"},
        {"{'model_type':'llama'," SIZES ",'rms_norm_eps':-1}", "'rms_norm_eps'"},
        {"{'model_type':'llama'," SIZES ",'quantization_config':{'bits':4}}", "has no 'quant_method'"},
        {"{'model_type':'llama'," SIZES ",'quantization_config':{'quant_method':'hqq'}}", "by the method 'hqq'"},
        {"{'model_type':'llama'," SIZES ",'quantization':{'bits':4}}", "quantised by MLX"},
        {"{'model_type':'llama'," SIZES ",'compression_config':{'format':'pack-quantized'}}", "quantised"},
        {"{'model_type':'llama'," SIZES ",'per_layer_config':{'0':{'head_dim':8}}}", "'per_layer_config'"},
        {"{'model_type':'llama'," SIZES ",'clip_qkv':8.0}", "'clip_qkv'"},
        {"{'model_type':'llama'," SIZES ",'is_causal':false}", "'is_causal' is false"},
        {"{'model_type':'llama'," SIZES ",'eos_token_id':'x'}", "'eos_token_id'"},
        {"{'model_type':'granite'," SIZES ",'residual_multiplier':0}", "'residual_multiplier' must be greater than 0"},
        {"{'model_type':'smollm3'," SIZES ",'num_key_value_heads':2,'no_rope_layers':[1]}", "must list 4 layers"},
        {"{'model_type':'smollm3'," SIZES ",'num_key_value_heads':2,'no_rope_layers':[1,0,'x',1]}",
         "of layer 2 must be 0 or 1"},
        {"{'model_type':'gemma2','layer_types':['full_attention']}", "must list 26 layers"},
        {"{'model_type':'llama','vocab_size':1e30,'hidden_size':64}", "'vocab_size'"},
        {"{'model_type':'llama','vocab_size':99999999999,'hidden_size':64}", "'vocab_size'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_config c;
        ck_assert_int_eq(parse(&c, rows[i].text), LH_EINPUT);
        ck_assert_msg(strstr(lh_error_message(), rows[i].says) != NULL, "%s", lh_error_message());
        ck_assert_msg(strstr(lh_error_message(), "'config.json'") != NULL, "%s", lh_error_message());
    }
}
END_TEST

/* A member that is not read would change the rotation without a word. */
START_TEST(test_every_member_of_the_rope_parameters_is_known_or_refused)
{
    static const struct {
        const char *family, *members, *says;
    } rows[] = {
        {"llama", "'rope_scaling':{'factor':4.0}", "'factor' is not known for the rope type 'default' of the family "},
        {"llama", "'rope_scaling':{'factor':4.0}", ": 'rope_type' is missing"},
        {"llama", "'rope_parameters':{'rope_theta':5.0,'factor':4.0}", "'rope_type' is missing"},
        {"llama", "'rope_scaling':{'type':'linear','factor':4.0,'beta_fast':32}", "'beta_fast' is not known for"},
        {"llama", "'rope_scaling':{'type':'dynamic','factor':4.0,'alpha':1000}", "'alpha' is not known for"},
        {"llama", "'rope_scaling':{'type':'yarn','factor':4.0,'llama_4_scaling_beta':0.1}", "'llama_4_scaling_beta'"},
        {"mistral", "'rope_parameters':{'rope_type':'default','llama_4_scaling_beta':0.1}", "of the family 'mistral'"},
        {"llama", "'rope_scaling':{'type':'yarn','rope_type':'linear','factor':4.0}", "they must name one type"},
        {"llama", "'rope_scaling':{'type':'linear','factor':4.0},'rope_parameters':{'rope_type':'default'}",
         "has 'rope_parameters' and another 'rope_scaling'"},
        {"llama", "'rope_parameters':{'partial_rotary_factor':0.25},'partial_rotary_factor':0.5", "8 of 16"},
        {"llama", "'rope_parameters':{'full_attention':{'rope_theta':5.0},'sliding_attention':{'rope_theta':6.0}}",
         "sliding_attention is not full_attention"},
        {"gemma3_text", "'rope_parameters':{'full_attention':{'rope_theta':5.0},'linear_attention':{}}",
         "'linear_attention' is not known"},
        {"ministral3", "'vocab_size':100", "'rope_parameters' is missing"},
        {"ministral3", "'rope_parameters':{'rope_type':'default','original_max_position_embeddings':9}",
         "'llama_4_scaling_beta' is missing"},
        {"ministral3", "'rope_parameters':{'rope_type':'default','llama_4_scaling_beta':0.1}",
         "'original_max_position_embeddings' is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        lh_config c;
        snprintf(text, sizeof text, "{'model_type':'%s'," SIZES ",'num_key_value_heads':2,'head_dim':16,%s}",
                 rows[i].family, rows[i].members);
        ck_assert_msg(parse(&c, text) == LH_EINPUT, "%s", rows[i].members);
        ck_assert_msg(strstr(lh_error_message(), rows[i].says) != NULL, "%s", lh_error_message());
    }
}
END_TEST

/* As published: remarks, sections of images, members that are null, the name of the type twice. */
START_TEST(test_rope_parameters_of_published_models_are_read)
{
    static const struct {
        const char *members;
        lh_rope_kind kind;
    } rows[] = {
        {"'rope_scaling':{'factor':16.0,'original_max_position_embeddings':4096,'type':'yarn','finetuned':true}",
         LH_ROPE_YARN},
        {"'rope_scaling':{'type':'mrope','mrope_section':[16,24,24]}", LH_ROPE_DEFAULT},
        {"'rope_scaling':{'type':'default','rope_type':'default','mrope_section':[16,24,24]}", LH_ROPE_DEFAULT},
        {"'rope_scaling':{'mrope_interleaved':true,'mrope_section':[24,20,20],'rope_type':'default'}", LH_ROPE_DEFAULT},
        {"'rope_scaling':{'type':'linear','rope_type':'linear','factor':2.0,'attention_factor':null}", LH_ROPE_LINEAR},
        {"'rope_parameters':{'full_attention':{'rope_type':'default'},'sliding_attention':{'rope_type':'default'}}",
         LH_ROPE_DEFAULT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        lh_config c;
        snprintf(text, sizeof text, "{'model_type':'qwen2'," SIZES ",'num_key_value_heads':2,%s}", rows[i].members);
        ck_assert_msg(parse(&c, text) == LH_OK, "%s", lh_error_message());
        ck_assert_msg(c.rope_global.kind == rows[i].kind, "%s", rows[i].members);
        lh_config_clear(&c);
    }
}
END_TEST

START_TEST(test_the_text_model_of_a_wrapper_names_the_family)
{
    static const struct {
        const char *outer, *inner, *family; /* family NULL: refused */
    } rows[] = {{"mistral3", "mistral", "mistral"},
                {"mistral3", "ministral3", "ministral3"},
                {"mistral3", NULL, "mistral"},
                {"mistral3", "mistral4", NULL},
                {"gemma3", "gemma3_text", "gemma3_text"},
                {"qwen3_vl", "qwen3_vl_text", "qwen3_vl"},
                {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_vl"},
                {"qwen2_5_vl", NULL, "qwen2_5_vl"},
                {"qwen3_vl_moe", "qwen3_vl_moe_text", NULL},
                {"llava", "llama", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512], type[64] = "";
        lh_config c;
        if (rows[i].inner) snprintf(type, sizeof type, "'model_type':'%s',", rows[i].inner);
        snprintf(text, sizeof text,
                 "{'model_type':'%s','text_config':{%s" SIZES
                 ",'num_key_value_heads':2,'head_dim':16,'rope_parameters':"
                 "{'rope_type':'default','original_max_position_embeddings':64%s}}}",
                 rows[i].outer, type,
                 rows[i].inner && strcmp(rows[i].inner, "ministral3") == 0 ? ",'llama_4_scaling_beta':0.1" : "");
        lh_status st = parse(&c, text);
        ck_assert_msg(st == (rows[i].family ? LH_OK : LH_EINPUT), "%s: %s", text, lh_error_message());
        if (st != LH_OK) {
            ck_assert(strstr(lh_error_message(), "is unknown: llama, mistral") != NULL);
            continue;
        }
        ck_assert_str_eq(lh_config_family_name(&c), rows[i].family);
        ck_assert(c.rope_global.query_beta == (strcmp(rows[i].family, "ministral3") == 0 ? 0.1 : 0));
        lh_config_clear(&c);
    }
}
END_TEST

/* transformers 5 writes num_local_experts, Qwen's own files num_experts. */
START_TEST(test_experts_are_counted_by_either_member)
{
    static const char *const families[] = {"mixtral", "qwen3_moe"}, *const keys[] = {"num_experts",
                                                                                     "num_local_experts"};
    for (int i = 0; i < 4; i++) {
        char text[512];
        lh_config c;
        snprintf(text, sizeof text, "{'model_type':'%s'," SIZES ",'num_key_value_heads':2,'%s':12}", families[i / 2],
                 keys[i % 2]);
        ck_assert_msg(parse(&c, text) == LH_OK, "%s", lh_error_message());
        ck_assert_int_eq(c.experts.count, 12);
        lh_config_clear(&c);
        snprintf(text, sizeof text, "{'model_type':'%s'," SIZES ",'num_experts':12,'num_local_experts':13}",
                 families[i / 2]);
        ck_assert_int_eq(parse(&c, text), LH_EINPUT);
    }
}
END_TEST

/* Devstral 2 123B has the member, and no scaling. */
START_TEST(test_queries_are_scaled_as_much_as_the_configuration_says)
{
    static const struct {
        const char *beta;
        double want;
        int64_t positions;
    } rows[] = {{"0.1", 0.1, 64}, {"0", 0, 0}, {"0.0", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        lh_config c;
        snprintf(text, sizeof text,
                 "{'model_type':'ministral3'," SIZES ",'num_key_value_heads':2,'head_dim':16,'rope_parameters':{'type':"
                 "'yarn','rope_type':'yarn','factor':4.0,'mscale':1.0,'mscale_all_dim':0.0,'beta_fast':4.0,"
                 "'original_max_position_embeddings':64,'llama_4_scaling_beta':%s}}",
                 rows[i].beta);
        ck_assert_msg(parse(&c, text) == LH_OK, "%s", lh_error_message());
        ck_assert(c.rope_global.query_beta == rows[i].want && c.rope_global.query_positions == rows[i].positions);
        lh_config_clear(&c);
    }
}
END_TEST

/* A member is read, known to change nothing, or named; null, false, 0 and empty ones ask for nothing. */
START_TEST(test_members_that_are_not_known_are_named)
{
    static const struct {
        const char *family, *members, *named;
    } rows[] = {
        {"llama", "'use_cache':true,'_name_or_path':'x','unsloth_version':'1','torch_dtype':'bfloat16'", ""},
        {"llama", "'rope_interleaved':false,'alibi':null,'extra':0,'more':[],'others':{},'name':''", ""},
        {"llama", "'residual_scale':2.5,'parallel_attn':true", "'residual_scale', 'parallel_attn'"},
        {"qwen2", "'dual_chunk_attention_config':{'chunk_size':262144}", "'dual_chunk_attention_config'"},
        {"qwen3_moe", "'max_window_layers':48,'use_qk_norm':true,'shared_expert_intermediate_size':0", ""},
        {"smollm3", "'max_window_layers':28,'pretraining_tp':2", ""},
        /* members of other families are not read here, though they are elsewhere */
        {"llama", "'attn_logit_softcapping':50.0,'residual_multiplier':0.22,'sliding_window':4096",
         "'attn_logit_softcapping', 'residual_multiplier', 'sliding_window'"},
        {"llama", "'a':1,'b':1,'c':1,'d':1,'e':1,'f':1,'g':1,'h':1", "'a', 'b', 'c', 'd', 'e', 'f', and 2 more"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        json_t *json = NULL;
        lh_buf names = {0};
        snprintf(text, sizeof text, "{'model_type':'%s'," SIZES ",'num_key_value_heads':2,%s}", rows[i].family,
                 rows[i].members);
        for (char *p = text; *p; p++)
            if (*p == '\'') *p = '"';
        ck_assert_int_eq(lh_json_parse(&json, "config.json", text, (int64_t)strlen(text)), LH_OK);
        ck_assert_int_eq(lh_config_unknown_members(&names, lh_family_find(rows[i].family), json), LH_OK);
        ck_assert_str_eq(names.bytes ? names.data : "", rows[i].named);
        lh_buf_clear(&names);
        json_decref(json);
    }
}
END_TEST

/* EXAONE 4 is published with letters, beside the list that decides. */
START_TEST(test_a_pattern_of_sliding_layers_in_letters)
{
    static const struct {
        const char *members;
        uint8_t sliding[4];
    } rows[] = {{"'sliding_window_pattern':'LLLG'", {1, 1, 1, 0}},
                {"'sliding_window_pattern':'LG'", {1, 0, 1, 0}},
                {"'sliding_window_pattern':2", {1, 0, 1, 0}},
                {"'sliding_window_pattern':'LLLG','layer_types':['full_attention','sliding_attention',"
                 "'full_attention','sliding_attention']",
                 {0, 1, 0, 1}}};
    lh_config c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text, "{'model_type':'exaone4'," SIZES ",'num_key_value_heads':2,%s}", rows[i].members);
        ck_assert_msg(parse(&c, text) == LH_OK, "%s", lh_error_message());
        ck_assert_msg(memcmp(c.sliding, rows[i].sliding, 4) == 0, "%s", rows[i].members);
        lh_config_clear(&c);
    }
    ck_assert_int_eq(
        parse(&c, "{'model_type':'exaone4'," SIZES ",'num_key_value_heads':2,'sliding_window_pattern':'LLX'}"),
        LH_EINPUT);
    ck_assert(strstr(lh_error_message(), "'sliding_window_pattern' is 'LLX'") != NULL);
}
END_TEST

START_TEST(test_stretched_models_reach_further)
{
    lh_config c;
    ck_assert_int_eq(parse(&c,
                           "{'model_type':'qwen2'," SIZES ",'num_key_value_heads':4,'max_position_embeddings':32768,"
                           "'rope_scaling':{'type':'yarn','factor':4.0,'original_max_position_embeddings':32768}}"),
                     LH_OK);
    ck_assert(c.max_positions == 131072 && c.rope_global.max_positions == 32768);
    lh_config_clear(&c);
    ck_assert_int_eq(parse(&c, "{'model_type':'llama'," SIZES ",'max_position_embeddings':4096,"
                               "'rope_scaling':{'type':'linear','factor':4.0}}"),
                     LH_OK);
    ck_assert(c.max_positions == 16384 && c.rope_global.max_positions == 4096);
    lh_config_clear(&c);
    /* Gemma 3 states what it was stretched to. */
    ck_assert_int_eq(parse(&c, "{'model_type':'gemma3_text','rope_scaling':{'rope_type':'linear','factor':8.0}}"),
                     LH_OK);
    ck_assert(c.max_positions == 131072);
    lh_config_clear(&c);
}
END_TEST

/* Frequencies 0, 1, n/3, n/2, 2n/3, n-2, n-1 of n and the scale, computed by transformers' own functions with numpy
 * in place of torch. */
static const struct {
    const char *name;
    lh_rope rope;
    int64_t dim, length;
    double scale, inv_freq[7];
} ropes[] = {
    {"default",
     {.theta = 500000},
     128,
     1,
     1,
     {0x1p+0, 0x1.a11582p-1, 0x1.ba0dd8p-7, 0x1.72ba42p-10, 0x1.7da9e8p-13, 0x1.94836p-19, 0x1.4985fep-19}},
    {"partial",
     {.theta = 10000},
     72,
     1,
     1,
     {0x1p+0, 0x1.8c6c4ap-1, 0x1.7c3d2ap-5, 0x1.47ae14p-7, 0x1.1a62d2p-9, 0x1.5dd37ep-13, 0x1.0edb8ep-13}},
    {"linear",
     {.kind = LH_ROPE_LINEAR, .theta = 1e6, .factor = 8},
     256,
     1,
     1,
     {0x1p-3, 0x1.cb9da6p-4, 0x1.6020a4p-10, 0x1.0624dep-13, 0x1.b2cb9cp-17, 0x1.4d1c98p-23, 0x1.2b07b4p-23}},
    {"dynamic, short",
     {.kind = LH_ROPE_DYNAMIC, .theta = 1e4, .factor = 4, .max_positions = 2048},
     64,
     1000,
     1,
     {0x1p+0, 0x1.7ff222p-1, 0x1.ccab84p-5, 0x1.47ae14p-7, 0x1.36d21ap-9, 0x1.74eea6p-13, 0x1.17a8e4p-13}},
    {"dynamic, long",
     {.kind = LH_ROPE_DYNAMIC, .theta = 1e4, .factor = 4, .max_positions = 2048},
     64,
     7001,
     1,
     {0x1p+0, 0x1.63b63cp-1, 0x1.ad3e58p-6, 0x1.822836p-9, 0x1.f407a4p-12, 0x1.2db27cp-16, 0x1.a33546p-17}},
    {"llama3",
     {.kind = LH_ROPE_LLAMA3,
      .theta = 500000,
      .factor = 8,
      .low_freq_factor = 1,
      .high_freq_factor = 4,
      .original_positions = 8192},
     128,
     1,
     1,
     {0x1p+0, 0x1.a11582p-1, 0x1.ba0dd8p-7, 0x1.132ba4p-11, 0x1.7da9e8p-16, 0x1.94836p-22, 0x1.4985fep-22}},
    {"yarn",
     {.kind = LH_ROPE_YARN,
      .theta = 1e6,
      .factor = 4,
      .beta_fast = 32,
      .beta_slow = 1,
      .truncate = 1,
      .original_positions = 32768},
     128,
     1,
     1.13862943649292,
     {0x1p+0, 0x1.9c975ap-1, 0x1.6020a4p-7, 0x1.3c1d64p-11, 0x1.e459c4p-16, 0x1.9d5ef2p-22, 0x1.4d1c98p-22}},
    {"yarn with mscale",
     {.kind = LH_ROPE_YARN,
      .theta = 1e4,
      .factor = 40,
      .beta_fast = 16,
      .beta_slow = 2,
      .mscale = 0.707,
      .mscale_all_dim = 1,
      .original_positions = 4096},
     64,
     1,
     0.9210423827171326,
     {0x1p+0, 0x1.7ff222p-1, 0x1.ccab84p-5, 0x1.7b75d6p-8, 0x1.f1502ap-15, 0x1.2a5884p-18, 0x1.bf749ep-19}},
    {"longrope, short",
     {.kind = LH_ROPE_LONGROPE, .theta = 1e4, .factor = 32, .original_positions = 4096},
     96,
     4096,
     1.190238118171692,
     {0x1p+0, 0x1.a2024p-1, 0x1.435518p-5, 0x1.033d9p-7, 0x1.a1bb16p-10, 0x1.98ca94p-14, 0x1.4ef8a8p-14}},
    {"longrope, long",
     {.kind = LH_ROPE_LONGROPE, .theta = 1e4, .factor = 32, .original_positions = 4096},
     96,
     4097,
     1.190238118171692,
     {0x1p+0, 0x1.3478e2p-1, 0x1.b79522p-8, 0x1.0953f4p-10, 0x1.5fe204p-13, 0x1.11506p-17, 0x1.ba1c74p-18}},
};

START_TEST(test_frequencies_are_transformers)
{
    lh_rope rope = ropes[_i].rope;
    double long_factor[48], short_factor[48];
    float inv_freq[128], scale;
    int64_t n = ropes[_i].dim / 2;
    const int64_t at[7] = {0, 1, n / 3, n / 2, 2 * n / 3, n - 2, n - 1};
    for (int i = 0; i < 48; i++) {
        long_factor[i] = 1 + 0.37 * i;
        short_factor[i] = 1 + 0.011 * i;
    }
    rope.long_factor = long_factor;
    rope.short_factor = short_factor;
    lh_rope_frequencies(&rope, ropes[_i].dim, ropes[_i].length, inv_freq, &scale);
    ck_assert_msg(scale == (float)ropes[_i].scale, "%s: scale %a", ropes[_i].name, (double)scale);
    for (int k = 0; k < 7; k++) /* one unit in the last place: pow is not the same everywhere */
        ck_assert_msg(fabs(inv_freq[at[k]] - ropes[_i].inv_freq[k]) <= 1.2e-7 * ropes[_i].inv_freq[k], "%s: [%lld] %a",
                      ropes[_i].name, (long long)at[k], (double)inv_freq[at[k]]);
}
END_TEST

START_TEST(test_every_weight_of_every_family_has_a_name)
{
    for (int i = 0; lh_family_at(i); i++) {
        lh_config c;
        char text[512];
        snprintf(text, sizeof text, "{'model_type':'%s'," SIZES ",'num_key_value_heads':2,'head_dim':16%s}",
                 lh_family_at(i)->name,
                 lh_family_at(i)->scaled_queries
                     ? ",'rope_parameters':{'original_max_position_embeddings':64,'llama_4_scaling_beta':0.1}"
                     : "");
        ck_assert_int_eq(parse(&c, text), LH_OK);
        for (int w = 0; w < LH_WEIGHTS; w++) {
            int64_t rows, cols;
            lh_weight_shape(&c, (lh_weight)w, &rows, &cols);
            if (rows == 0) continue;
            ck_assert_ptr_nonnull(c.family->tensors[w].hf);
            ck_assert_ptr_nonnull(c.family->tensors[w].gguf);
            ck_assert(lh_weight_info_of((lh_weight)w)->rank == 2 || cols == 1);
        }
        lh_config_clear(&c);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tc = tcase_create("laws");
    tcase_add_test(tc, test_llama_defaults);
    tcase_add_test(tc, test_mistral_window_absent_null_and_given);
    tcase_add_test(tc, test_qwen_windows_are_asked_for);
    tcase_add_test(tc, test_gemma_peculiarities);
    tcase_add_test(tc, test_phi3_longrope_and_new_rope_words);
    tcase_add_test(tc, test_layers_without_rotation);
    tcase_add_test(tc, test_multipliers_and_parts_of_biases);
    tcase_add_test(tc, test_what_cannot_be_is_refused_by_name);
    tcase_add_test(tc, test_every_member_of_the_rope_parameters_is_known_or_refused);
    tcase_add_test(tc, test_rope_parameters_of_published_models_are_read);
    tcase_add_test(tc, test_the_text_model_of_a_wrapper_names_the_family);
    tcase_add_test(tc, test_experts_are_counted_by_either_member);
    tcase_add_test(tc, test_a_pattern_of_sliding_layers_in_letters);
    tcase_add_test(tc, test_queries_are_scaled_as_much_as_the_configuration_says);
    tcase_add_test(tc, test_members_that_are_not_known_are_named);
    tcase_add_test(tc, test_stretched_models_reach_further);
    tcase_add_loop_test(tc, test_frequencies_are_transformers, 0, sizeof ropes / sizeof *ropes);
    tcase_add_test(tc, test_every_weight_of_every_family_has_a_name);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

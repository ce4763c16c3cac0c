/* chat_formats.c - the table of chat formats. A new format is a row here: the text that it writes around messages, and
 * the marks by which its Jinja template is recognised. */
#include "text/chat_impl.h"

#define BOS LH_CHAT_BOS
#define EOS LH_CHAT_EOS

/* Marks: substrings of canonical templates (chat.c), in which \\n is a newline within a string. */
#define ROLE "message['role']"
#define TEXT "message['content']"
#define CHATML_TURN "'<|im_start|>'+" ROLE "+'\\n'+" TEXT "+'<|im_end|>\\n'"
#define CHATML_ASKS "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}{%endif%}"
#define CHATML_DEFAULT(text) \
    "{%ifloop.firstandmessages[0]['role']!='system'%}{{'<|im_start|>system\\n" text "<|im_end|>\\n'}}{%endif%}"
#define LLAMA3_TURN "'<|start_header_id|>'+" ROLE "+'<|end_header_id|>\\n\\n'+" TEXT "|trim+'<|eot_id|>'"
#define LLAMA3_ASKS "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'"
#define MUST_ALTERNATE "(" ROLE "=='user')!=(loop.index0%2==0)"

#define ALTERNATE "Conversation roles must alternate user/assistant/user/assistant/..."
#define ALTERNATE_AFTER \
    "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
#define OTHERS "Only user and assistant roles are supported!"
#define OTHERS_AFTER \
    "Only user and assistant roles are supported, with the exception of an initial optional system message!"

#define TOOL_IDS "Tool call IDs should be alphanumeric strings with length 9!"

static const lh_chat_turn chatml_turns[] = {{NULL, "<|im_start|>", "\n", "<|im_end|>\n", 0, 0}, {0}};
static const lh_chat_turn llama3_turns[] = {{NULL, "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", 1, 0},
                                            {0}};
static const lh_chat_turn gemma_turns[] = {{"assistant", "<start_of_turn>model\n", "", "<end_of_turn>\n", 1, 0},
                                           {NULL, "<start_of_turn>", "\n", "<end_of_turn>\n", 1, 0},
                                           {0}};
static const lh_chat_turn llama2_turns[] = {{"user", BOS "[INST] ", "", " [/INST]", 1, 0},
                                            {"system", "<<SYS>>\n", "", "\n<</SYS>>\n\n", 1, 0},
                                            {"assistant", " ", "", " " EOS, 1, 0},
                                            {0}};
static const lh_chat_turn mistral_turns[] = {
    {"user", "[INST] ", "", "[/INST]", 0, 0}, {"assistant", " ", "", EOS, 1, 0}, {0}};
static const lh_chat_turn nemo_turns[] = {
    {"user", "[INST]", "", "[/INST]", 0, 0}, {"assistant", "", "", EOS, 0, 0}, {0}};
static const lh_chat_turn mistral_v1_turns[] = {
    {"user", " [INST] ", "", " [/INST]", 0, 0}, {"assistant", " ", "", EOS, 0, 0}, {0}};
static const lh_chat_turn mistral_v0_turns[] = {
    {"user", "[INST] ", "", " [/INST]", 0, 0}, {"assistant", "", "", EOS, 0, 0}, {0}};
static const lh_chat_turn phi3_turns[] = {{"system", "<|system|>\n", "", "<|end|>\n", 0, 0},
                                          {"user", "<|user|>\n", "", "<|end|>\n", 0, 0},
                                          {"assistant", "<|assistant|>\n", "", "<|end|>\n", 0, 0},
                                          {0}};
static const lh_chat_turn phi35_turns[] = {{"system", "<|system|>\n", "", "<|end|>\n", 0, 1},
                                           {"user", "<|user|>\n", "", "<|end|>\n", 0, 0},
                                           {"assistant", "<|assistant|>\n", "", "<|end|>\n", 0, 0},
                                           {0}};
static const lh_chat_turn phi3_first_turns[] = {
    {"user", "<|user|>\n", "", "<|end|>\n<|assistant|>\n", 0, 0}, {"assistant", "", "", "<|end|>\n", 0, 0}, {0}};
static const lh_chat_turn zephyr_turns[] = {{"user", "<|user|>\n", "", EOS "\n", 0, 0},
                                            {"system", "<|system|>\n", "", EOS "\n", 0, 0},
                                            {"assistant", "<|assistant|>\n", "", EOS "\n", 0, 0},
                                            {0}};

const lh_chat_format lh_chat_formats[] = {
    {.name = "chatml", /* <|im_start|>role … <|im_end|> */
     .end = "<|im_end|>",
     .render = lh_chat_render_turns,
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {"{%formessageinmessages%}{{" CHATML_TURN "}}{%endfor%}", CHATML_ASKS},
     .none = {"bos_token", "eos_token", "system", "raise_exception", "elif"}},
    {.name = "smollm2", /* chatml with SmolLM2's system text */
     .end = "<|im_end|>",
     .render = lh_chat_render_turns,
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {CHATML_DEFAULT("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), CHATML_TURN,
             CHATML_ASKS}},
    {.name = "qwen2", /* chatml with Qwen 2's system text */
     .end = "<|im_end|>",
     .render = lh_chat_render_turns,
     .default_system = "You are a helpful assistant.",
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {CHATML_DEFAULT("You are a helpful assistant."), CHATML_TURN, CHATML_ASKS}},
    {.name = "qwen1.5", /* chatml with Qwen 1.5's system text */
     .end = "<|im_end|>",
     .render = lh_chat_render_turns,
     .default_system = "You are a helpful assistant",
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {CHATML_DEFAULT("You are a helpful assistant"), CHATML_TURN, CHATML_ASKS}},
    {.name = "qwen2.5", /* chatml with Qwen 2.5's system text and turns of tools */
     .end = "<|im_end|>",
     .render = lh_chat_render_tools,
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {"{{'<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
             "assistant.<|im_end|>\\n'}}",
             CHATML_TURN, CHATML_ASKS, "(" ROLE "=='system'andnotloop.first)", "'\\n</tool_response>'"}},
    {.name = "qwen3", /* chatml with Qwen 3's thinking left out of older turns */
     .end = "<|im_end|>",
     .render = lh_chat_render_tools,
     .thinks = 1,
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {"'</think>'in", ROLE "+'\\n<think>\\n'+reasoning_content.strip('\\n')+'\\n</think>\\n\\n'",
             "ns.last_query_index", "{{'<|im_start|>assistant\\n'}}", "'\\n</tool_response>'",
             "{%ifloop.lastor(notloop.lastandreasoning_content)%}"},
     .none = {"system\\nYou", "bos_token"}},
    {.name = "qwen3-instruct", /* chatml with turns of tools, without thinking (Qwen 3 Instruct 2507) */
     .end = "<|im_end|>",
     .render = lh_chat_render_tools,
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {"'<|im_start|>'+" ROLE "+'\\n'+content+'<|im_end|>\\n'", "{%ifmessages[0]['role']=='system'%}",
             "'\\n</tool_response>'", CHATML_ASKS},
     .none = {"think", "multi_step_tool", "system\\nYou", "bos_token", "image"}},
    {.name = "minimind2", /* chatml with MiniMind2's system text and turns of tools */
     .end = "<|im_end|>",
     .render = lh_chat_render_tools,
     .default_system = "You are a helpful assistant",
     .turns = chatml_turns,
     .generation = "<|im_start|>assistant\n",
     .all = {"{{'<|im_start|>system\\nYou are a helpful assistant<|im_end|>\\n'}}",
             "'<|im_start|>'+" ROLE "+'\\n'+content+'<|im_end|>\\n'", "ns.multi_step_tool", "'\\n</tool_response>'",
             "{{'<|im_start|>assistant\\n'}}"},
     .none = {"reasoning_content"}},
    {.name = "llama2", /* [INST] … [/INST] with <<SYS>>, as Llama 2 */
     .end = "</s>",
     .render = lh_chat_render_alternating,
     .turns = llama2_turns,
     .system = LH_CHAT_SYSTEM_FIRST,
     .system_open = "<<SYS>>\n",
     .system_close = "\n<</SYS>>\n\n",
     .strip_joined = 1,
     .alternate = ALTERNATE,
     .all = {"'<<SYS>>\\n'+system_message+'\\n<</SYS>>\\n\\n'+" TEXT, "bos_token+'[INST] '+content.strip()+' [/INST]'",
             "' '+content.strip()+' '+eos_token", MUST_ALTERNATE, "{%setsystem_message=false%}"},
     .none = {"setsystem_message='", "true==true", "USE_DEFAULT_PROMPT", "false==true"}},
    {.name = "mistral", /* [INST] … [/INST], the system's text in the last turn, as Mistral 7B v0.3 */
     .end = "</s>",
     .render = lh_chat_render_alternating,
     .before = BOS,
     .turns = mistral_turns,
     .system = LH_CHAT_SYSTEM_LAST,
     .system_open = "",
     .system_close = "\n\n",
     .alternate = ALTERNATE_AFTER,
     .others = OTHERS_AFTER,
     .tools = TOOL_IDS,
     .all = {"{%ifloop.lastandsystem_messageisdefined%}{{'[INST] '+system_message+'\\n\\n'+" TEXT "+'[/INST]'}}",
             "{{'[INST] '+" TEXT "+'[/INST]'}}", "{{' '+" TEXT "|trim+eos_token}}", ALTERNATE_AFTER, OTHERS_AFTER}},
    {.name = "mistral-plain", /* as mistral, but other roles are passed over */
     .end = "</s>",
     .render = lh_chat_render_alternating,
     .before = BOS,
     .turns = mistral_turns,
     .system = LH_CHAT_SYSTEM_LAST,
     .system_open = "",
     .system_close = "\n\n",
     .alternate = ALTERNATE_AFTER,
     .all = {"{%ifloop.lastandsystem_messageisdefined%}{{'[INST] '+system_message+'\\n\\n'+" TEXT "+'[/INST]'}}",
             "{{'[INST] '+" TEXT "+'[/INST]'}}", "{{' '+" TEXT "|trim+eos_token}}", ALTERNATE_AFTER},
     .none = {OTHERS_AFTER}},
    {.name = "mistral-nemo", /* [INST] … [/INST] without spaces, the system's text in the last turn, as Mistral Nemo */
     .end = "</s>",
     .render = lh_chat_render_alternating,
     .before = BOS,
     .turns = nemo_turns,
     .system = LH_CHAT_SYSTEM_LAST,
     .system_open = "",
     .system_close = "\n\n",
     .alternate = ALTERNATE_AFTER,
     .others = OTHERS_AFTER,
     .tools = TOOL_IDS,
     .all = {"{%ifloop.lastandsystem_messageisdefined%}{{'[INST]'+system_message+'\\n\\n'+" TEXT "+'[/INST]'}}",
             "{{'[INST]'+" TEXT "+'[/INST]'}}", "{{" TEXT "+eos_token}}", ALTERNATE_AFTER, OTHERS_AFTER}},
    {.name = "mistral-v1", /*  [INST] … [/INST], the system's text in the first turn, as Mistral 7B v0.2 */
     .end = "</s>",
     .render = lh_chat_render_alternating,
     .before = BOS,
     .turns = mistral_v1_turns,
     .system = LH_CHAT_SYSTEM_FIRST,
     .system_open = "",
     .system_close = "\n\n",
     .alternate = ALTERNATE_AFTER,
     .others = OTHERS_AFTER,
     .all = {"{%ifloop.firstandsystem_messageisdefined%}{{' [INST] '+system_message+'\\n\\n'+" TEXT "+' [/INST]'}}",
             "{{' [INST] '+" TEXT "+' [/INST]'}}", "{{' '+" TEXT "+eos_token}}", ALTERNATE_AFTER, OTHERS_AFTER}},
    {.name = "mistral-v0", /* [INST] … [/INST] without a system's text, as the first Mistral 7B */
     .end = "</s>",
     .render = lh_chat_render_alternating,
     .before = BOS,
     .turns = mistral_v0_turns,
     .alternate = ALTERNATE,
     .others = OTHERS,
     .all = {"{{bos_token}}{%formessageinmessages%}", "{{'[INST] '+" TEXT "+' [/INST]'}}", "{{" TEXT "+eos_token}}",
             "'" ALTERNATE "'", "'" OTHERS "'"},
     .none = {"system", "loop.first"}},
    {.name = "llama3", /* <|start_header_id|>role<|end_header_id|>, as Llama 3 */
     .end = "<|eot_id|>",
     .render = lh_chat_render_turns,
     .before = BOS,
     .turns = llama3_turns,
     .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .all = {LLAMA3_TURN, "{%ifloop.index0==0%}{%setcontent=bos_token+content%}{%endif%}{{content}}",
             "{%ifadd_generation_prompt%}{{" LLAMA3_ASKS "}}{%endif%}"},
     .none = {"date_string", "elif", "raise_exception", "system"}},
    {.name = "llama3-base", /* as llama3, with the header of the answer whether asked for or not */
     .end = "<|eot_id|>",
     .render = lh_chat_render_turns,
     .before = BOS,
     .turns = llama3_turns,
     .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .always_generates = 1,
     .all = {LLAMA3_TURN, "{%ifloop.index0==0%}{%setcontent=bos_token+content%}{%endif%}{{content}}",
             "{%endfor%}{{" LLAMA3_ASKS "}}"},
     .none = {"add_generation_prompt", "date_string", "elif", "raise_exception", "system"}},
    {.name = "llama3.1", /* as llama3, with the dates in a system's turn of its own (Llama 3.1, 3.2, 3.3) */
     .end = "<|eot_id|>",
     .render = lh_chat_render_dated,
     .before = BOS,
     .turns = llama3_turns,
     .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .all = {"{{bos_token}}", "{{'Cutting Knowledge Date: December 2023\\n'}}",
             "{{'Today Date: '+date_string+'\\n\\n'}}", "{%setdate_string='26 Jul 2024'%}", LLAMA3_TURN,
             "{%setsystem_message=messages[0]['content']|trim%}"},
     .none = {"image"}},
    {.name = "gemma", /* <start_of_turn>role … <end_of_turn>, no system's text (Gemma 1 and 2) */
     .end = "<end_of_turn>",
     .render = lh_chat_render_alternating,
     .before = BOS,
     .turns = gemma_turns,
     .system = LH_CHAT_SYSTEM_REFUSED,
     .refusal = "System role not supported",
     .alternate = ALTERNATE,
     .generation = "<start_of_turn>model\n",
     .all = {"{{bos_token}}", "raise_exception('System role not supported')", MUST_ALTERNATE,
             "{{'<start_of_turn>'+role+'\\n'+" TEXT "|trim+'<end_of_turn>\\n'}}",
             "{%ifadd_generation_prompt%}{{'<start_of_turn>model\\n'}}{%endif%}"}},
    {.name = "gemma3", /* <start_of_turn>role … <end_of_turn>, the system's text in the first turn (Gemma 3) */
     .end = "<end_of_turn>",
     .render = lh_chat_render_alternating,
     .before = BOS,
     .turns = gemma_turns,
     .system = LH_CHAT_SYSTEM_FIRST,
     .system_open = "",
     .system_close = "\n\n",
     .alternate = ALTERNATE,
     .generation = "<start_of_turn>model\n",
     .all = {"{{bos_token}}", "{%setfirst_user_prefix=messages[0]['content']+'\\n\\n'%}", MUST_ALTERNATE,
             "{{'<start_of_turn>'+role+'\\n'+(first_user_prefixifloop.firstelse'')}}", "{{" TEXT "|trim}}",
             "{%ifadd_generation_prompt%}{{'<start_of_turn>model\\n'}}{%endif%}"}},
    {.name = "phi3", /* <|user|> … <|end|> <|assistant|>, as Phi-3 */
     .end = "<|end|>",
     .render = lh_chat_render_turns,
     .turns = phi3_turns,
     .generation = "<|assistant|>\n",
     .otherwise = EOS,
     .all = {"{%if" ROLE "=='system'%}{{'<|system|>\\n'+" TEXT "+'<|end|>\\n'}}",
             "{{'<|user|>\\n'+" TEXT "+'<|end|>\\n'}}", "{{'<|assistant|>\\n'+" TEXT "+'<|end|>\\n'}}",
             "{%ifadd_generation_prompt%}{{'<|assistant|>\\n'}}{%else%}{{eos_token}}{%endif%}"},
     .none = {"bos_token"}},
    {.name = "phi3.5", /* as phi3, without a turn for an empty system's text (Phi-3.5) */
     .end = "<|end|>",
     .render = lh_chat_render_turns,
     .turns = phi35_turns,
     .generation = "<|assistant|>\n",
     .otherwise = EOS,
     .all = {"{%if" ROLE "=='system'and" TEXT "%}{{'<|system|>\\n'+" TEXT "+'<|end|>\\n'}}",
             "{{'<|user|>\\n'+" TEXT "+'<|end|>\\n'}}", "{{'<|assistant|>\\n'+" TEXT "+'<|end|>\\n'}}",
             "{%ifadd_generation_prompt%}{{'<|assistant|>\\n'}}{%else%}{{eos_token}}{%endif%}"},
     .none = {"bos_token"}},
    {.name = "phi3-first", /* as phi3, without a system's text, the answer always begun (the first Phi-3 mini) */
     .end = "<|end|>",
     .render = lh_chat_render_turns,
     .before = BOS,
     .turns = phi3_first_turns,
     .all = {"{{bos_token}}{%formessageinmessages%}", "{{'<|user|>\\n'+" TEXT "+'<|end|>\\n<|assistant|>\\n'}}",
             "{{" TEXT "+'<|end|>\\n'}}"},
     .none = {"system", "add_generation_prompt"}},
    {.name = "phi3-medium", /* as phi3-first, without the first token (Phi-3 medium) */
     .end = "<|end|>",
     .render = lh_chat_render_turns,
     .turns = phi3_first_turns,
     .all = {"{%formessageinmessages%}", "{{'<|user|>\\n'+" TEXT "+'<|end|>\\n<|assistant|>\\n'}}",
             "{{" TEXT "+'<|end|>\\n'}}"},
     .none = {"system", "add_generation_prompt", "bos_token"}},
    {.name = "zephyr", /* <|user|> … </s> <|assistant|>, as Zephyr and TinyLlama */
     .end = "</s>",
     .render = lh_chat_render_turns,
     .turns = zephyr_turns,
     .generation = "<|assistant|>\n",
     .all = {"{{'<|user|>\\n'+" TEXT "+eos_token}}", "{{'<|system|>\\n'+" TEXT "+eos_token}}",
             "{{'<|assistant|>\\n'+" TEXT "+eos_token}}",
             "{%ifloop.lastandadd_generation_prompt%}{{'<|assistant|>'}}{%endif%}"},
     .none = {"bos_token"}},
    {.name = NULL},
};

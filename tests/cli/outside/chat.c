/* chat.c - what the model answers to a text, as the user's turn or as it is: chat MODEL auto|on|off PROMPT. */
#include <longhaul/longhaul.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char *const words[] = {"auto", "on", "off"};
    lh_world *world = NULL;
    lh_engine *engine = NULL;
    const lh_completion *answer = NULL;
    lh_completion_options options = {.size = sizeof options, .max_new = 12}; /* chat: zero is auto */
    if (argc != 4) return LH_EUSAGE;
    for (int i = 0; i < 3; i++)
        if (strcmp(argv[2], words[i]) == 0) options.chat = (lh_chat_use)i;
    options.prompt = argv[3];
    lh_status st = lh_world_open(&world, NULL);
    if (st == LH_OK) st = lh_engine_open(&engine, world, &LH_STRUCT(lh_engine_options, .model = argv[1]));
    if (st == LH_OK) st = lh_complete(&answer, engine, &options);
    if (st == LH_OK && lh_world_rank(world) == 0) printf("%s\n", answer->answers[0]->text);
    lh_completion_close(answer);
    lh_engine_close(engine);
    return lh_world_close(world, st);
}

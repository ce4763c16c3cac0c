// plusplus.cpp - the header from C++, and its functions found by their C names: plusplus MODEL.
#include <longhaul/longhaul.h>

#include <cstdio>
#include <cstring>

int main(int argc, char **argv)
{
    lh_world *world = nullptr;
    lh_engine *engine = nullptr;
    lh_engine_options options{};
    options.size = sizeof options;
    options.model = argc > 1 ? argv[1] : "";
    lh_completion_options request{};
    request.size = sizeof request;
    request.prompt = "a text";
    request.max_new = 4;
    const lh_completion *answer = nullptr;
    lh_status st = lh_world_open(&world, nullptr);
    if (st == LH_OK) st = lh_engine_open(&engine, world, &options);
    if (st == LH_OK) st = lh_complete(&answer, engine, &request);
    if (st == LH_OK) std::printf("%s: %lld tokens\n", lh_version(), static_cast<long long>(answer->new_tokens));
    lh_completion_close(answer);
    lh_engine_close(engine);
    return lh_world_close(world, st);
}

/* nccl_network.c - which fast network a host has, by what its drivers show, and NCCL's name of it. */
#include "comm/nccl_network.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* A network is there if one of `files` exists and begins with `begins` (NULL: with anything), and the file `also`
 * beside it with `also_begins` (NULL: none is asked for). */
typedef struct network {
    const char *name, *value; /* value: of NCCL_NET */
    const char *files, *begins, *also, *also_begins;
    int by_plugin; /* 1: a plug-in brings it; 0: NCCL itself, and a plug-in may do it better */
    const char *help;
} network;

static const char cxi_help[] = "; NCCL_NET was set to 'AWS Libfabric', because this host has Slingshot: is the plug-in "
                               "aws-ofi-nccl in LD_LIBRARY_PATH? NCCL_NET=Socket takes TCP instead",
                  ib_help[] =
                      "; NCCL_NET was set to 'IB', because this host has InfiniBand: NCCL_DEBUG=WARN prints what "
                      "NCCL lacks, NCCL_NET=Socket takes TCP instead";

/* Slingshot's adapters show by the class of their driver, or by the names of their interfaces. RoCE looks like Ethernet
 * and is not asked for. */
static const network networks[] = {
    {"Slingshot", "AWS Libfabric", "class/cxi/*", NULL, NULL, NULL, 1, cxi_help},
    {"Slingshot", "AWS Libfabric", "class/net/hsn[0-9]*", NULL, NULL, NULL, 1, cxi_help},
    {"InfiniBand", "IB", "class/infiniband/*/ports/*/link_layer", "InfiniBand", "state", "4:", 0, ib_help}};
enum { NETWORKS = sizeof networks / sizeof *networks };

static int begins_with(const char *path, const char *begins)
{
    char line[64] = "";
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (!fgets(line, sizeof line, f)) line[0] = 0;
    fclose(f);
    return strncmp(line, begins, strlen(begins)) == 0;
}

static int is_file_of(const network *n, const char *path)
{
    char other[4096];
    const char *slash = strrchr(path, '/');
    if (n->begins && !begins_with(path, n->begins)) return 0;
    if (!n->also) return 1;
    return snprintf(other, sizeof other, "%.*s/%s", (int)(slash - path), path, n->also) < (int)sizeof other &&
           begins_with(other, n->also_begins);
}

/* NULL: none that is known. */
static const network *find_network(const char *sys)
{
    for (int i = 0; i < NETWORKS; i++) {
        char pattern[4096];
        glob_t found;
        int there = 0;
        snprintf(pattern, sizeof pattern, "%s/%s", sys, networks[i].files);
        if (glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t k = 0; k < found.gl_pathc; k++) there |= is_file_of(&networks[i], found.gl_pathv[k]);
        globfree(&found);
        if (there) return &networks[i];
    }
    return NULL;
}

static int is_loadable(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle) dlclose(handle);
    return handle != NULL;
}

const char *lh_nccl_choose_network(const lh_nccl_places *places)
{
    static const lh_nccl_places system = {"/sys", "/etc/nccl.conf", "libnccl-net.so"};
    if (!places) places = &system;
    const char *given = getenv("NCCL_NET");
    const network *n = find_network(places->sys);
    if (!n) return "";
    if (given && strcmp(given, "Socket") == 0)
        lh_warn("NCCL_NET is 'Socket', and this host has %s: NCCL_NET='%s' would be faster", n->name, n->value);
    if (given || getenv("NCCL_NET_PLUGIN") || getenv("NCCL_CONF_FILE") || access(places->conf, F_OK) == 0) return "";
    if (!n->by_plugin && is_loadable(places->plugin)) return "";
    if (setenv("NCCL_NET", n->value, 1) != 0) return "";
    lh_debug("NCCL_NET is set to '%s': this host has %s", n->value, n->name);
    return n->help;
}

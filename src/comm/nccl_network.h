/* nccl_network.h - NCCL takes TCP sockets where it cannot use the fast network of a cluster, and says nothing. Where
 * ranks of several hosts use it, it is told which network there is (NCCL_NET), so that it fails instead. */
#ifndef LH_COMM_NCCL_NETWORK_H
#define LH_COMM_NCCL_NETWORK_H

/* Where to look, for tests: "/sys", "/etc/nccl.conf", "libnccl-net.so". */
typedef struct lh_nccl_places {
    const char *sys;
    const char *conf;   /* an administrator's settings of NCCL: nothing is set if it is there */
    const char *plugin; /* NCCL's network plug-in of the system, which may bring any network */
} lh_nccl_places;

/* Sets NCCL_NET for the network of this host, unless the environment, the administrator or a plug-in decides, and warns
 * where the environment asks for sockets beside a faster network. NULL: the places of the system. Returns what to say
 * of NCCL_NET if NCCL does not start, "" if it was not set here. Before NCCL's first call of the process. */
const char *lh_nccl_choose_network(const lh_nccl_places *places);

#endif

/* cudnn.h - what tests may ask of the cuDNN of the emulation (cudnn.cpp), and how it may go wrong. */
#ifndef LH_TESTS_SIMT_CUDNN_H
#define LH_TESTS_SIMT_CUDNN_H

typedef enum simt_cudnn_way {
    SIMT_CUDNN_WELL,
    SIMT_CUDNN_MISSING, /* no library */
    SIMT_CUDNN_REFUSES, /* no engine for any graph */
    SIMT_CUDNN_WRONG,   /* sees what no row sees */
    SIMT_CUDNN_FAILS,   /* runs no plan */
    SIMT_CUDNN_HELD     /* makes no plan, until it goes another way */
} simt_cudnn_way;

void simt_cudnn_go(simt_cudnn_way way);

/* Since the program began: searches for engines, and plans that ran; and descriptors that are there now. */
typedef struct simt_cudnn_counts {
    int searches, runs, descriptors;
} simt_cudnn_counts;
simt_cudnn_counts simt_cudnn_count(void);

#endif

/* both.h - LH_BOTH marks functions that are compiled for the host and for CUDA devices. */
#ifndef LH_BASE_BOTH_H
#define LH_BASE_BOTH_H

#ifdef __CUDACC__
#define LH_BOTH __host__ __device__
#else
#define LH_BOTH
#endif

#endif

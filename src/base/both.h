/* both.h - functions that the host and CUDA devices have the same of. */
#ifndef LH_BASE_BOTH_H
#define LH_BASE_BOTH_H

#ifdef __CUDACC__
#define LH_BOTH __host__ __device__
#else
#define LH_BOTH
#endif

#endif

/* pairs.h - attention over a bf16 cache whose queries, keys, values and weights are multiplied in pairs of bf16 and
 * added up in f32: by vectors (pairs_vec.h) or by matrix tiles (pairs_amx.h), as the file of the instruction set
 * chooses.
 *
 *   BLOCK_IN_PAIRS       1 where that is faster than in floats
 *   PAIR_ROWS            rows of a block, at most VL
 *   pair_words(n)        words that n elements take in a row, a panel's column or the weights of a row; zero after n
 *   pack_row_pairs       a block of PAIR_ROWS rows, PAIR_ROWS * pair_words(depth) words
 *   pairs_logits         tile.h's product of a packed block and panels of keys
 *   pairs_sums           the same of rows of weights, KEYS floats apart, and panels of values
 *   pairs_begin, _end    around the work of a thread
 *
 * Rows of c after `rows` up to PAIR_ROWS may be written. */
#ifndef LH_KERNELS_CPU_PAIRS_H
#define LH_KERNELS_CPU_PAIRS_H

#include "kernels/cpu/pack.h"

#include LH_PAIRS_HEADER

#endif

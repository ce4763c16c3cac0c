/* amx.h - the tile registers of AMX: eight of 16 rows of 64 bytes. Tile numbers are constants. Defining
 * LH_AMX_EMULATED before gives the same in plain C, so that what is built on them can be tested anywhere. */
#ifndef LH_KERNELS_CPU_AMX_H
#define LH_KERNELS_CPU_AMX_H

#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

#if defined(LH_AMX_EMULATED)

static _Thread_local float amx_tiles[8][16][16];

static inline void amx_begin(void)
{
}

static inline void amx_end(void)
{
}

static inline void amx_written(void)
{
}

static inline void amx_zero(int tile)
{
    memset(amx_tiles[tile], 0, sizeof amx_tiles[tile]);
}

/* Rows `stride` bytes apart. */
static inline void amx_load(int tile, const void *p, int64_t stride)
{
    for (int r = 0; r < 16; r++) memcpy(amx_tiles[tile][r], (const char *)p + r * stride, 64);
}

static inline void amx_store(int tile, void *p, int64_t stride)
{
    for (int r = 0; r < 16; r++) memcpy((char *)p + r * stride, amx_tiles[tile][r], 64);
}

/* c[m][n] += sum over k of the products of both bf16 in the words a[m][k] and b[k][n]. */
static inline void amx_dot(int c, int a, int b)
{
    for (int m = 0; m < 16; m++) {
        for (int n = 0; n < 16; n++) {
            for (int k = 0; k < 16; k++) {
                uint16_t x[2], y[2];
                memcpy(x, &amx_tiles[a][m][k], sizeof x);
                memcpy(y, &amx_tiles[b][k][n], sizeof y);
                amx_tiles[c][m][n] += lh_bf16_to_f32(x[0]) * lh_bf16_to_f32(y[0]);
                amx_tiles[c][m][n] += lh_bf16_to_f32(x[1]) * lh_bf16_to_f32(y[1]);
            }
        }
    }
}

#else

#include <immintrin.h>

/* All tiles 16 rows of 64 bytes. gcc 12's _tile_loadconfig tells the compiler of 8 of the 64 bytes that it reads. */
static inline void amx_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

static inline void amx_end(void)
{
    _tile_release();
}

/* Before loads of what ordinary code has written: gcc 12's _tile_loadd does not tell the compiler that it reads memory.
 */
static inline void amx_written(void)
{
    __asm__ volatile("" : : : "memory");
}

#define amx_zero(tile) _tile_zero(tile)
#define amx_load(tile, p, stride) _tile_loadd(tile, p, stride)
#define amx_store(tile, p, stride) _tile_stored(tile, p, stride)
#define amx_dot(c, a, b) _tile_dpbf16ps(c, a, b)

#endif

#endif

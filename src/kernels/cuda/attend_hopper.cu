/* attend_block over bf16 caches on compute capability 9.0: wgmma and tensor copies (FlashAttention-3, arXiv
 * 2407.08608). A block of threads has 128 rows, tokens times the query heads that share a KV head, so keys and values
 * are read once for all of them. One warp copies tiles of 128 entries (64 above 128 dimensions) into two stages of
 * shared memory; two warpgroups have 64 rows each, and make the products of the next tile while they weigh this one.
 *
 * Tiles begin at multiples of their size, and a row adds them from its last to its first, so the bits of a row depend
 * on its inputs alone. A tile that reaches past the last entry of a head is not copied as a tensor: its rows are copied
 * one by one and zeros follow, so that 0 times them is 0. It is the first tile of its block. */
#include <stdio.h>

#include "kernels/cuda/attend_block.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/wgmma.cuh"

/* Forms of kernels: all have causal masks and windows of slots. CAPPED: soft caps, too; OF_ENTRIES: biases, and windows
 * over stored positions. */
enum { CAPPED = 1, OF_ENTRIES = 2, FORMS = 4 };

enum { STAGES = 2, ROWS = 128, GROUP_ROWS = 64, THREADS = 384, SWIZZLE_BYTES = 1024 };

template <int D_>
struct hopper_kind {
    enum {
        D = D_,                      /* dimensions, padded */
        KEYS = D_ <= 128 ? 128 : 64, /* entries of a tile */
        COLUMNS = D_ / 64,           /* tiles of 64 columns of a matrix */
        QUERY_TILE = ROWS * 128,     /* bytes of 64 columns of queries, of keys or values */
        KEY_TILE = KEYS * 128,
        QUERY_BYTES = COLUMNS * QUERY_TILE,
        KEY_BYTES = COLUMNS * KEY_TILE,
        SHARED = QUERY_BYTES + 2 * STAGES * KEY_BYTES + SWIZZLE_BYTES
    };
    static_assert(LH_SHARED_BLOCK % KEYS == 0, "a tile lies in one segment");
};

/* Keys and values as tensors [slots, dim], of the cache and of its parent. */
typedef struct hopper_maps {
    CUtensorMap k, v;
} hopper_maps;
typedef struct hopper_job {
    hopper_maps own, parent;
    attend_job a;
    int q_width; /* numbers of a query that are read in one access */
} hopper_job;

/* Mbarriers of the stages. */
typedef struct hopper_ring {
    uint64_t k_full[STAGES], v_full[STAGES], k_empty[STAGES], v_empty[STAGES];
} hopper_ring;

/* The tiles of a block: number i of the count, the last of the entries first, is tile end - 1 - i. */
typedef struct hopper_tiles {
    int end, count;
    int partial;  /* true if the first one reaches past the last entry of the head */
    int in_order; /* true if the slots are positions */
} hopper_tiles;

/* Where shared memory holds what. */
template <typename K>
struct hopper_memory {
    unsigned char *queries;
    __device__ __forceinline__ unsigned char *keys(int stage) const
    {
        return queries + K::QUERY_BYTES + stage * K::KEY_BYTES;
    }
    __device__ __forceinline__ unsigned char *values(int stage) const
    {
        return keys(STAGES + stage);
    }
};

static __device__ __forceinline__ int limit_of(const attend_job &a, const attend_place &p, unsigned row)
{
    return (int)(p.len - a.tokens + row / p.count + 1);
}
/* The row sees positions above this one. */
static __device__ __forceinline__ int before_of(const attend_job &a, const attend_place &p, unsigned row)
{
    return a.logit.window > 0 ? lh_visible_range_of(a.positions, NULL, a.logit.window, row / p.count).before : -1;
}

/* A head that holds all positions up to its last one's holds them in order: entries move only when some are evicted. */
template <typename K>
static __device__ hopper_tiles find_tiles(const attend_job &a, const attend_place &p)
{
    const unsigned last = min(p.row0 + ROWS, p.rows) - 1;
    const int limit = limit_of(a, p, last);
    hopper_tiles tiles = {limit > 0 ? (limit + K::KEYS - 1) / K::KEYS : 0, 0, 0, 1};
    int first = 0;
    if (a.logit.window > 0) {
        tiles.in_order = !a.kv.positions || a.positions[a.tokens - 1] == p.len - 1;
        if (tiles.in_order) first = (before_of(a, p, p.row0) + 1) / K::KEYS;
    }
    tiles.count = max(tiles.end - first, 0);
    tiles.partial = (int64_t)tiles.end * K::KEYS > p.len;
    return tiles;
}

/* ---- copies ---- */

/* Eight numbers of a query. */
typedef struct hopper_eight {
    float4 low, high;
} hopper_eight;

template <int WIDTH>
static __device__ __forceinline__ hopper_eight load_eight(const float *q)
{
    if (WIDTH == 4) return {((const float4 *)q)[0], ((const float4 *)q)[1]};
    return {make_float4(q[0], q[1], q[2], q[3]), make_float4(q[4], q[5], q[6], q[7])};
}

/* Stages queries, rounded, with zeros after rows and dimensions. WIDTH: numbers that are read in one access. A thread's
 * loads are under way together. */
template <typename K, int WIDTH>
static __device__ void stage_queries(const attend_job &a, const attend_place &p, unsigned char *to)
{
    enum { PIECES = K::D / 8, ALL = ROWS * PIECES, EACH = (ALL + THREADS - 1) / THREADS };
    hopper_eight all[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int n = (int)threadIdx.x + i * THREADS, x = n % PIECES * 8;
        const unsigned row = p.row0 + (unsigned)(n / PIECES);
        all[i] = hopper_eight{make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)};
        if (n < ALL && row < p.rows && x < a.form.dim)
            all[i] = load_eight<WIDTH>(a.q + row / p.count * a.q_ld + (p.i0 + row % p.count) * a.form.dim + x);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int n = (int)threadIdx.x + i * THREADS;
        const float4 low = all[i].low, high = all[i].high;
        if (n < ALL)
            *lh_tile_piece(to, K::QUERY_TILE, n / PIECES, n % PIECES) = make_uint4(
                lh_word(low.x, low.y), lh_word(low.z, low.w), lh_word(high.x, high.y), lh_word(high.z, high.w));
    }
}

/* Copies the entries of the head from slot `slot` on, fewer than a tile has, with zeros after them and the dimensions.
 */
template <typename K>
static __device__ void stage_entries(const attend_job &a, const attend_place &p, int slot, const void *from,
                                     unsigned char *to)
{
    enum { PIECES = K::D / 8 };
    const __nv_bfloat16 *at = (const __nv_bfloat16 *)from + (p.offset + slot) * a.form.dim;
    const int rows = (int)(p.len - slot);
#pragma unroll 4
    for (int n = (int)threadIdx.x; n < K::KEYS * PIECES; n += THREADS) {
        const int row = n / PIECES, x = n % PIECES * 8;
        uint4 piece = make_uint4(0, 0, 0, 0);
        if (row < rows && x < a.form.dim) piece = *(const uint4 *)(at + (int64_t)row * a.form.dim + x);
        *lh_tile_piece(to, K::KEY_TILE, row, n % PIECES) = piece;
    }
}

/* Copies a tile of keys or values, from row `row` of the tensor on; one thread. */
template <typename K>
static __device__ __forceinline__ void copy_tile(const CUtensorMap *map, unsigned char *to, int row, uint64_t *full)
{
    lh_mbarrier_expect(full, K::KEY_BYTES);
#pragma unroll
    for (int c = 0; c < K::COLUMNS; c++) lh_tensor_copy(to + c * K::KEY_TILE, map, 64 * c, row, full);
}

/* Copies keys and values of tile number i of the block, when its stage is empty; one thread. The rows of a partial tile
 * have been copied. */
template <typename K>
static __device__ __forceinline__ void copy_entries(const hopper_job &job, const attend_place &p,
                                                    const hopper_tiles &tiles, const hopper_memory<K> &memory,
                                                    hopper_ring *ring, int i)
{
    const int stage = i % STAGES, turn = i / STAGES, slot = (tiles.end - 1 - i) * K::KEYS;
    const int is_shared = slot < p.shared, row = (int)((is_shared ? p.parent : p.offset) + slot);
    const hopper_maps *maps = is_shared ? &job.parent : &job.own;
    if (i == 0 && tiles.partial) {
        lh_mbarrier_arrive(&ring->k_full[0]);
        lh_mbarrier_arrive(&ring->v_full[0]);
        return;
    }
    if (turn > 0) lh_mbarrier_wait(&ring->k_empty[stage], (turn - 1) & 1);
    copy_tile<K>(&maps->k, memory.keys(stage), row, &ring->k_full[stage]);
    if (turn > 0) lh_mbarrier_wait(&ring->v_empty[stage], (turn - 1) & 1);
    copy_tile<K>(&maps->v, memory.values(stage), row, &ring->v_full[stage]);
}

/* ---- a tile ---- */

/* The rows of a lane, g and g + 8 of its warp's 16: maxima and denominators (of the lane's entries) in units of the
 * logits that the products give; the factor for the sums so far; and the visible slots, below `limit` and at positions
 * above `before`. */
struct hopper_state {
    float row_max[2], denominator[2], shrink[2];
    int limit[2], before[2];
};

/* Sight of the rows of a warpgroup: the minimum of their limits, the maximum of the positions before them; true if
 * slots are positions; and of the head's slots the number, the number in the parent, and where they begin (slots count
 * in 31 bits here, because registers are short). */
struct hopper_sight {
    int least_limit, most_before, in_order;
    int len, shared, own, parent;
};

/* The numbers of the head's slots in the arrays that hold slot `slot`. */
template <typename T>
static __device__ __forceinline__ const T *numbers_at(const T *own, const T *parent, const hopper_sight &sight,
                                                      int slot)
{
    return slot < sight.shared ? parent + sight.parent : own + sight.own;
}

/* The factor from these units to logits. */
template <int FORM>
static __device__ __forceinline__ float factor_of(const attend_job &a)
{
    return FORM & CAPPED ? a.logit.softcap : a.logit.scale;
}

template <typename K>
static __device__ __forceinline__ void multiply_keys(float (&s)[K::KEYS / 2], uint32_t queries, uint32_t keys)
{
#pragma unroll
    for (int i = 0; i < K::D / 16; i++)
        lh_wgmma(s, lh_wgmma_matrix(queries + i / 4 * K::QUERY_TILE + i % 4 * 32, 16, 1024),
                 lh_wgmma_matrix(keys + i / 4 * K::KEY_TILE + i % 4 * 32, 16, 1024), i > 0);
}

template <typename K>
static __device__ __forceinline__ void add_values(float (&o)[K::D / 2], const uint32_t (&p)[K::KEYS / 4],
                                                  uint32_t values)
{
#pragma unroll
    for (int i = 0; i < K::KEYS / 16; i++)
        lh_wgmma(o, p + 4 * i, lh_wgmma_matrix(values + i * 2048, K::KEY_TILE, 1024));
}

/* The entry of number i of a lane's logits, from the tile's first on. */
static __device__ __forceinline__ int entry_of(int i)
{
    return i / 4 * 8 + lh_lane() % 4 * 2 + i % 2;
}

template <typename K>
static __device__ __forceinline__ void cap_logits(float (&s)[K::KEYS / 2], const attend_job &a)
{
    const float in = a.logit.scale / a.logit.softcap;
#pragma unroll
    for (int i = 0; i < K::KEYS / 2; i++) s[i] = lh_tanh_fast(s[i] * in);
}

/* Adds the biases of the entries; there are none after the last one. */
template <typename K>
static __device__ __forceinline__ void add_biases(float (&s)[K::KEYS / 2], const attend_job &a,
                                                  const hopper_sight &sight, int slot, float unit)
{
    const float *biases = numbers_at(a.kv.bias, a.kv.parent.bias, sight, slot);
#pragma unroll
    for (int i = 0; i < K::KEYS / 2; i++) {
        const int j = slot + entry_of(i);
        s[i] = fmaf(j < sight.len ? biases[j] : 0.0f, unit, s[i]);
    }
}

/* Sets -inf for entries that a row does not see; positions: of the head's slots, NULL: the slots. */
template <typename K>
static __device__ __forceinline__ void mask(float (&s)[K::KEYS / 2], const hopper_state &state,
                                            const hopper_sight &sight, const int32_t *positions, int slot)
{
#pragma unroll
    for (int i = 0; i < K::KEYS / 2; i++) {
        const int j = slot + entry_of(i), at = !positions ? j : j < sight.len ? positions[j] : -1;
        if (j >= state.limit[i % 4 / 2] || at <= state.before[i % 4 / 2]) s[i] = -INFINITY;
    }
}

/* Turns logits into weights to the base 2. The maximum of the row is subtracted by the multiply-add, which changes all
 * weights of the row by one factor, its rounding: at most 2^-13 of them below `huge`, from where on the maximum is
 * subtracted before. Products are rounded before differences, so that a tile without visible entries changes nothing.
 */
template <typename K>
static __device__ __forceinline__ void weigh(float (&s)[K::KEYS / 2], hopper_state *state, float factor)
{
    const float c = factor * LH_LOG2E, huge = 1 << 12;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float row_max = state->row_max[r], sum = 0.0f;
#pragma unroll
        for (int i = 0; i < K::KEYS / 4; i++) row_max = fmaxf(row_max, s[i / 2 * 4 + 2 * r + i % 2]);
        row_max = fmaxf(row_max, __shfl_xor_sync(LH_ALL, row_max, 1));
        row_max = fmaxf(row_max, __shfl_xor_sync(LH_ALL, row_max, 2));
        float shift = __fmul_rn(lh_shift(row_max), c);
        state->shrink[r] = lh_exp2(__fmul_rn(state->row_max[r], c) - shift);
        state->row_max[r] = row_max;
        const int is_huge = fabsf(shift) >= huge;
        if (__any_sync(LH_ALL, is_huge)) {
            const float before = is_huge ? row_max : 0.0f;
#pragma unroll
            for (int i = 0; i < K::KEYS / 4; i++) s[i / 2 * 4 + 2 * r + i % 2] -= before;
            if (is_huge) shift = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < K::KEYS / 4; i++) {
            float &x = s[i / 2 * 4 + 2 * r + i % 2];
            x = lh_exp2(fmaf(x, c, -shift));
            sum += x;
        }
        state->denominator[r] = fmaf(state->denominator[r], state->shrink[r], sum);
    }
}

template <typename K, int FORM>
static __device__ __forceinline__ void weigh_tile(float (&s)[K::KEYS / 2], hopper_state *state, const attend_job &a,
                                                  const hopper_sight &sight, int slot)
{
    const int is_stored = FORM & OF_ENTRIES && a.logit.window > 0 && !sight.in_order;
    if (FORM & CAPPED) cap_logits<K>(s, a);
    if (FORM & OF_ENTRIES && a.kv.bias) add_biases<K>(s, a, sight, slot, 1.0f / factor_of<FORM>(a));
    if (is_stored || slot + K::KEYS > sight.least_limit || slot <= sight.most_before)
        mask<K>(s, *state, sight, is_stored ? numbers_at(a.kv.positions, a.kv.parent.positions, sight, slot) : NULL,
                slot);
    weigh<K>(s, state, factor_of<FORM>(a));
}

template <typename K>
static __device__ __forceinline__ void round_weights(uint32_t (&words)[K::KEYS / 4], const float (&s)[K::KEYS / 2])
{
#pragma unroll
    for (int i = 0; i < K::KEYS / 4; i++) words[i] = lh_word(s[2 * i], s[2 * i + 1]);
}

template <typename K>
static __device__ __forceinline__ void shrink_sums(float (&o)[K::D / 2], const hopper_state &state)
{
#pragma unroll
    for (int i = 0; i < K::D / 2; i++) o[i] *= state.shrink[i % 4 / 2];
}

/* ---- rows ---- */

static __device__ __forceinline__ void put_two(float *to, float x, float y, int is_aligned)
{
    if (is_aligned)
        *(float2 *)to = make_float2(x, y);
    else
        to[0] = x, to[1] = y;
}
static __device__ __forceinline__ void put_two(__nv_bfloat16 *to, float x, float y, int is_aligned)
{
    if (is_aligned)
        *(unsigned *)to = lh_word(x, y);
    else
        lh_put(to, x), lh_put(to + 1, y);
}

/* first: the first of the warp's 16 rows, from the block's first on. */
template <typename K, int FORM>
static __device__ __forceinline__ void write_rows(const float (&o)[K::D / 2], const hopper_state &state,
                                                  const attend_job &a, const attend_place &p, unsigned first)
{
    const int is_aligned = a.o_width == 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const unsigned row = p.row0 + first + (unsigned)(lh_lane() / 4 + 8 * r);
        float denominator = state.denominator[r];
        denominator += __shfl_xor_sync(LH_ALL, denominator, 1);
        denominator += __shfl_xor_sync(LH_ALL, denominator, 2);
        if (row >= p.rows) continue;
        const int64_t token = row / p.count, i = p.i0 + row % p.count, at = token * a.o_ld + i * a.form.dim;
        const float inverse = denominator != 0 ? 1 / denominator : 0.0f;
        if (a.lse && lh_lane() % 4 == 0)
            a.lse[token * a.map.heads + i] =
                denominator != 0 ? lh_shift(state.row_max[r]) * factor_of<FORM>(a) + logf(denominator) : -INFINITY;
#pragma unroll
        for (int b = 0; b < K::D / 8; b++) {
            const int x = 8 * b + lh_lane() % 4 * 2;
            const float low = o[4 * b + 2 * r] * inverse, high = o[4 * b + 2 * r + 1] * inverse;
            if (x >= a.form.dim) continue;
            if (a.o) put_two(a.o + at + x, low, high, is_aligned);
            if (a.o_bf16) put_two(a.o_bf16 + at + x, low, high, is_aligned);
        }
    }
}

/* The 64 rows of a warpgroup over all tiles of the block. */
template <typename K, int FORM>
static __device__ __forceinline__ void attend_rows(const attend_job &a, const attend_place &p,
                                                   const hopper_tiles &tiles, const hopper_memory<K> &memory,
                                                   hopper_ring *ring)
{
    const unsigned first = (threadIdx.x / 128 - 1) * GROUP_ROWS, of_warp = first + threadIdx.x % 128 / 32 * 16;
    const unsigned last = min(p.row0 + first + GROUP_ROWS, p.rows) - 1;
    const hopper_sight sight = {limit_of(a, p, p.row0 + first),
                                p.row0 + first < p.rows ? before_of(a, p, last) : -1,
                                tiles.in_order,
                                (int)p.len,
                                (int)p.shared,
                                (int)p.offset,
                                (int)p.parent};
    const uint32_t queries = lh_shared_address(memory.queries) + first * LH_TILE_ROW;
    float o[K::D / 2], s[K::KEYS / 2];
    uint32_t weights[K::KEYS / 4];
    hopper_state state;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const unsigned row = min(p.row0 + of_warp + (unsigned)(lh_lane() / 4 + 8 * r), p.rows - 1);
        state.row_max[r] = -INFINITY, state.denominator[r] = 0, state.shrink[r] = 1;
        state.limit[r] = limit_of(a, p, row);
        state.before[r] = before_of(a, p, row);
    }
#pragma unroll
    for (int i = 0; i < K::D / 2; i++) o[i] = 0;
    if (tiles.count > 0) {
        lh_mbarrier_wait(&ring->k_full[0], 0);
        lh_wgmma_hold(s);
        lh_wgmma_fence();
        multiply_keys<K>(s, queries, lh_shared_address(memory.keys(0)));
        lh_wgmma_commit();
        lh_wgmma_wait<0>();
        lh_wgmma_hold(s);
        if (lh_lane() == 0) lh_mbarrier_arrive(&ring->k_empty[0]);
        weigh_tile<K, FORM>(s, &state, a, sight, (tiles.end - 1) * K::KEYS);
        round_weights<K>(weights, s);
        for (int i = 1; i < tiles.count; i++) {
            const int stage = i % STAGES, turn = i / STAGES, before = (i - 1) % STAGES, its_turn = (i - 1) / STAGES;
            lh_mbarrier_wait(&ring->k_full[stage], turn & 1);
            lh_wgmma_hold(s), lh_wgmma_hold(o), lh_wgmma_hold(weights);
            lh_wgmma_fence();
            multiply_keys<K>(s, queries, lh_shared_address(memory.keys(stage)));
            lh_wgmma_commit();
            lh_mbarrier_wait(&ring->v_full[before], its_turn & 1);
            add_values<K>(o, weights, lh_shared_address(memory.values(before)));
            lh_wgmma_commit();
            lh_wgmma_wait<1>();
            lh_wgmma_hold(s);
            if (lh_lane() == 0) lh_mbarrier_arrive(&ring->k_empty[stage]);
            weigh_tile<K, FORM>(s, &state, a, sight, (tiles.end - 1 - i) * K::KEYS);
            lh_wgmma_wait<0>();
            lh_wgmma_hold(o), lh_wgmma_hold(weights);
            if (lh_lane() == 0) lh_mbarrier_arrive(&ring->v_empty[before]);
            shrink_sums<K>(o, state);
            round_weights<K>(weights, s);
        }
        const int stage = (tiles.count - 1) % STAGES, turn = (tiles.count - 1) / STAGES;
        lh_mbarrier_wait(&ring->v_full[stage], turn & 1);
        lh_wgmma_hold(o), lh_wgmma_hold(weights);
        lh_wgmma_fence();
        add_values<K>(o, weights, lh_shared_address(memory.values(stage)));
        lh_wgmma_commit();
        lh_wgmma_wait<0>();
        lh_wgmma_hold(o);
    }
    write_rows<K, FORM>(o, state, a, p, of_warp);
}

/* Makes the mbarriers, begins the copies of the first tiles, and stages what ordinary accesses copy. */
template <typename K>
static __device__ __forceinline__ void begin_block(const hopper_job &job, const attend_place &p,
                                                   const hopper_tiles &tiles, const hopper_memory<K> &memory,
                                                   hopper_ring *ring)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            lh_mbarrier_init(&ring->k_full[i], 1);
            lh_mbarrier_init(&ring->v_full[i], 1);
            lh_mbarrier_init(&ring->k_empty[i], 8);
            lh_mbarrier_init(&ring->v_empty[i], 8);
        }
        lh_mbarrier_fence();
        for (int i = 0; i < min(tiles.count, +STAGES); i++) copy_entries<K>(job, p, tiles, memory, ring, i);
    }
    if (job.q_width == 4)
        stage_queries<K, 4>(job.a, p, memory.queries);
    else
        stage_queries<K, 1>(job.a, p, memory.queries);
    if (tiles.count > 0 && tiles.partial) {
        const int slot = (tiles.end - 1) * K::KEYS;
        stage_entries<K>(job.a, p, slot, job.a.kv.k, memory.keys(0));
        stage_entries<K>(job.a, p, slot, job.a.kv.v, memory.values(0));
    }
    lh_async_fence();
    __syncthreads();
}

/* blockIdx.x: tiles of rows, y: KV heads. */
template <typename K, int FORM>
static __global__ void __launch_bounds__(THREADS, 1) hopper_kernel(const __grid_constant__ hopper_job job)
{
    __shared__ hopper_ring ring;
    const attend_place p = place_of(job.a, ROWS);
    if (p.row0 >= p.rows) return;
    const hopper_tiles tiles = find_tiles<K>(job.a, p);
    unsigned char *shared = lh_shared();
    const hopper_memory<K> memory = {shared + (0u - lh_shared_address(shared)) % SWIZZLE_BYTES};
    begin_block<K>(job, p, tiles, memory, &ring);
    if (threadIdx.x < 128) {
        lh_registers_fewer<24>();
        if (threadIdx.x == 0)
            for (int i = STAGES; i < tiles.count; i++) copy_entries<K>(job, p, tiles, memory, &ring, i);
    } else {
        lh_registers_more<240>();
        attend_rows<K, FORM>(job.a, p, tiles, memory, &ring);
    }
}

/* ---- the operation ---- */

/* A kernel and its shared memory, by dimensions and form; 2 KiB of a block are left for static memory. */
typedef struct hopper_way {
    void (*kernels[FORMS])(hopper_job);
    int64_t max_dim, keys, shared;
} hopper_way;

template <int D>
static constexpr hopper_way way_for(void)
{
    typedef hopper_kind<D> K;
    return hopper_way{{hopper_kernel<K, 0>, hopper_kernel<K, CAPPED>, hopper_kernel<K, OF_ENTRIES>,
                       hopper_kernel<K, CAPPED | OF_ENTRIES>},
                      D,
                      K::KEYS,
                      K::SHARED};
}
static const hopper_way hopper_ways[] = {way_for<64>(), way_for<128>(), way_for<256>()};
enum { WAYS = sizeof hopper_ways / sizeof *hopper_ways, STATIC_BYTES = 2 << 10 };
static_assert(WAYS * FORMS == LH_WGMMA_KERNELS, "a kernel for each range of dimensions and form");

/* Slots of a device's memory count in 31 bits from MIN_DIM on, as coordinates of tensor copies do. Blocks with fewer
 * rows than a warpgroup has, or with fewer thread blocks than two in five multiprocessors, use the kernel of tiles,
 * which splits the entries, where the order of sums is free: this kernel has 2.5 times its rate. */
enum { CAPABILITY = 90, MIN_DIM = 32, MAX_DIM = 256 };

static const hopper_way *way_of(int64_t dim)
{
    int i = 0;
    while (i < WAYS - 1 && dim > hopper_ways[i].max_dim) i++;
    return &hopper_ways[i];
}

static int form_of(const lh_attend_block_args *b)
{
    const int of_entries = b->kv->bias || (b->logit.window > 0 && b->kv->positions);
    return (b->logit.softcap > 0 ? CAPPED : 0) | (of_entries ? OF_ENTRIES : 0);
}

static int64_t row_tiles(const lh_attend_block_args *b)
{
    return (b->tokens * b->map.group + ROWS - 1) / ROWS;
}

int lh_wgmma_kernel(lh_stream *stream, const lh_attend_block_args *b)
{
    const int64_t dim = b->kv->head_dim, units = row_tiles(b) * attend_heads(b);
    const int kernel = (int)(way_of(dim) - hopper_ways) * FORMS + form_of(b);
    if (lh_cuda_capability(stream) != CAPABILITY || !lh_cuda_maps(stream)) return -1;
    if (b->kv->type != LH_BF16 || dim < MIN_DIM || dim > MAX_DIM || !lh_form_of(b->kv).wide) return -1;
    if (!(b->logit.scale > 0) || way_of(dim)->shared + STATIC_BYTES > lh_cuda_shared(stream)) return -1;
    if (b->order == LH_ORDER_FIXED) return kernel;
    return b->tokens * b->map.group >= GROUP_ROWS && 5 * units >= 2 * lh_cuda_processors(stream) ? kernel : -1;
}

/* Maps keys and values, rows of `dim` bf16 numbers, in boxes of 64 columns and `keys` rows. The number of rows is not
 * known on the host: copies never reach past the last entry of a head. */
static CUresult map_entries(lh_stream *stream, hopper_maps *maps, void *const at[2], int64_t dim, int64_t keys)
{
    const int64_t shape[] = {INT32_MAX, dim};
    CUresult rc = lh_map_tiles(stream, &maps->k, at[0], shape, dim, keys);
    if (rc == CUDA_SUCCESS) rc = lh_map_tiles(stream, &maps->v, at[1], shape, dim, keys);
    return rc;
}

lh_status lh_attend_by_wgmma(lh_stream *stream, const lh_attend_block_args *b, char why[256])
{
    const lh_ragged *kv = b->kv;
    const hopper_way *way = way_of(kv->head_dim);
    void *const own[] = {kv->k, kv->v}, *const parent[] = {kv->parent.k, kv->parent.v};
    hopper_job job = {};
    job.a = attend_job_of(b);
    job.q_width = lh_width(b->q, b->q_ld, LH_F32);
    CUresult rc = map_entries(stream, &job.own, own, kv->head_dim, way->keys);
    if (rc == CUDA_SUCCESS && kv->parent.k) rc = map_entries(stream, &job.parent, parent, kv->head_dim, way->keys);
    if (rc != CUDA_SUCCESS) {
        snprintf(why, 256, "the driver made no map for tensor copies of a cache (error %d)", (int)rc);
        return LH_OK;
    }
    return lh_launch(stream, "attend_block",
                     lh_shape{dim3((unsigned)row_tiles(b), (unsigned)attend_heads(b)), THREADS, way->shared},
                     way->kernels[form_of(b)], job);
}

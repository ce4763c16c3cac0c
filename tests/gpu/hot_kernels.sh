#!/usr/bin/env bash
# Machine code of the hot kernels: hot_kernels.sh TOOLKIT_BIN OBJECT…, the objects that nvcc made.
# On every architecture of them: no register is spilled to memory (but for one kernel), and where the tensor cores multiply queries and keys,
# or weights and the rows of a step, at most 0.1 moves accompany a product (HMMA): operands that do not lie in registers
# as the products want them cost one or more each, in the loop that takes most of the time. Products of warpgroups (HGMMA) run beside other work: the kernel
# waits for them only where the source does, and not after each, as where the compiler serialises them. Needs cuobjdump and nvdisasm, which it calls, of the toolkit,
# on PATH, or of the wheels nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm; skipped (77) without them.
set -euo pipefail
export PATH="$PATH:$1"
shift

# Objects whose kernels take most of the time. An f32 cache of more than 128 dimensions is for comparisons: its kernels
# may spill. The stack of rope_kernel is that of sincosf for large angles.
hot='attend_block attend_hopper attend_decode column_stats gemm_small gemm_stream cache norms rows'
cool='IfLi256E|rope_kernel'
# Tiles of 64 entries at 128 dimensions of bf16: spills, and faster than without on an H200 nevertheless.
spilling='Li128ELi4ELi2ELi64E'
most_spills=80
# Those whose first stretch of products is that of queries and keys.
attention='attend_kernel'
few_moves="$attention|stream_mma_kernel|expert_stream_kernel"
# Where codes of q8 become bf16 between products, which ends the first stretch early.
widening='attend_kindIa'
# Those with products of warpgroups, and the waits for them in the source.
warpgroups='hopper_kernel'
max_waits=4

for tool in cuobjdump nvdisasm; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: there is no $tool"
        exit 77
    fi
done

# A line for each kernel: architecture, registers, spills, products of the first stretch, moves among them, products of
# warpgroups, waits for them, name.
# Spills lie at the stack pointer, R1; arrays of a thread, such as that of sincosf for large angles, at other registers.
# A stretch ends where 150 instructions are no products.
count='
function flush() {
    if (name != "") print arch, registers[arch, name], spills + 0, products + 0, moves + 0, large + 0, waits + 0, name
    spills = products = moves = large = waits = since = at = ended = 0
    name = ""
}
/^arch = sm_/ { flush(); arch = $3 }
/^ Function .*:$/ { used = substr($2, 1, length($2) - 1) }
/^ *REG:/ { registers[arch, used] = substr($1, 5) }
/Function : / { flush(); name = $3 }
$1 ~ /^\/\*[0-9a-f]+\*\/$/ {
    op = $2 ~ /^@/ ? $3 : $2
    at++
    if (op ~ /^(STL|LDL)/ && /\[R1[]+]/) spills++
    if (op ~ /^(IMAD\.)?MOV/) since++
    if (op ~ /^HGMMA/) large++
    if (op ~ /^WARPGROUP\.DEPBAR/) waits++
    if (products && at - last > 150) ended = 1
    if (op ~ /^HMMA/ && !ended) {
        if (products++) moves += since
        since = 0
        last = at
    }
}
END { flush() }'

failed=0
attends=0
for object in $hot; do
    file=
    for f in "$@"; do
        if [[ ${f##*/} == "$object".cu.o* ]]; then file=$f; fi
    done
    kernels=0
    while read -r arch registers spills products moves large waits name; do
        kernels=$((kernels + 1))
        line="$arch $object: $registers registers, $spills spills, $moves moves in $products products: $name"
        verdict=ok
        allowed=0
        if [[ $name =~ $spilling ]]; then allowed=$most_spills; fi
        if [ "$spills" -gt "$allowed" ]; then verdict=FAILED; fi
        if [[ $name =~ $attention ]]; then
            attends=$((attends + 1))
            if [ "$products" = 0 ]; then verdict=FAILED; fi
        fi
        if [[ $name =~ $few_moves && ! $name =~ $widening ]] && [ $((10 * moves)) -gt "$products" ]; then
            verdict=FAILED
        fi
        if [[ $name =~ $warpgroups ]]; then
            line+=", $large products of warpgroups, $waits waits"
            if [ "$large" = 0 ] || [ "$waits" -gt "$max_waits" ]; then verdict=FAILED; fi
        fi
        if [ "$verdict" = FAILED ]; then failed=1; fi
        echo "$verdict $line"
    done < <([ -z "$file" ] || cuobjdump -sass -res-usage "$file" | awk "$count" | grep -vE "$cool")
    if [ "$kernels" = 0 ]; then
        echo "FAILED $object.cu: no object, or no kernels in it"
        failed=1
    fi
done
if [ "$attends" = 0 ]; then
    echo "FAILED: no kernel is called $attention"
    failed=1
fi
exit "$failed"

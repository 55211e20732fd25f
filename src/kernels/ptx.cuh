// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Wrappers of the PTX instructions that CUDA C++ has no operators for, one function each. The
// section of the PTX ISA that defines an instruction stands above its group.
#pragma once
#include "base.cuh"

namespace culet::kernels {

/// A tensor map as the driver encodes it; opaque. A kernel parameter (`const __grid_constant__`).
struct alignas(64) TensorMap {
  u64 words[16];
};

// --- "Data Movement and Conversion Instructions: cvta" -------------------------------------------

CULET_DEVICE u32 shared_address(const void* pointer) {
  u32 address;
  asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }"
      : "=r"(address)
      : "l"(pointer));
  return address;
}

// --- "Parallel Synchronization and Communication Instructions: mbarrier" -------------------------

CULET_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to the copy engine and to the cluster; a cluster (or block)
/// barrier must follow before anybody uses them.
CULET_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
CULET_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives at the barrier that stands at the same place in another block of the cluster. Plain
/// block scope: what it orders are reads by WGMMA, which have completed. The `.release.cluster`
/// form drains all memory traffic first, which made kernels with clusters 1.5 to 2.5 times slower
/// (H200, 2026-11-29).
CULET_DEVICE void mbarrier_arrive_cluster(u32 barrier, u32 rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
CULET_DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Waits until the phase of the given parity has completed. On a fresh barrier parity 1 passes.
CULET_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// --- "... barrier.cluster", "... barrier / bar" and "Special Registers" --------------------------

CULET_DEVICE void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
/// The two halves of cluster_sync(), with other work in between.
CULET_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
CULET_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
CULET_DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
CULET_DEVICE void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Counts towards a barrier_sync() of others, without waiting for it.
CULET_DEVICE void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Barrier that also tells every thread whether any of them came with `value` set.
CULET_DEVICE bool barrier_any(int id, int threads, bool value) {
  u32 result;
  asm volatile(
      "{ .reg .pred in, out; setp.ne.u32 in, %1, 0;"
      " bar.red.or.pred out, %2, %3, in; selp.u32 %0, 1, 0, out; }"
      : "=r"(result)
      : "r"(static_cast<u32>(value)), "r"(id), "r"(threads)
      : "memory");
  return result != 0;
}

// --- "... griddepcontrol" (programmatic dependent launch; no effect in an ordinary launch) -------

CULET_DEVICE void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
CULET_DEVICE void let_later_kernels_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// --- "elect.sync" --------------------------------------------------------------------------------

/// True in one lane; called by a whole warp. Copies must be asked for behind this and not behind a
/// comparison of thread numbers: only so ptxas knows that a single lane runs, and spares a loop
/// over lanes around each of them, which took 64x64 tiles 90 of 246 clocks a stage (H200,
/// 2026-11-30).
CULET_DEVICE bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.u32 %0, 1, 0, p; }"
               : "=r"(elected));
  return elected != 0;
}

// --- "Membar / fence", "atom" --------------------------------------------------------------------

/// Orders this thread's ordinary writes to shared memory before later reads by the copy engine or
/// WGMMA. The narrow `.shared::cta` form: the unqualified one costs several per cent.
CULET_DEVICE void fence_shared_to_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
CULET_DEVICE void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
CULET_DEVICE u32 atomic_add_gpu(u32* address, u32 value) {
  u32 old;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(address), "r"(value)
               : "memory");
  return old;
}

// --- "... cp.async.bulk.tensor" (the copy engine, TMA) -------------------------------------------

CULET_DEVICE void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
CULET_DEVICE void tma_load(u32 shared, const TensorMap* map, u32 barrier, i32 x, i32 y, i32 z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// The same for data that nobody reads again soon: L2 gives it up first.
CULET_DEVICE void tma_load_once(u32 shared, const TensorMap* map, u32 barrier, i32 x, i32 y,
                                i32 z) {
  asm volatile(
      "{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0;"
      " cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], policy; }" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// Writes to, and counts bytes at the barrier of, every block of the cluster whose bit is set.
CULET_DEVICE void tma_load_multicast(u32 shared, const TensorMap* map, u32 barrier, u16 blocks,
                                     i32 x, i32 y, i32 z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared),
      "l"(map), "r"(barrier), "h"(blocks), "r"(x), "r"(y), "r"(z)
      : "memory");
}
CULET_DEVICE void tma_store(const TensorMap* map, u32 shared, i32 x, i32 y, i32 z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
          map),
      "r"(shared), "r"(x), "r"(y), "r"(z)
      : "memory");
}
CULET_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until at most `Pending` of this thread's latest stores still read shared memory.
template <int Pending>
CULET_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
/// Until all of this thread's stores are complete.
CULET_DEVICE void tma_store_wait_all() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// --- "... ld" ------------------------------------------------------------------------------------

CULET_DEVICE void load_shared(u32 shared, float (&x)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(shared)
               : "memory");
}
/// Four words, as i32 or u32.
template <class Word>
CULET_DEVICE void load_shared(u32 shared, Word (&x)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared)
               : "memory");
}

// --- "... stmatrix" ------------------------------------------------------------------------------

CULET_DEVICE void stmatrix_x4(u32 shared, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

/// The same with each of the four matrices transposed.
CULET_DEVICE void stmatrix_x4_transposed(u32 shared, u32 a, u32 b, u32 c, u32 d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

// --- "Miscellaneous Instructions: setmaxnreg" ----------------------------------------------------

template <int Registers>
CULET_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
CULET_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace culet::kernels

//===- ThreadAsyncOps.td - ops of sm_90 and for launches -------*- tablegen -*-===//
//
// Mbarriers, the tensor memory accelerator, warpgroup products,
// dependent launches, and ops with which blocks combine results inside a launch.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADASYNCOPS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADASYNCOPS_TD

include "mirage/Dialect/Thread/IR/ThreadOpBase.td"

/// An op that orders memory accesses: nothing moves across it.
class Thread_SyncOp<string mnemonic, list<Trait> traits = []>
    : Thread_Op<mnemonic, !listconcat([MemoryEffects<[MemRead, MemWrite]>], traits)>;

//===----------------------------------------------------------------------===//
// Mbarriers
//===----------------------------------------------------------------------===//

def Thread_MbarrierAllocOp : Thread_Op<"mbarrier_alloc", [Thread_Needs<"Mbarrier">, Pure]> {
  let summary = "mbarriers at a fixed byte offset of the dynamic shared memory";
  let description = [{
    ```mlir
    %full = thread.mbarrier_alloc 4096 : !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$offset);
  let results = (outs Thread_MbarrierType:$result);
  let assemblyFormat = "$offset attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Thread_MbarrierInitOp : Thread_SyncOp<"mbarrier_init", [Thread_Needs<"Mbarrier">]> {
  let summary = "initialises all mbarriers of an array";
  let description = [{
    Each phase completes after `arrivals` arrivals (and after the expected bytes have
    arrived). One thread executes it; a `thread.barrier` must follow before any other
    use.

    ```mlir
    thread.mbarrier_init %full arrivals 1 : !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins Thread_MbarrierType:$barriers, ConfinedAttr<I64Attr, [IntPositive]>:$arrivals);
  let assemblyFormat = "$barriers `arrivals` $arrivals attr-dict `:` type($barriers)";
}

def Thread_MbarrierArriveOp : Thread_SyncOp<"mbarrier_arrive", [Thread_Needs<"Mbarrier">]> {
  let summary = "one arrival for each warp that executes it";
  let description = [{
    The warp's earlier accesses to shared memory are visible to all threads that see
    the phase complete. With `cluster`, it arrives at the mbarriers of that many blocks
    of the cluster, including its own.

    ```mlir
    thread.mbarrier_arrive %empty[%stage] : !thread.mbarrier<4>
    thread.mbarrier_arrive %empty[%stage] cluster 2 : !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins Thread_MbarrierType:$barriers, Index:$index,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$cluster);
  let assemblyFormat = [{
    $barriers `[` $index `]` (`cluster` $cluster^)? attr-dict `:` type($barriers)
  }];
  let hasVerifier = 1;
}

def Thread_CopyArriveOp : Thread_SyncOp<"copy_arrive", [Thread_Needs<"Mbarrier">]> {
  let summary = "one arrival of each thread, when its asynchronous copies are done";
  let description = [{
    It waits for the `cp.async` copies that the thread started earlier. It publishes
    nothing else: ordinary stores need a `thread.mbarrier_arrive` in addition.

    ```mlir
    thread.copy_arrive %full[%stage] : !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins Thread_MbarrierType:$barriers, Index:$index);
  let assemblyFormat = "$barriers `[` $index `]` attr-dict `:` type($barriers)";
}

def Thread_MbarrierExpectOp : Thread_SyncOp<"mbarrier_expect", [Thread_Needs<"Mbarrier">]> {
  let summary = "one arrival by one thread, which adds the bytes that copies will deliver";
  let description = [{
    ```mlir
    thread.mbarrier_expect %full[%stage] bytes 16384 : !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins Thread_MbarrierType:$barriers, Index:$index,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$bytes);
  let assemblyFormat = "$barriers `[` $index `]` `bytes` $bytes attr-dict `:` type($barriers)";
}

def Thread_MbarrierWaitOp : Thread_SyncOp<"mbarrier_wait", [Thread_Needs<"Mbarrier">]> {
  let summary = "every thread waits until the phase of the given parity has completed";
  let description = [{
    The first phase has parity 0; waiting for parity 1 on a fresh mbarrier does
    not wait.

    ```mlir
    thread.mbarrier_wait %full[%stage] parity %p : !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins Thread_MbarrierType:$barriers, Index:$index, Index:$parity);
  let assemblyFormat = "$barriers `[` $index `]` `parity` $parity attr-dict `:` type($barriers)";
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

def Thread_PrefetchMapOp : Thread_SyncOp<"prefetch_map", [Thread_Needs<"TensorCopy">]> {
  let summary = "one thread prefetches a tensor map that copies will need soon";
  let description = [{
    ```mlir
    thread.prefetch_map %map : !thread.tensormap<64x64xf16, swizzle = 128>
    ```
  }];
  let arguments = (ins Thread_TensorMapType:$map);
  let assemblyFormat = "$map attr-dict `:` type($map)";
}

def Thread_TmaLoadOp : Thread_SyncOp<"tma_load", [Thread_Needs<"TensorCopy">, AttrSizedOperandSegments]> {
  let summary = "one thread starts a copy of a box of a tensor to shared memory";
  let description = [{
    `coordinates` (in elements, outermost dimension first) are those of the box's
    first element. A tile of several panels takes one copy for each panel. The bytes
    of the whole tile count towards the mbarrier's expected bytes, including those
    outside the tensor (zeros). With `multicast`, the copy goes to the same place
    in all blocks of the cluster whose bit is set. With `part`, the box has only some
    of the tile's rows: if it has `n` rows, they start at row `part * n` of the tile.

    ```mlir
    thread.tma_load %map[%i, %j] to %tile signal %full[%stage]
      : !thread.tensormap<128x64xf16, swizzle = 128> to !thread.shared<128x64xf16, swizzle = 128>, !thread.mbarrier<4>
    thread.tma_load %half[%i, %j] to %tile part %rank signal %full[%stage] multicast 3
      : !thread.tensormap<64x64xf16, swizzle = 128> to !thread.shared<128x64xf16, swizzle = 128>, !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins Thread_TensorMapType:$map, Variadic<Index>:$coordinates,
                       Thread_SharedType:$dest, Optional<Index>:$part,
                       Thread_MbarrierType:$barriers, Index:$index,
                       OptionalAttr<I64Attr>:$multicast);
  let assemblyFormat = [{
    $map `[` $coordinates `]` `to` $dest (`part` $part^)? `signal` $barriers `[` $index `]` (`multicast` $multicast^)?
    attr-dict `:` type($map) `to` type($dest) `,` type($barriers)
  }];
  let hasVerifier = 1;
}

def Thread_TmaStoreOp : Thread_SyncOp<"tma_store", [Thread_Needs<"TensorCopy">]> {
  let summary = "one thread starts a copy of a shared tile to a box of a tensor";
  let description = [{
    Elements outside the tensor are dropped. A `thread.fence async_proxy` and a
    barrier must lie between the stores to the tile and this op. With `group`,
    one thread of each group of four warps starts such a copy.

    ```mlir
    thread.tma_store %tile to %map[%i, %j]
      : !thread.shared<128x64xf16, swizzle = 128> to !thread.tensormap<128x64xf16, swizzle = 128>
    ```
  }];
  let arguments = (ins Thread_SharedType:$source, Thread_TensorMapType:$map,
                       Variadic<Index>:$coordinates, UnitAttr:$group);
  let assemblyFormat = [{
    $source `to` $map `[` $coordinates `]` (`group` $group^)? attr-dict
    `:` type($source) `to` type($map)
  }];
  let hasVerifier = 1;
}

def Thread_BulkCopyOp : Thread_SyncOp<"bulk_copy", [Thread_Needs<"TensorCopy">]> {
  let summary = "one thread starts a copy of contiguous rows to shared memory";
  let description = [{
    There is one bulk copy for each row of the tile, or one for the whole tile if
    rows are contiguous on both sides. The tile has no swizzle, row sizes and
    addresses are multiples of 16 bytes, and nothing lies outside the tensor.

    ```mlir
    thread.bulk_copy %a[%i, %j] dims [0, 1] to %tile signal %full[%stage]
      : memref<64x128xf16> to !thread.shared<4x128xf16>, !thread.mbarrier<4>
    ```
  }];
  let arguments = (ins Thread_GlobalMemRef:$source, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$dims, Thread_SharedType:$dest,
                       Thread_MbarrierType:$barriers, Index:$index);
  let assemblyFormat = [{
    $source `[` $offsets `]` `dims` $dims `to` $dest `signal` $barriers `[` $index `]` attr-dict
    `:` type($source) `to` type($dest) `,` type($barriers)
  }];
  let hasVerifier = 1;
}

def Thread_BulkCommitOp : Thread_SyncOp<"bulk_commit", [Thread_Needs<"TensorCopy">]> {
  let summary = "closes a group of bulk stores";
  let description = [{
    ```mlir
    thread.bulk_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_BulkWaitOp : Thread_SyncOp<"bulk_wait", [Thread_Needs<"TensorCopy">]> {
  let summary = "waits until at most `pending` groups of bulk stores are in flight";
  let description = [{
    With `read`, waits only until their shared memory may be overwritten.

    ```mlir
    thread.bulk_wait 0 read
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending, UnitAttr:$read);
  let assemblyFormat = "$pending (`read` $read^)? attr-dict";
}

def Thread_FenceOp : Thread_SyncOp<"fence"> {
  let summary = "orders this thread's memory accesses";
  let description = [{
    - `async_proxy`: ordinary accesses to shared memory come before accesses by the
      tensor memory accelerator and by `wgmma`;
    - `mbarrier_init`: the cluster sees initialised mbarriers;
    - `block`, `cluster`, `device`: acquire-release fences of that scope.

    ```mlir
    thread.fence async_proxy
    ```
  }];
  let arguments = (ins Thread_FenceKind:$kind);
  let assemblyFormat = "$kind attr-dict";
}

//===----------------------------------------------------------------------===//
// Warpgroup products
//===----------------------------------------------------------------------===//

def Thread_WgmmaOp : Thread_Op<"wgmma", [Thread_Needs<"WarpgroupMma">, MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["acc", "result"]>]> {
  let summary = "starts acc + lhs * rhs from shared memory, for groups of 4 warps";
  let description = [{
    `lhs` is a fragment or a shared tile M x K (`lhs_transposed`: K x M), and `rhs` is
    a shared tile K x N (`rhs_transposed`: N x K). Element types are f16 or bf16, and
    f32 for `acc`. Factors of 8 bits (f8E4M3FN and f8E5M2, in any combination) are in
    shared memory, with rows along K. Tiles are swizzled, or one chunk wide. The
    accumulator's layout is `wgmmaResultLayout`: the lowest two warp vectors are
    [16, 0] and [32, 0]. Before `thread.wgmma_wait`, the result may be used only as
    the accumulator of further `thread.wgmma`s. With `from_zero`, nothing reads
    `acc`, and the result is the product alone.

    The hardware adds products of 8-bit factors with about 14 bits. With `promoted`,
    each part of 64 rows and at most 128 columns is computed from zero, waited for,
    and added to `acc` in f32; no product is in flight afterwards.

    ```mlir
    %d = thread.wgmma %a, %b, %c : !thread.shared<64x64xf16, swizzle = 128>,
      !thread.shared<64x64xf16, swizzle = 128>, !thread.fragment<64x64xf32, #acc>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Thread_FragmentType, Thread_SharedType]>:$lhs, Thread_SharedType:$rhs,
                       Thread_FragmentType:$acc, UnitAttr:$lhs_transposed, UnitAttr:$rhs_transposed,
                       UnitAttr:$from_zero, UnitAttr:$promoted);
  let results = (outs Thread_FragmentType:$result);
  let extraClassDeclaration = [{
    /// Elements of the contracted dimension that one instruction takes.
    int64_t getDepth();
  }];
  let assemblyFormat = [{
    $lhs (`transposed` $lhs_transposed^)? `,` $rhs (`transposed` $rhs_transposed^)? `,` $acc attr-dict
    `:` type($lhs) `,` type($rhs) `,` type($acc)
  }];
  let hasVerifier = 1;
}

def Thread_WgmmaFenceOp : Thread_SyncOp<"wgmma_fence", [Thread_Needs<"WarpgroupMma">]> {
  let summary = "orders accesses to accumulator registers before the next `thread.wgmma`";
  let description = [{
    ```mlir
    thread.wgmma_fence
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_WgmmaCommitOp : Thread_SyncOp<"wgmma_commit", [Thread_Needs<"WarpgroupMma">]> {
  let summary = "closes a group of warpgroup products";
  let description = [{
    ```mlir
    thread.wgmma_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_WgmmaWaitOp : Thread_SyncOp<"wgmma_wait", [Thread_Needs<"WarpgroupMma">, AllTypesMatch<["accs", "results"]>]> {
  let summary = "waits until at most `pending` groups of products are in flight";
  let description = [{
    The results are the accumulators, ready for use. Accumulators of products
    that are still in flight are not among them.

    ```mlir
    %r = thread.wgmma_wait 0 (%d) : !thread.fragment<64x64xf32, #acc>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$pending,
                       Variadic<Thread_FragmentType>:$accs);
  let results = (outs Variadic<Thread_FragmentType>:$results);
  let assemblyFormat = "$pending (`(` $accs^ `)`)? attr-dict (`:` type($accs)^)?";
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

def Thread_SetMaxRegistersOp : Thread_SyncOp<"set_max_registers", [Thread_Needs<"WarpRegisters">]> {
  let summary = "changes the number of registers of each thread of the warpgroup";
  let description = [{
    The number is a multiple of 8 from 24 to 256.

    ```mlir
    thread.set_max_registers decrease 40
    ```
  }];
  let arguments = (ins I64Attr:$count, UnitAttr:$decrease);
  let assemblyFormat = "(`decrease` $decrease^):(`increase`)? $count attr-dict";
  let hasVerifier = 1;
}

def Thread_DependentWaitOp : Thread_SyncOp<"dependent_wait", [Thread_Needs<"DependentLaunch">]> {
  let summary = "waits for the memory of the kernels that this launch depends on";
  let description = [{
    ```mlir
    thread.dependent_wait
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_DependentLaunchOp : Thread_SyncOp<"dependent_launch", [Thread_Needs<"DependentLaunch">]> {
  let summary = "lets the kernels that depend on this one start";
  let description = [{
    ```mlir
    thread.dependent_launch
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_AtomicAddOp : Thread_Op<"atomic_add", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds an f32 fragment to a device tensor, atomically";
  let description = [{
    `dims` and `in_bounds` are as for `thread.store_global`. The order of the
    additions is not determined, and therefore neither is their rounding.

    ```mlir
    thread.atomic_add %x, %a[%i, %j] dims [0, 1] in_bounds [true, true]
      : !thread.fragment<16x16xf32, #layout>, memref<64x128xf32>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$value, Thread_GlobalMemRef:$dest, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$dims, DenseBoolArrayAttr:$in_bounds);
  let assemblyFormat = [{
    $value `,` $dest `[` $offsets `]` `dims` $dims `in_bounds` $in_bounds
    attr-dict `:` type($value) `,` type($dest)
  }];
  let hasVerifier = 1;
}

def Thread_SignalOp : Thread_SyncOp<"signal"> {
  let summary = "adds 1 to a counter in device memory, after all earlier writes of the block";
  let description = [{
    It contains a barrier of the executing warps. One thread adds, with release
    semantics at device scope.

    ```mlir
    thread.signal %counters[%i] : memref<16xi32>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [1]>:$counters, Index:$index);
  let assemblyFormat = "$counters `[` $index `]` attr-dict `:` type($counters)";
}

def Thread_WaitCounterOp : Thread_SyncOp<"wait_counter"> {
  let summary = "waits until a counter in device memory has reached a value";
  let description = [{
    It acquires the writes before the signals. All blocks that signal must be resident at the same
    time as those that wait. One thread polls; a barrier of the executing warps follows.

    ```mlir
    thread.wait_counter %counters[%i] reaches 4 : memref<16xi32>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [1]>:$counters, Index:$index,
                       ConfinedAttr<I64Attr, [IntPositive]>:$value);
  let assemblyFormat = "$counters `[` $index `]` `reaches` $value attr-dict `:` type($counters)";
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADASYNCOPS_TD

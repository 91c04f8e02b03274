//===- ThreadRingOps.td - rings between a producer and its readers -*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADRINGOPS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADRINGOPS_TD

include "mirage/Dialect/Thread/IR/ThreadOpBase.td"

class Thread_RingOp<string mnemonic, list<Trait> traits = []>
    : Thread_Op<mnemonic, !listconcat([MemoryEffects<[MemRead, MemWrite]>], traits)>;

def Thread_RingCreateOp : Thread_RingOp<"ring_create"> {
  let summary = "an empty ring";
  let description = [{
    Each slot is free again after `readers` warps have released it. The op must be
    outside of roles, before the roles that use the ring; all warps of the block wait
    for each other.

    With `cluster`, each of this many blocks has such a ring, and they take the same
    steps: the slot of a step is free when the warps of all these blocks have released
    it, and one block may copy to all of them. All blocks wait for each other here, and
    again at the end of the kernel, because no block may exit while others still write
    to its memory.

    With `writers`, this many warps fill each slot together, between
    `thread.ring_acquire` and `thread.ring_publish`; in addition, one of their threads
    executes `fills` `thread.ring_fill`s for each slot. With `copies`, a slot is full
    only when the asynchronous copies that threads have started are done, too; without
    it, the writers must have waited for these. When a reader waits for a step, what the
    warps have written themselves is ordered before products of warpgroups.

    ```mlir
    %ring = thread.ring_create readers 8
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    %shared = thread.ring_create readers 8 cluster 2
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    %written = thread.ring_create readers 8 writers 4 copies fills 1
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$readers,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$cluster,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$writers,
                       UnitAttr:$copies,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "1">:$fills);
  let results = (outs Thread_RingType:$ring);
  let extraClassDeclaration = [{
    /// Arrivals that complete a slot: one for each fill, one for each writing warp, and
    /// one for each of its threads when that thread's copies are done.
    int64_t getFullArrivals() { return getFills() + getWriters() * (getCopies() ? 1 + 32 : 1); }
  }];
  let assemblyFormat = [{
    `readers` $readers (`cluster` $cluster^)? (`writers` $writers^)? (`copies` $copies^)? (`fills` $fills^)? attr-dict
    `:` type($ring)
  }];
  let hasVerifier = 1;
}

def Thread_RingFillOp : Thread_RingOp<"ring_fill", [AttrSizedOperandSegments]> {
  let summary = "starts the copies of one step, once its slot is free";
  let description = [{
    One warp executes it for steps 0, 1, 2, … in order. It waits until the
    step that used the slot before has been released, then copies a box of each
    tensor to the tile of the same position. `coordinates` are those of the first
    map, followed by those of the second and so on, as for `thread.tma_load`. Bytes
    outside of a tensor are zeros.

    The tiles whose numbers are in `shared` are the same for all blocks of the ring's
    cluster. Each block copies one part of their rows, which depends on its rank, to all
    of the blocks: the box has only these rows, and `coordinates` are those of the part.

    If the ring has writers, `into` lists the tiles that the maps are for, in increasing
    order, and the op must be between `thread.ring_acquire`, which has waited, and
    `thread.ring_publish`. Without maps, the op counts as one of the step's fills but
    copies nothing.

    ```mlir
    thread.ring_fill %ring step %k from %ma, %mb at %i, %kk, %kk, %j
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>,
        !thread.tensormap<128x64xf16, swizzle = 128>, !thread.tensormap<64x64xf16, swizzle = 128>
    %pairs = thread.ring_create readers 8 cluster 2
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    thread.ring_fill %pairs step %k from %ma, %half at %i, %kk, %part, %j shared [1]
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>,
        !thread.tensormap<128x64xf16, swizzle = 128>, !thread.tensormap<32x64xf16, swizzle = 128>
    %written = thread.ring_create readers 8 writers 4 copies fills 1
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    thread.ring_fill %written step %k into [1] from %mb at %kk, %j
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>,
        !thread.tensormap<64x64xf16, swizzle = 128>
    thread.ring_fill %written step %k into []
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    ```
  }];
  let arguments = (ins Thread_RingType:$ring, Index:$step, Variadic<Thread_TensorMapType>:$maps,
                       Variadic<Index>:$coordinates,
                       OptionalAttr<DenseI64ArrayAttr>:$shared,
                       OptionalAttr<DenseI64ArrayAttr>:$into);
  let assemblyFormat = [{
    $ring `step` $step (`into` $into^)? (`from` $maps^ `at` $coordinates)? (`shared` $shared^)? attr-dict
    `:` type($ring) (`,` type($maps)^)?
  }];
  let hasVerifier = 1;
}

def Thread_RingAcquireOp : Thread_RingOp<"ring_acquire", [InferTypeOpAdaptor]> {
  let summary = "the tiles of one step, once they are free to be written";
  let description = [{
    The writers of the ring execute it for steps 0, 1, 2, … in order. They write each
    tile, with `thread.gather_async` or `thread.ring_fill`, and then execute
    `thread.ring_publish`.

    ```mlir
    %written = thread.ring_create readers 8 writers 4 copies fills 1
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    %a, %b = thread.ring_acquire %written step %k
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    ```
  }];
  let arguments = (ins Thread_RingType:$ring, Index:$step);
  let results = (outs Variadic<Thread_SharedType>:$tiles);
  let assemblyFormat = "$ring `step` $step attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Thread_RingPublishOp : Thread_RingOp<"ring_publish"> {
  let summary = "each warp that executes it has begun to write the tiles of a step";
  let description = [{
    If the ring has `copies`, the tiles are available once all asynchronous copies that
    its writers have started so far are done.

    ```mlir
    %written = thread.ring_create readers 8 writers 4 copies fills 1
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    thread.ring_publish %written step %k
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    ```
  }];
  let arguments = (ins Thread_RingType:$ring, Index:$step);
  let assemblyFormat = "$ring `step` $step attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Thread_RingWaitOp : Thread_RingOp<"ring_wait", [InferTypeOpAdaptor]> {
  let summary = "the tiles of one step, once they are full";
  let description = [{
    ```mlir
    %a, %b = thread.ring_wait %ring step %k
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    ```
  }];
  let arguments = (ins Thread_RingType:$ring, Index:$step);
  let results = (outs Variadic<Thread_SharedType>:$tiles);
  let assemblyFormat = "$ring `step` $step attr-dict `:` type($ring)";
}

def Thread_RingReleaseOp : Thread_RingOp<"ring_release"> {
  let summary = "each warp that executes it has read the tiles of a step";
  let description = [{
    All `thread.wgmma`s that read the tiles must have been waited for. Every reader
    releases every step exactly once.

    ```mlir
    thread.ring_release %ring step %k
      : !thread.ring<4, <128x64xf16, swizzle = 128>, <64x256xf16, swizzle = 128>>
    ```
  }];
  let arguments = (ins Thread_RingType:$ring, Index:$step);
  let assemblyFormat = "$ring `step` $step attr-dict `:` type($ring)";
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADRINGOPS_TD

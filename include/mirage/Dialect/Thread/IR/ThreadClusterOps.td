//===- ThreadClusterOps.td - blocks of a cluster ---------------*- tablegen -*-===//
//
// Blocks that run together wait for each other and write each other's shared
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADCLUSTEROPS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADCLUSTEROPS_TD

include "mirage/Dialect/Thread/IR/ThreadAsyncOps.td"

def Thread_ClusterBarrierOp : Thread_SyncOp<"cluster_barrier", [Thread_Needs<"Clusters">]> {
  let summary = "all threads of the cluster wait for each other";
  let description = [{
    ```mlir
    thread.cluster_barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_ClusterArriveOp : Thread_SyncOp<"cluster_arrive", [Thread_Needs<"Clusters">]> {
  let summary = "the first half of `thread.cluster_barrier`";
  let description = [{
    The thread arrives, and does not wait. Before it arrives again it must wait
    (`thread.cluster_wait`).

    ```mlir
    thread.cluster_arrive
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_ClusterWaitOp : Thread_SyncOp<"cluster_wait", [Thread_Needs<"Clusters">]> {
  let summary = "the second half of `thread.cluster_barrier`";
  let description = [{
    The thread waits until all threads of the cluster have arrived.

    ```mlir
    thread.cluster_wait
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Thread_ClusterGatherOp : Thread_Op<"cluster_gather", [Thread_Needs<"Clusters">,
    DeclareOpInterfaceMethods<Thread_ScratchOpInterface, ["getScratchBytes"]>,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the fragments of all blocks of the cluster";
  let description = [{
    Every block writes its fragments to the scratch memory of all blocks of the cluster,
    waits for the others, and reads what all of them have written. The results are those
    of the first operand by the rank of their block, then those of the next operand.
    Before it, all blocks must have started (`cluster_arrive`, `cluster_wait`). It is not in a
    loop: a block would overwrite what others still read. For the same reason, nothing
    else uses the scratch memory of a block before the op.

    ```mlir
    %a, %b = thread.cluster_gather %x blocks 2 {scratch = 0 : i64}
      : !thread.fragment<16x1xf32, #rows> -> !thread.fragment<16x1xf32, #rows>, !thread.fragment<16x1xf32, #rows>
    ```
  }];
  let arguments = (ins Variadic<Thread_FragmentType>:$inputs,
                       ConfinedAttr<I64Attr, [IntPositive]>:$blocks, OptionalAttr<I64Attr>:$scratch);
  let results = (outs Variadic<Thread_FragmentType>:$results);
  let assemblyFormat = "$inputs `blocks` $blocks attr-dict `:` type($inputs) `->` type($results)";
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$inputs, "int64_t":$blocks)>];
  let extraClassDeclaration = [{
    /// Offset of operand `number` among the bytes of one block.
    int64_t getPlace(int64_t number);
    /// Bytes of scratch memory for the operands of one block.
    int64_t getBlockBytes();
  }];
  let hasVerifier = 1;
}

def Thread_ClusterRankOp : Thread_Op<"cluster_rank", [Thread_Needs<"Clusters">, Pure]> {
  let summary = "the rank of the block in its cluster";
  let description = [{
    ```mlir
    %rank = thread.cluster_rank
    ```
  }];
  let results = (outs Index:$rank);
  let assemblyFormat = "attr-dict";
}

def Thread_LoadRemoteOp : Thread_Op<"load_remote", [Thread_Needs<"Clusters">, MemoryEffects<[MemRead]>]> {
  let summary = "`thread.load_shared` from the shared memory of another block of the cluster";
  let description = [{
    ```mlir
    %f = thread.load_remote %tile rank %r : !thread.shared<16x16xf32> -> !thread.fragment<16x16xf32, #layout>
    ```
  }];
  let arguments = (ins Thread_SharedType:$source, Index:$rank);
  let results = (outs Thread_FragmentType:$result);
  let assemblyFormat = "$source `rank` $rank attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Thread_StoreRemoteOp : Thread_Op<"store_remote", [Thread_Needs<"Clusters">, MemoryEffects<[MemWrite]>]> {
  let summary = "`thread.store_shared` to the shared memory of another block of the cluster";
  let description = [{
    ```mlir
    thread.store_remote %f, %tile rank %r : !thread.fragment<16x16xf32, #layout>, !thread.shared<16x16xf32>
    ```
  }];
  let arguments = (ins Thread_FragmentType:$value, Thread_SharedType:$dest, Index:$rank);
  let assemblyFormat = "$value `,` $dest `rank` $rank attr-dict `:` type($value) `,` type($dest)";
  let hasVerifier = 1;
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADCLUSTEROPS_TD

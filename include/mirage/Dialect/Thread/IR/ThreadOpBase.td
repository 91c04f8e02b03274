//===- ThreadOpBase.td - what the ops of the dialect share ---*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADOPBASE_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADOPBASE_TD

include "mirage/Dialect/Common/ScalarOps.td"
include "mirage/Dialect/Thread/IR/ThreadAttrs.td"
include "mirage/Dialect/Thread/IR/ThreadDialect.td"
include "mirage/Dialect/Thread/IR/ThreadInterfaces.td"
include "mirage/Dialect/Thread/IR/ThreadTypes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Thread_Op<string mnemonic, list<Trait> traits = []> : Op<Thread_Dialect, mnemonic, traits>;

/// An op on registers alone.
class Thread_FragmentOp<string mnemonic, list<Trait> traits = []>
    : Thread_Op<mnemonic, !listconcat([Pure], traits)> {
  let results = (outs Thread_FragmentType:$result);
}

def Thread_GlobalMemRef : StaticShapeMemRefOf<[F16, BF16, F32, F8E4M3FN, F8E5M2, I8, I16, I32, I64]>;

#endif // MIRAGE_DIALECT_THREAD_IR_THREADOPBASE_TD

//===- Emitter.h - building NVVM code for one thread op ---------*- C++ -*-===//
//
// Addresses: `!llvm.ptr<1>` for device memory with i64 offsets in bytes, and
// `!llvm.ptr<3>` for shared memory with i32 offsets in bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_EMITTER_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_EMITTER_H

#include "mirage/Dialect/Thread/IR/Thread.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mirage::thread {

constexpr unsigned kGlobalSpace = 1;
constexpr unsigned kSharedSpace = 3;
/// Name of the symbol at which a kernel's dynamic shared memory starts.
constexpr llvm::StringLiteral kSharedSymbol = "mirage_shared";

/// The warps that execute an op.
struct Role {
  int64_t firstWarp = 0;
  int64_t numWarps = 1;
  /// Hardware barrier; 0 is the whole block's.
  int64_t barrier = 0;
  /// Whether the block is several packed ones (`mirage-pack-blocks`), whose warps are a power of
  /// two each; threads are counted from the first one of their own.
  bool isPacked = false;
  /// Number of the warp in the block, if there are roles (WarpNumber.h).
  mlir::Value warpNumber;

  int64_t numThreads() const { return numWarps * 32; }
};

/// The role of an op; a kernel without known block size is an error.
mlir::FailureOr<Role> getRole(mlir::Operation *op);

class Emitter : public mlir::ImplicitLocOpBuilder {
public:
  Emitter(mlir::OpBuilder &builder, mlir::Location loc, Role role)
      : ImplicitLocOpBuilder(loc, builder), role(role) {}

  const Role role;

  // Constants and arithmetic on i32/i64; constants fold.
  mlir::Value i1(bool value);
  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value f32(double value);
  /// Minus infinity is the least integer.
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value bitAnd(mlir::Value a, int64_t b);
  mlir::Value bitXor(mlir::Value a, mlir::Value b);
  mlir::Value shiftLeft(mlir::Value a, int64_t bits);
  mlir::Value shiftRight(mlir::Value a, int64_t bits);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);
  /// Conjunction; null stands for true.
  mlir::Value both(mlir::Value a, mlir::Value b);

  // Floating point, f32.
  mlir::Value fadd(mlir::Value a, mlir::Value b);
  mlir::Value fsub(mlir::Value a, mlir::Value b);
  mlir::Value fmul(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value fmax(mlir::Value a, mlir::Value b);
  mlir::Value fcompare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b);
  /// From f16, bf16, f32 or a signed integer.
  mlir::Value toF32(mlir::Value a);
  /// f32 to f16, bf16 or f32, to nearest even; a whole number that the type holds
  /// to a signed integer.
  mlir::Value fromF32(mlir::Value a, mlir::Type type);

  /// An index value as i32 (it is known to fit) or i64.
  mlir::Value toI32(mlir::Value index);
  mlir::Value toI64(mlir::Value index);
  mlir::Value bitcast(mlir::Value value, mlir::Type type);

  // The executing thread, within its role, as i32.
  mlir::Value thread();
  mlir::Value lane();
  mlir::Value warp();
  /// Number of the group of four warps.
  mlir::Value group();
  /// True in one thread of the role, or of each group.
  mlir::Value isFirstThread();
  mlir::Value isFirstOfGroup();

  /// The sum of `vectors[bit]` over the set bits of `index` (i32); runs of
  /// vectors that double become one shift.
  mlir::Value linear(mlir::Value index, llvm::ArrayRef<int64_t> vectors);
  /// The contribution of lane and warp to the position of each register along `dim`.
  mlir::Value threadOffset(const LinearLayout &layout, int64_t dim);
  /// True in the lowest of the owners of each element; null if all are.
  mlir::Value isLeader(const LinearLayout &layout);

  mlir::Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange args);
  void intrinsic(llvm::StringRef name, mlir::ValueRange args);
  /// Volatile inline PTX; no memory access moves across it.
  mlir::Value ptx(llvm::StringRef text, llvm::StringRef constraints, mlir::ValueRange args,
                  mlir::Type result = {});
  /// One instruction of it where the condition (i1) holds. Not a branch: LLVM threads branches on
  /// the same condition through the code between them, and copies waits that the warp must execute
  /// together.
  void ptxWhere(mlir::Value condition, llvm::StringRef instruction, llvm::StringRef constraints,
                mlir::ValueRange args);
  /// A butterfly or indexed shuffle of one value (16, 32 or 64 bits) among the whole warp.
  mlir::Value shuffleXor(mlir::Value value, int64_t mask);
  mlir::Value shuffleIndex(mlir::Value value, mlir::Value lane);

  mlir::Value offset(mlir::Value pointer, mlir::Value bytes);
  mlir::Value offset(mlir::Value pointer, int64_t bytes);
  /// Start of the kernel's dynamic shared memory plus a constant.
  mlir::Value shared(int64_t bytes);
  /// A shared pointer as the 32-bit address that PTX wants.
  mlir::Value sharedAddress(mlir::Value pointer);
  /// The shared memory at the same offset of the block of this rank (i32) in the cluster.
  mlir::Value mapToRank(mlir::Value pointer, mlir::Value rank);
  /// All warps of the role wait for each other.
  void barrier();
  /// Those of each group of four do.
  void groupBarrier();
  /// Emits `body` for the threads where `condition` holds; null is everywhere.
  void ifThen(mlir::Value condition, llvm::function_ref<void()> body);
  /// Emits `otherwise` for those where it does not.
  void ifThenElse(mlir::Value condition, llvm::function_ref<void()> body,
                  llvm::function_ref<void()> otherwise);

private:
  mlir::Value tid, laneId, warpId;
};

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_EMITTER_H

//===- Patterns.h - what lowers thread ops ----------------------*- C++ -*-===//
//
// A fragment becomes as many values as a thread has registers of it: scalars, or
// pairs of 2-byte floats (`vector<2xf16>`) where their number is even. A shared
// tile and an mbarrier array become `!llvm.ptr<3>`, a device tensor
// `!llvm.ptr<1>`, a tensor map a generic `!llvm.ptr`.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_LIB_CONVERSION_THREADTONVVM_PATTERNS_H
#define MIRAGE_LIB_CONVERSION_THREADTONVVM_PATTERNS_H

#include "Emitter.h"

#include "mlir/Transforms/DialectConversion.h"

namespace mirage::thread {

/// The types of the values that a fragment becomes.
llvm::SmallVector<mlir::Type> getRegisterTypes(FragmentType type);
/// One scalar for each register.
llvm::SmallVector<mlir::Value> unpack(Emitter &e, FragmentType type, mlir::ValueRange values);
/// The inverse.
llvm::SmallVector<mlir::Value> pack(Emitter &e, FragmentType type, mlir::ValueRange scalars);

/// Lowers one kind of op. `lower` appends the op's new results, one list each.
template <typename OpT> class ThreadPattern : public mlir::OpConversionPattern<OpT> {
public:
  using mlir::OpConversionPattern<OpT>::OpConversionPattern;
  using Adaptor = typename mlir::OpConversionPattern<OpT>::OneToNOpAdaptor;
  using Results = llvm::SmallVector<llvm::SmallVector<mlir::Value>>;

  virtual mlir::LogicalResult lower(OpT op, Adaptor operands, Emitter &e,
                                    Results &results) const = 0;

  mlir::LogicalResult matchAndRewrite(OpT op, Adaptor operands,
                                      mlir::ConversionPatternRewriter &rewriter) const final {
    mlir::FailureOr<Role> role = getRole(op);
    if (mlir::failed(role))
      return mlir::failure();
    Emitter e(rewriter, op.getLoc(), *role);
    Results results;
    if (mlir::failed(lower(op, operands, e, results)))
      return mlir::failure();
    if (op->getNumResults() == 0)
      rewriter.eraseOp(op);
    else
      rewriter.replaceOpWithMultiple(op, std::move(results));
    return mlir::success();
  }
};

/// The only value of an operand that is not a fragment.
inline mlir::Value single(mlir::ValueRange values) { return values.front(); }

/// The error of an op whose scratch memory is not planned.
inline mlir::LogicalResult missingScratch(mlir::Operation *op, int64_t bytes) {
  return op->emitOpError("expected 'scratch', the byte offset of ")
         << bytes << " bytes of shared memory; run mirage-plan-shared-memory first";
}

void populateElementwisePatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateIntegerPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
/// A scalar function of an f32.
using EmitScalar = mlir::Value (*)(Emitter &, mlir::Value);
/// The functions that are emitted in a special form (see CoarseFunctions.cpp).
using ScalarEmitters = llvm::DenseMap<mlir::Operation *, EmitScalar>;
ScalarEmitters findScalarEmitters(mlir::Operation *root);
void populateCoarsePatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &,
                            const ScalarEmitters &emitters);
void populateReshapePatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateArgsortPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateCumulatePatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateReducePatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateGlobalPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateGatherPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateRowCopyPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateSharedPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateCopyPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateMmaPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateSyncPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateBulkPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateClusterPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);
void populateWgmmaPatterns(const mlir::TypeConverter &, mlir::RewritePatternSet &);

} // namespace mirage::thread

#endif // MIRAGE_LIB_CONVERSION_THREADTONVVM_PATTERNS_H

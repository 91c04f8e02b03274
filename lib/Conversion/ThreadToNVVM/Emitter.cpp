//===- Emitter.cpp - building NVVM code for one thread op -----------------===//

#include "Emitter.h"

#include "WarpNumber.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mirage::thread;

FailureOr<Role> mirage::thread::getRole(Operation *op) {
  std::optional<int64_t> numWarps = getNumWarps(op);
  if (!numWarps || *numWarps < 1)
    return op->emitOpError("expected a gpu.func around it with known_block_size, a multiple of 32");
  Role role;
  role.numWarps = *numWarps;
  role.warpNumber = getWarpNumber(op);
  role.isPacked = op->getParentOfType<gpu::GPUFuncOp>()->hasAttr(kPackedAttr);
  if (auto warps = op->getParentOfType<WarpsOp>()) {
    role.firstWarp = warps.getFirst();
    role.barrier = warps.getBarrier();
  }
  return role;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value Emitter::i1(bool value) { return createOrFold<arith::ConstantOp>(getBoolAttr(value)); }
Value Emitter::i32(int64_t value) {
  return arith::ConstantOp::create(*this, getI32IntegerAttr(int32_t(value)));
}
Value Emitter::i64(int64_t value) {
  return arith::ConstantOp::create(*this, getI64IntegerAttr(value));
}
Value Emitter::f32(double value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(float(value)));
}
Value Emitter::constant(Type type, double value) {
  if (type.isInteger() && std::isinf(value))
    return arith::ConstantOp::create(
        *this, getIntegerAttr(type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth())));
  if (type.isInteger())
    return arith::ConstantOp::create(*this, getIntegerAttr(type, int64_t(value)));
  return arith::ConstantOp::create(*this, getFloatAttr(type, value));
}

static Value constantLike(Emitter &e, Type type, int64_t value) {
  return arith::ConstantOp::create(e, e.getIntegerAttr(type, value));
}

Value Emitter::add(Value a, Value b) { return createOrFold<arith::AddIOp>(a, b); }
Value Emitter::add(Value a, int64_t b) {
  return b == 0 ? a : add(a, constantLike(*this, a.getType(), b));
}
Value Emitter::sub(Value a, Value b) { return createOrFold<arith::SubIOp>(a, b); }
Value Emitter::mul(Value a, int64_t b) {
  return b == 1 ? a : createOrFold<arith::MulIOp>(a, constantLike(*this, a.getType(), b));
}
Value Emitter::bitAnd(Value a, int64_t b) {
  return createOrFold<arith::AndIOp>(a, constantLike(*this, a.getType(), b));
}
Value Emitter::bitXor(Value a, Value b) { return createOrFold<arith::XOrIOp>(a, b); }
Value Emitter::shiftLeft(Value a, int64_t bits) {
  return bits == 0 ? a : createOrFold<arith::ShLIOp>(a, constantLike(*this, a.getType(), bits));
}
Value Emitter::shiftRight(Value a, int64_t bits) {
  return bits == 0 ? a : createOrFold<arith::ShRUIOp>(a, constantLike(*this, a.getType(), bits));
}
Value Emitter::select(Value condition, Value a, Value b) {
  return createOrFold<arith::SelectOp>(condition, a, b);
}
Value Emitter::compare(arith::CmpIPredicate predicate, Value a, Value b) {
  return createOrFold<arith::CmpIOp>(predicate, a, b);
}
Value Emitter::both(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return createOrFold<arith::AndIOp>(a, b);
}

Value Emitter::fadd(Value a, Value b) { return arith::AddFOp::create(*this, a, b); }
Value Emitter::fsub(Value a, Value b) { return arith::SubFOp::create(*this, a, b); }
Value Emitter::fmul(Value a, Value b) { return arith::MulFOp::create(*this, a, b); }
Value Emitter::fma(Value a, Value b, Value c) {
  return intrinsic("llvm.fma.f32", getF32Type(), {a, b, c});
}
Value Emitter::fmax(Value a, Value b) { return arith::MaximumFOp::create(*this, a, b); }
Value Emitter::fcompare(arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(*this, predicate, a, b);
}
Value Emitter::toF32(Value a) {
  if (a.getType().isInteger())
    return createOrFold<arith::SIToFPOp>(getF32Type(), a);
  return a.getType().isF32() ? a : createOrFold<arith::ExtFOp>(getF32Type(), a);
}
Value Emitter::fromF32(Value a, Type type) {
  if (type.isInteger())
    return createOrFold<arith::FPToSIOp>(type, a);
  return type.isF32() ? a : createOrFold<arith::TruncFOp>(type, a);
}

Value Emitter::toI32(Value index) { return createOrFold<arith::IndexCastOp>(getI32Type(), index); }
Value Emitter::toI64(Value index) { return createOrFold<arith::IndexCastOp>(getI64Type(), index); }
Value Emitter::bitcast(Value value, Type type) {
  return value.getType() == type ? value : LLVM::BitcastOp::create(*this, type, value).getResult();
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

Value Emitter::thread() {
  if (!tid) {
    tid = NVVM::ThreadIdXOp::create(*this, getI32Type());
    if (role.firstWarp)
      tid = sub(tid, i32(role.firstWarp * 32));
    if (role.isPacked)
      tid = bitAnd(tid, role.numThreads() - 1);
  }
  return tid;
}
Value Emitter::lane() { return laneId ? laneId : laneId = bitAnd(thread(), 31); }
Value Emitter::warp() {
  if (warpId)
    return warpId;
  if (!role.warpNumber)
    return warpId = shiftRight(thread(), 5);
  return warpId = role.firstWarp ? sub(role.warpNumber, i32(role.firstWarp)) : role.warpNumber;
}
Value Emitter::group() { return shiftRight(warp(), llvm::Log2_64(kGroupThreads / 32)); }
Value Emitter::isFirstOfGroup() {
  return compare(arith::CmpIPredicate::eq, bitAnd(thread(), kGroupThreads - 1), i32(0));
}
Value Emitter::isFirstThread() { return compare(arith::CmpIPredicate::eq, thread(), i32(0)); }

Value Emitter::linear(Value index, ArrayRef<int64_t> vectors) {
  Value sum;
  for (size_t bit = 0; bit < vectors.size();) {
    size_t end = bit + 1;
    if (vectors[bit] == 0) {
      bit = end;
      continue;
    }
    while (end < vectors.size() && vectors[end] == 2 * vectors[end - 1])
      ++end;
    Value part = bitAnd(shiftRight(index, bit), (int64_t(1) << (end - bit)) - 1);
    part = llvm::isPowerOf2_64(vectors[bit]) ? shiftLeft(part, llvm::Log2_64(vectors[bit]))
                                             : mul(part, vectors[bit]);
    sum = sum ? add(sum, part) : part;
    bit = end;
  }
  return sum ? sum : i32(0);
}

static SmallVector<int64_t> component(ArrayRef<Coord> basis, int64_t dim) {
  return llvm::map_to_vector(basis, [dim](Coord vector) { return int64_t(vector[dim]); });
}

Value Emitter::threadOffset(const LinearLayout &layout, int64_t dim) {
  Value inWarp = linear(lane(), component(layout.getLane(), dim));
  if (!layout.warpsSpan(dim))
    return inWarp;
  return add(inWarp, linear(warp(), component(layout.getWarp(), dim)));
}

Value Emitter::isLeader(const LinearLayout &layout) {
  auto zeros = [](ArrayRef<Coord> basis) {
    int64_t mask = 0;
    for (auto [bit, vector] : llvm::enumerate(basis))
      if (vector.isZero())
        mask |= int64_t(1) << bit;
    return mask;
  };
  Value condition;
  if (int64_t mask = zeros(layout.getLane()))
    condition = compare(arith::CmpIPredicate::eq, bitAnd(lane(), mask), i32(0));
  if (int64_t mask = zeros(layout.getWarp()))
    condition = both(condition, compare(arith::CmpIPredicate::eq, bitAnd(warp(), mask), i32(0)));
  return condition;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Value Emitter::intrinsic(StringRef name, Type result, ValueRange args) {
  return LLVM::CallIntrinsicOp::create(*this, result, getStringAttr(name), args).getResult(0);
}
void Emitter::intrinsic(StringRef name, ValueRange args) {
  LLVM::CallIntrinsicOp::create(*this, getStringAttr(name), args);
}

Value Emitter::ptx(StringRef text, StringRef constraints, ValueRange args, Type result) {
  std::string all(constraints);
  all += all.empty() ? "~{memory}" : ",~{memory}";
  auto op = LLVM::InlineAsmOp::create(
      *this, result ? TypeRange(result) : TypeRange(), args, text, all,
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
      /*asm_dialect=*/LLVM::AsmDialectAttr(), /*operand_attrs=*/ArrayAttr());
  return result ? op.getRes() : Value();
}

void Emitter::ptxWhere(Value condition, StringRef instruction, StringRef constraints,
                       ValueRange args) {
  SmallVector<Value> all(args);
  all.push_back(createOrFold<arith::ExtUIOp>(getI32Type(), condition));
  std::string text = "{\n.reg .pred taken;\nsetp.ne.b32 taken, $" + std::to_string(args.size()) +
                     ", 0;\n@taken " + instruction.str() + "\n}";
  ptx(text, constraints.str() + ",r", all);
}

/// Shuffles move 32 bits.
static Value shuffle(Emitter &e, Value value, Value from, NVVM::ShflKind kind) {
  auto moved = [&](Value word) -> Value {
    return NVVM::ShflOp::create(e, word.getType(), e.i32(-1), word, from, e.i32(31), kind,
                                UnitAttr());
  };
  Type type = value.getType(), word = e.getI32Type();
  if (type.getIntOrFloatBitWidth() == 32)
    return moved(value);
  if (type.getIntOrFloatBitWidth() == 16) {
    Value bits = e.createOrFold<arith::ExtUIOp>(word, e.bitcast(value, e.getI16Type()));
    return e.bitcast(e.createOrFold<arith::TruncIOp>(e.getI16Type(), moved(bits)), type);
  }
  auto half = [&](int64_t bits) {
    Value part = moved(e.createOrFold<arith::TruncIOp>(word, e.shiftRight(value, bits)));
    return e.shiftLeft(e.createOrFold<arith::ExtUIOp>(type, part), bits);
  };
  return e.createOrFold<arith::OrIOp>(half(0), half(32));
}
Value Emitter::shuffleXor(Value value, int64_t mask) {
  return shuffle(*this, value, i32(mask), NVVM::ShflKind::bfly);
}
Value Emitter::shuffleIndex(Value value, Value source) {
  return shuffle(*this, value, source, NVVM::ShflKind::idx);
}

Value Emitter::offset(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}
Value Emitter::offset(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  // Larger constants would be truncated silently.
  if (!llvm::isInt<LLVM::kGEPConstantBitWidth>(bytes))
    return offset(pointer, i64(bytes));
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{int32_t(bytes)});
}
Value Emitter::shared(int64_t bytes) {
  auto type = LLVM::LLVMPointerType::get(getContext(), kSharedSpace);
  return offset(LLVM::AddressOfOp::create(*this, type, kSharedSymbol), bytes);
}
Value Emitter::sharedAddress(Value pointer) {
  return LLVM::PtrToIntOp::create(*this, getI32Type(), pointer);
}

Value Emitter::mapToRank(Value pointer, Value rank) {
  constexpr unsigned clusterSpace = 7;
  auto type = LLVM::LLVMPointerType::get(getContext(), clusterSpace);
  return intrinsic("llvm.nvvm.mapa.shared.cluster", type, {pointer, rank});
}

void Emitter::barrier() {
  if (role.barrier == 0)
    return intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", {i32(0)});
  intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count",
            {i32(role.barrier), i32(role.numThreads())});
}

void Emitter::groupBarrier() {
  constexpr int64_t mostGroups = 4;
  intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count",
            {add(group(), i32(mostGroups * role.barrier)), i32(kGroupThreads)});
}

void Emitter::ifThenElse(Value condition, llvm::function_ref<void()> body,
                         llvm::function_ref<void()> otherwise) {
  // Cached values must be defined outside of the branches.
  lane();
  warp();
  OpBuilder::InsertionGuard guard(*this);
  auto branch = scf::IfOp::create(*this, condition, /*withElseRegion=*/true);
  setInsertionPointToStart(branch.thenBlock());
  body();
  setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

void Emitter::ifThen(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  // Cached values must be defined outside of the branch.
  lane();
  warp();
  OpBuilder::InsertionGuard guard(*this);
  auto branch = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  setInsertionPointToStart(branch.thenBlock());
  body();
}

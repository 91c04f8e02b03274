//===- Wgmma.cpp - products of four warps from shared memory --------------===//
//
// One instruction multiplies 64 rows by up to 256 columns, 32 bytes deep. Its shared
// operands are given by descriptors: the address, a swizzle mode, and two
// distances.
//
//   K contiguous ("K-major"): groups of 8 rows lie `stride` = 8 * swizzle bytes
//     apart; 32 bytes further in K are 32 bytes further in a panel.
//   M or N contiguous ("MN-major"): groups of 8 K-rows lie `stride` = 8 * swizzle
//     bytes apart, panels `leading` = rows * swizzle bytes; 16 further in K is 16
//     rows further.
//
// Source: PTX ISA, "Asynchronous warpgroup-level matrix instructions".
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Target/WarpSharing.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using namespace mirage::thread;

namespace {
/// The steps of K in a piece of assembly. The starts of all its factors are computed before it:
/// with sixteen steps, attention with heads of 256 elements takes 7 % longer on an H200.
constexpr int64_t kChain = 4;

/// A factor in shared memory: `outer` is its M or N.
struct SharedFactor {
  SharedType tile;
  bool outerContiguous;

  int64_t panelElements() const { return tile.getSwizzle() / tile.getElementBytes(); }
  int64_t panelBytes() const { return tile.getRows() * tile.getSwizzle(); }

  /// Byte offset of (outer, k) for constants that descriptors can start at.
  int64_t offset(int64_t outer, int64_t k) const {
    int64_t row = outerContiguous ? k : outer, col = outerContiguous ? outer : k;
    return col / panelElements() * panelBytes() + row * tile.getSwizzle() +
           col % panelElements() * tile.getElementBytes();
  }
  /// Bits of the descriptor in addition to the address.
  uint64_t bits() const {
    uint64_t leading = outerContiguous ? panelBytes() : 16;
    uint64_t stride = 8 * tile.getSwizzle();
    uint64_t mode = tile.getSwizzle() == 128 ? 1 : tile.getSwizzle() == 64 ? 2 : 3;
    return (leading / 16) << 16 | (stride / 16) << 32 | mode << 62;
  }
};

/// A run of neighbouring 8-column blocks of the accumulator, of 64 rows.
struct Block {
  int64_t row, col;
  SmallVector<int64_t> groups; // of 4 registers each, by column
};

/// Waits until at most `pending` groups are in flight. The registers pass through, so that no use
/// comes before the wait.
SmallVector<Value> waitFor(Emitter &e, int64_t pending, ArrayRef<Value> values) {
  std::string text = llvm::formatv("wgmma.wait_group.sync.aligned {0};", pending), constraints;
  if (values.empty()) {
    e.ptx(text, "", {});
    return {};
  }
  for (size_t i = 0; i < values.size(); ++i)
    constraints += "=f,";
  for (size_t i = 0; i < values.size(); ++i)
    constraints += llvm::formatv("{0}{1}", i, i + 1 < values.size() ? "," : "").str();
  if (values.size() == 1)
    return {e.ptx(text, constraints, values, e.getF32Type())};
  auto result = LLVM::LLVMStructType::getLiteral(e.getContext(),
                                                 SmallVector<Type>(values.size(), e.getF32Type()));
  Value all = e.ptx(text, constraints, values, result);
  SmallVector<Value> passed;
  for (size_t i = 0; i < values.size(); ++i)
    passed.push_back(LLVM::ExtractValueOp::create(e, all, i));
  return passed;
}

/// Instructions of one op, of which the first ones come after a fence, as one piece of assembly:
/// nothing comes between them, and their operands are computed or copied before.
class Chain {
public:
  /// For the parts `blocks` of the accumulator, which start from zero or from their values.
  Chain(WgmmaOp op, bool lhsTransposed, bool rhsTransposed, ArrayRef<Block> blocks, bool fromZero,
        bool begins)
      : op(op), lhsShared(isa<SharedType>(op.getLhs().getType())), fromZero(fromZero),
        begins(begins) {
    for (const Block &block : blocks)
      for (int64_t group : block.groups)
        for (int64_t i = 0; i < 4; ++i)
          registers.insert(group * 4 + i);
    // The scales of both factors, then whether they are MN-major, which factors of 8 and 32 bits
    // never are.
    bool chooses = op.getRhs().getType().getElementBytes() == 2;
    flags = "1, 1";
    if (lhsShared && chooses)
      flags += lhsTransposed ? ", 1" : ", 0";
    if (chooses)
      flags += rhsTransposed ? ", 1" : ", 0";
  }

  /// Adds the product of a left factor (a descriptor or four registers) and a right one to a block;
  /// the first one replaces the block's contents if these count as zero.
  void add(const Block &block, ArrayRef<Value> lhs, Value rhs, bool isFirst) {
    std::string sums;
    for (int64_t group : block.groups)
      for (int64_t i = 0; i < 4; ++i)
        sums += llvm::formatv("{0}${1}", sums.empty() ? "" : ", ", numberOf(group * 4 + i)).str();
    std::string left;
    for (Value value : lhs)
      left += llvm::formatv("{0}${1}", left.empty() ? "" : ", ", name(value)).str();
    if (!lhsShared)
      left = "{" + left + "}";
    Type right = op.getRhs().getType().getElementType(), leftType = right;
    if (lhsShared)
      leftType = cast<SharedType>(op.getLhs().getType()).getElementType();
    text += llvm::formatv("wgmma.mma_async.sync.aligned.m64n{0}k{1}.f32.{2}.{3} "
                          "{{{4}}, {5}, ${6}, {7}, {8};\n",
                          block.groups.size() * 8, op.getDepth(), getTypeName(leftType),
                          getTypeName(right), sums, left, name(rhs),
                          isFirst && fromZero ? "none" : "all", flags)
                .str();
  }

  /// `values` are the registers of the accumulator.
  void emit(Emitter &e, SmallVector<Value> &values) const {
    SmallVector<Value> args;
    std::string constraints, tied;
    for (auto [number, at] : llvm::enumerate(registers)) {
      // Written while later instructions still read their factors.
      constraints += "=&f,";
      if (!fromZero) {
        args.push_back(values[at]);
        tied += llvm::formatv("{0},", number).str();
      }
    }
    constraints += tied;
    for (Value value : factors)
      constraints += value.getType().isInteger(64) ? "l," : "r,";
    constraints.pop_back();
    llvm::append_range(args, factors);
    // Whether an instruction adds to the accumulator is a predicate.
    std::string whole = "{\n.reg .pred all, none;\nsetp.eq.b32 all, 0, 0;\n"
                        "setp.ne.b32 none, 0, 0;\n" +
                        std::string(begins ? "wgmma.fence.sync.aligned;\n" : "") + text + "}";
    auto result = LLVM::LLVMStructType::getLiteral(
        e.getContext(), SmallVector<Type>(registers.size(), e.getF32Type()));
    Value sums = e.ptx(whole, constraints, args, result);
    for (auto [number, at] : llvm::enumerate(registers))
      values[at] = LLVM::ExtractValueOp::create(e, sums, number);
  }

private:
  static StringRef getTypeName(Type type) {
    if (mirage::isEightBitFloat(type))
      return isa<Float8E4M3FNType>(type) ? "e4m3" : "e5m2";
    if (type.isF32())
      return "tf32";
    return type.isF16() ? "f16" : "bf16";
  }

  size_t numberOf(int64_t at) const {
    return std::distance(registers.begin(), llvm::find(registers, at));
  }

  /// The number of an operand that is read; these come after those that are written.
  size_t name(Value value) {
    factors.insert(value);
    size_t number = std::distance(factors.begin(), llvm::find(factors, value));
    return registers.size() * (fromZero ? 1 : 2) + number;
  }

  WgmmaOp op;
  bool lhsShared, fromZero, begins;
  llvm::SetVector<int64_t> registers; // of the accumulator
  llvm::SetVector<Value> factors;
  std::string flags, text;
};

struct WgmmaLowering : ThreadPattern<WgmmaOp> {
  using ThreadPattern::ThreadPattern;

  /// The instructions' parts of the accumulator.
  static SmallVector<Block> cutAccumulator(const LinearLayout &layout, size_t columns) {
    std::map<Coord, int64_t> groups;
    for (int64_t i = 0; i < layout.getNumRegisters() / 4; ++i)
      groups[layout.getRegister(i * 4)] = i;
    SmallVector<Block> blocks;
    for (auto [at, group] : groups) {
      bool extends = !blocks.empty() && blocks.back().row == at.row &&
                     blocks.back().col + int64_t(blocks.back().groups.size()) * 8 == at.col &&
                     blocks.back().groups.size() * 8 < columns;
      if (!extends)
        blocks.push_back({at.row, at.col, {}});
      blocks.back().groups.push_back(group);
    }
    return blocks;
  }

  LogicalResult lower(WgmmaOp op, Adaptor operands, Emitter &e, Results &results) const override {
    FragmentType accType = op.getAcc().getType();
    const LinearLayout &acc = accType.getLinearLayout();
    ArrayRef<Coord> reg = acc.getReg();
    if (reg.size() < 2 || reg[0] != Coord{0, 1} || reg[1] != Coord{8, 0})
      return op.emitOpError("expected an accumulator of layout wgmmaResultLayout, got <")
             << acc.str() << ">";
    SharedFactor rhs{op.getRhs().getType(), !op.getRhsTransposed()};
    int64_t depth = op.getRhsTransposed() ? rhs.tile.getCols() : rhs.tile.getRows();
    SmallVector<Block> blocks =
        cutAccumulator(acc, op.getPromoted() ? mirage::promotedColumns : 256);
    for (const Block &block : blocks)
      if (failed(checkStart(op, rhs, block.col, block.groups.size() * 8)))
        return failure();
    for (Coord vector : acc.getWarp())
      if (vector.col && failed(checkStart(op, rhs, vector.col, 8)))
        return failure();

    Value rhsStart = descriptor(e, rhs, single(operands.getRhs()), acc, /*axis=*/1);
    auto lhsTile = dyn_cast<SharedType>(op.getLhs().getType());
    SharedFactor lhs{lhsTile, op.getLhsTransposed()};
    Value lhsStart;
    if (lhsTile)
      lhsStart = descriptor(e, lhs, single(operands.getLhs()), acc, /*axis=*/0);
    else if (failed(checkFragment(op, acc)))
      return failure();

    SmallVector<Value> values(operands.getAcc()), words;
    if (op.getPromoted()) {
      for (const Block &block : blocks)
        addPromoted(e, op, lhs, rhs, lhsStart, rhsStart, depth, block, values);
      results.push_back(values);
      return success();
    }
    if (!lhsTile)
      for (Value pair : operands.getLhs())
        words.push_back(e.bitcast(pair, e.getI32Type()));
    for (int64_t first = 0; first < depth; first += kChain * op.getDepth()) {
      Chain chain(op, lhs.outerContiguous, rhs.outerContiguous, blocks,
                  op.getFromZero() && first == 0, /*begins=*/first == 0);
      for (int64_t k = first; k < std::min(first + kChain * op.getDepth(), depth);
           k += op.getDepth())
        for (const Block &block : blocks) {
          SmallVector<Value> left =
              lhsTile ? SmallVector<Value>{advance(e, lhsStart, lhs.offset(block.row, k))}
                      : registersOf(op, words, block.row, k);
          chain.add(block, left, advance(e, rhsStart, rhs.offset(block.col, k)),
                    /*isFirst=*/k == 0);
        }
      chain.emit(e, values);
    }
    results.push_back(values);
    return success();
  }

  /// Adds the product of a block to its part of the sum.
  static void addPromoted(Emitter &e, WgmmaOp op, const SharedFactor &lhs, const SharedFactor &rhs,
                          Value lhsStart, Value rhsStart, int64_t depth, const Block &block,
                          SmallVector<Value> &sums) {
    SmallVector<Value> product(sums.size());
    Chain chain(op, lhs.outerContiguous, rhs.outerContiguous, block, /*fromZero=*/true,
                /*begins=*/true);
    for (int64_t k = 0; k < depth; k += op.getDepth())
      chain.add(block, {advance(e, lhsStart, lhs.offset(block.row, k))},
                advance(e, rhsStart, rhs.offset(block.col, k)), /*isFirst=*/k == 0);
    chain.emit(e, product);
    e.ptx("wgmma.commit_group.sync.aligned;", "", {});
    SmallVector<Value> waited;
    for (int64_t group : block.groups)
      for (int64_t i = 0; i < 4; ++i)
        waited.push_back(product[group * 4 + i]);
    waited = waitFor(e, 0, waited);
    for (auto [j, group] : llvm::enumerate(block.groups))
      for (int64_t i = 0; i < 4; ++i)
        sums[group * 4 + i] = e.fadd(sums[group * 4 + i], waited[j * 4 + i]);
  }

  /// MN-major descriptors start at panels (or stay within one).
  static LogicalResult checkStart(WgmmaOp op, const SharedFactor &rhs, int64_t col, int64_t count) {
    if (!rhs.outerContiguous || col % rhs.panelElements() == 0)
      return success();
    if (col % rhs.panelElements() + count <= rhs.panelElements() && col % 8 == 0)
      return success();
    return op.emitOpError("expected parts of rhs that start at a multiple of ")
           << rhs.panelElements() << " columns, got " << col;
  }

  static LogicalResult checkFragment(WgmmaOp op, const LinearLayout &acc) {
    const LinearLayout &lhs = cast<FragmentType>(op.getLhs().getType()).getLinearLayout();
    ArrayRef<Coord> reg = lhs.getReg();
    bool fits = reg.size() >= 3 && reg[0] == Coord{0, 1} && reg[1] == Coord{8, 0} &&
                reg[2] == Coord{0, 8} && lhs.getLane() == acc.getLane();
    for (auto [left, result] : llvm::zip(lhs.getWarp(), acc.getWarp()))
      fits &= left.row == result.row && left.col == 0;
    if (!fits)
      return op.emitOpError("expected an lhs of layout wgmmaLhsLayout, got <") << lhs.str() << ">";
    return success();
  }

  /// The four registers (pairs) of a 64x16 part of the lhs fragment.
  static SmallVector<Value> registersOf(WgmmaOp op, ArrayRef<Value> words, int64_t row, int64_t k) {
    const LinearLayout &lhs = cast<FragmentType>(op.getLhs().getType()).getLinearLayout();
    int64_t first = *lhs.findRegister(Coord{int32_t(row), int32_t(k)}) / 2;
    return SmallVector<Value>(words.slice(first, 4));
  }

  /// The descriptor of the warpgroup's part, as i64.
  static Value descriptor(Emitter &e, const SharedFactor &factor, Value base,
                          const LinearLayout &acc, int64_t axis) {
    // Warps of a group (bits 0 and 1) share a descriptor.
    SmallVector<int64_t> bytes = {0, 0};
    for (Coord vector : acc.getWarp().drop_front(2))
      bytes.push_back(factor.offset(vector[axis], 0));
    Value address = e.sharedAddress(base);
    if (llvm::any_of(bytes, [](int64_t value) { return value != 0; }))
      address = e.add(address, e.linear(e.warp(), bytes));
    Value field = e.shiftRight(e.bitAnd(address, 0x3ffff), 4);
    Value wide = e.createOrFold<arith::ExtUIOp>(e.getI64Type(), field);
    return e.createOrFold<arith::OrIOp>(wide, e.i64(int64_t(factor.bits())));
  }

  /// Addresses stay below 2^18, so the sum does not carry out of their field.
  static Value advance(Emitter &e, Value descriptor, int64_t bytes) {
    return e.add(descriptor, bytes / 16);
  }
};

struct WgmmaWaitLowering : ThreadPattern<WgmmaWaitOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(WgmmaWaitOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    SmallVector<Value> values;
    for (ValueRange range : operands.getAccs())
      llvm::append_range(values, range);
    SmallVector<Value> passed = waitFor(e, op.getPending(), values);
    size_t next = 0;
    for (ValueRange range : operands.getAccs()) {
      results.push_back(SmallVector<Value>(ArrayRef(passed).slice(next, range.size())));
      next += range.size();
    }
    return success();
  }
};
} // namespace

void mirage::thread::populateWgmmaPatterns(const TypeConverter &converter,
                                           RewritePatternSet &patterns) {
  patterns.add<WgmmaLowering, WgmmaWaitLowering>(converter, patterns.getContext());
}

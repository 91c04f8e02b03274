//===- Copies.cpp - ops that only move elements ---------------------------===//

#include "Copies.h"

#include "mirage/Dialect/Thread/IR/Layouts.h"
#include "mirage/Dialect/Thread/IR/Thread.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mirage;
using thread::FragmentType;

/// Columns and elements of a tile at most: 16 elements for each thread.
constexpr int64_t kMaxCols = 1024;
constexpr int64_t kMaxElements = 16 * CopyKernel::numThreads;

/// Indices have 32 bits.
constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();

static RankedTensorType getTensor(Value value) { return cast<RankedTensorType>(value.getType()); }

static int64_t product(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
}

bool mirage::isPlaced(Value value) {
  while (auto reshape = value.getDefiningOp<kernel::ReshapeOp>())
    value = reshape.getInput();
  auto launch = value.getDefiningOp<kernel::LaunchOp>();
  return launch && launch.getPlace(cast<OpResult>(value).getResultNumber());
}

bool mirage::isWrittenInParts(kernel::ConcatOp concat) {
  return isPlaced(concat.getInputs().front()) ||
         getTensor(concat.getInputs().front()).getEncoding() != nullptr;
}

//===----------------------------------------------------------------------===//
// What is copied
//===----------------------------------------------------------------------===//

CopyKernel::CopyKernel(kernel::SliceOp op) {
  RankedTensorType from = getTensor(op.getInput()), to = getTensor(op.getResult());
  // A dimension that is copied as a whole is merged with the dimension before
  // it.
  Sizes source, shape, offsets;
  bool joins = false;
  for (int64_t dim = from.getRank() - 1; dim >= 0; --dim) {
    int64_t extent = from.getDimSize(dim), size = to.getDimSize(dim), offset = op.getOffsets()[dim];
    if (joins) {
      offset *= source.back();
      size *= source.back();
      extent *= source.back();
      source.pop_back(), shape.pop_back(), offsets.pop_back();
    }
    source.push_back(extent), shape.push_back(size), offsets.push_back(offset);
    joins = size == extent && (dim == 0 || extent * from.getDimSize(dim - 1) <= kMaxIndex);
  }
  while (source.size() < 2)
    source.push_back(1), shape.push_back(1), offsets.push_back(0);
  for (Sizes *sizes : {&source, &shape, &offsets})
    std::reverse(sizes->begin(), sizes->end());
  sources = {op.getInput()};
  sourceShapes = {source};
  sourceElements = {from.getElementType()};
  resultShape = shape;
  resultElement = to.getElementType();
  addPart(0, offsets, Sizes(shape.size(), 0), shape);
}

/// Appends the tensors that a join consists of, and their start in the result
/// of the outermost join; `start` is the start of this join.
static void collectParts(kernel::ConcatOp op, ArrayRef<int64_t> start,
                         SmallVectorImpl<std::pair<Value, SmallVector<int64_t>>> &parts) {
  SmallVector<int64_t> at(start);
  for (Value input : op.getInputs()) {
    auto inner = input.getDefiningOp<kernel::ConcatOp>();
    if (inner && isPartOfJoin(inner))
      collectParts(inner, at, parts);
    else
      parts.emplace_back(input, at);
    at[op.getDim()] += getTensor(input).getDimSize(op.getDim());
  }
}

bool mirage::isPartOfJoin(kernel::ConcatOp op) {
  if (!op.getResult().hasOneUse() || isWrittenInParts(op))
    return false;
  auto outer = dyn_cast<kernel::ConcatOp>(*op.getResult().getUsers().begin());
  return outer && !isWrittenInParts(outer) &&
         getTensor(outer.getResult()).getElementType() ==
             getTensor(op.getResult()).getElementType();
}

CopyKernel::CopyKernel(kernel::ConcatOp op) {
  RankedTensorType to = getTensor(op.getResult());
  SmallVector<std::pair<Value, Sizes>> tensors;
  collectParts(op, Sizes(to.getRank(), 0), tensors);
  // A dimension that all of them have as a whole is merged with the dimension
  // before it.
  SmallVector<bool> isWhole(to.getRank(), true);
  for (auto &[tensor, start] : tensors)
    for (int64_t dim = 0; dim < to.getRank(); ++dim)
      isWhole[dim] = isWhole[dim] && getTensor(tensor).getDimSize(dim) == to.getDimSize(dim);
  auto merged = [&](ArrayRef<int64_t> numbers, int64_t first) {
    Sizes result{first};
    for (auto [dim, number] : llvm::enumerate(numbers))
      if (isWhole[dim])
        result.back() *= to.getDimSize(dim);
      else
        result.push_back(number);
    if (result.size() == 1)
      result.insert(result.begin(), first);
    return result;
  };
  resultShape = merged(to.getShape(), 1);
  resultElement = to.getElementType();
  for (auto [number, part] : llvm::enumerate(tensors)) {
    RankedTensorType from = getTensor(part.first);
    sources.push_back(part.first);
    sourceShapes.push_back(merged(from.getShape(), 1));
    sourceElements.push_back(from.getElementType());
    addPart(number, Sizes(resultShape.size(), 0), merged(part.second, 0), sourceShapes.back());
  }
}

/// Whole tiles along a dimension, and the rest: a tile that ends inside of the
/// result must not write beyond its end, so the rest is a separate part.
static SmallVector<std::pair<int64_t, int64_t>> inTiles(int64_t size, int64_t tile) {
  int64_t whole = size / tile * tile;
  SmallVector<std::pair<int64_t, int64_t>> found;
  for (auto [start, extent] : {std::pair(int64_t(0), whole), std::pair(whole, size - whole)})
    if (extent)
      found.emplace_back(start, extent);
  return found;
}

void CopyKernel::addPart(unsigned source, Sizes sourceOffsets, Sizes resultOffsets, Sizes shape) {
  size_t row = shape.size() - 2, col = shape.size() - 1;
  bool endsInside = resultOffsets[row] + shape[row] < resultShape[row];
  for (auto [firstCol, cols] : inTiles(shape[col], kMaxCols)) {
    int64_t width = std::min(cols, kMaxCols), held = llvm::PowerOf2Ceil(width);
    int64_t height = std::min<int64_t>(llvm::PowerOf2Ceil(shape[row]),
                                       std::max(kMaxElements / held, int64_t(1)));
    // If a tile is longer than the rest, each column has a condition. With one
    // for each row as well, MLIR merges the branches into blocks with thousands
    // of arguments.
    if (width < held && held == kMaxCols && shape[row] % height != 0)
      height = 1;
    for (auto [firstRow, rows] : inTiles(shape[row], endsInside ? height : shape[row])) {
      Part part{
          source, sourceOffsets, resultOffsets, shape, endsInside ? std::min(rows, height) : height,
          width};
      for (Sizes *offsets : {&part.sourceOffsets, &part.resultOffsets}) {
        (*offsets)[row] += firstRow;
        (*offsets)[col] += firstCol;
      }
      part.shape[row] = rows;
      part.shape[col] = cols;
      parts.push_back(std::move(part));
    }
  }
}

int64_t CopyKernel::Part::getNumBlocks() const {
  return product(ArrayRef(shape).drop_back(2)) * llvm::divideCeil(shape[shape.size() - 2], rows) *
         (shape.back() / cols);
}

int64_t CopyKernel::getNumBlocks() const {
  int64_t blocks = 0;
  for (const Part &part : parts)
    blocks += part.getNumBlocks();
  return blocks;
}

std::optional<int64_t> CopyKernel::getTooLongRow() const {
  return resultShape.back() > kMaxIndex ? std::optional(resultShape.back()) : std::nullopt;
}

SmallVector<Type> CopyKernel::getParameterTypes() const {
  SmallVector<Type> types;
  for (auto [shape, element] : llvm::zip_equal(sourceShapes, sourceElements))
    types.push_back(MemRefType::get(shape, element));
  types.push_back(MemRefType::get(resultShape, resultElement));
  return types;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

int64_t CopyKernel::getVector(const Part &part) const {
  int64_t divisor =
      std::gcd(part.cols, std::gcd(part.sourceOffsets.back(), part.resultOffsets.back()));
  divisor = std::gcd(divisor, std::gcd(sourceShapes[part.source].back(), resultShape.back()));
  int64_t bytes = std::max(sourceElements[part.source].getIntOrFloatBitWidth(),
                           resultElement.getIntOrFloatBitWidth()) /
                  8;
  return std::min<int64_t>(divisor & -divisor, 16 / bytes);
}

void CopyKernel::emitPart(const Part &part, OpBuilder &builder, Location loc, ValueRange parameters,
                          Value block) const {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  int64_t rank = part.shape.size(), heldCols = llvm::PowerOf2Ceil(part.cols),
          heldRows = llvm::PowerOf2Ceil(part.rows);
  SmallVector<Value> from(rank), to(rank);
  // The last dimension is the least significant digit of the block's number.
  for (int64_t dim = rank - 1; dim >= 0; --dim) {
    int64_t size = dim == rank - 1 ? part.cols : dim == rank - 2 ? part.rows : 1;
    int64_t tiles = llvm::divideCeil(part.shape[dim], size);
    Value digit =
        dim == 0 ? block : arith::RemUIOp::create(builder, loc, block, index(tiles)).getResult();
    if (dim > 0)
      block = arith::DivUIOp::create(builder, loc, block, index(tiles));
    Value start = arith::MulIOp::create(builder, loc, digit, index(size));
    from[dim] = arith::AddIOp::create(builder, loc, start, index(part.sourceOffsets[dim]));
    to[dim] = arith::AddIOp::create(builder, loc, start, index(part.resultOffsets[dim]));
  }
  auto layout = thread::blockedLayout(heldRows, heldCols, getVector(part), numWarps);
  SmallVector<int64_t> dims = {rank - 2, rank - 1}, extents;
  if (heldCols != part.cols || heldRows != part.rows)
    extents = {part.rows, part.cols};
  auto extentsAttr = extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(extents);
  // Rows beyond the result are dropped; the source may have fewer rows.
  SmallVector<bool> inBounds = {part.shape[rank - 2] % part.rows == 0, true};
  Value tile = thread::LoadGlobalOp::create(
      builder, loc, FragmentType::get(sourceElements[part.source], layout, false),
      parameters[part.source], from, dims, inBounds, extentsAttr, Value());
  if (sourceElements[part.source] != resultElement)
    tile =
        thread::CastOp::create(builder, loc, FragmentType::get(resultElement, layout, false), tile);
  thread::StoreGlobalOp::create(builder, loc, tile, parameters.back(), to, dims, inBounds,
                                extentsAttr, Value());
}

void CopyKernel::emitBody(OpBuilder &builder, Location loc, ValueRange parameters) const {
  OpBuilder::InsertionGuard guard(builder);
  Value block = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  // The blocks of a part follow those of the part before.
  for (const Part &part : ArrayRef(parts).drop_back()) {
    Value count = arith::ConstantIndexOp::create(builder, loc, part.getNumBlocks());
    Value isMine = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, block, count);
    auto branch = scf::IfOp::create(builder, loc, isMine, /*withElseRegion=*/true);
    builder.setInsertionPointToStart(branch.thenBlock());
    emitPart(part, builder, loc, parameters, block);
    builder.setInsertionPointToStart(branch.elseBlock());
    block = arith::SubIOp::create(builder, loc, block, count);
  }
  emitPart(parts.back(), builder, loc, parameters, block);
}

//===- ModuloProblem.cpp - a modulo schedule of a loop's body -------------===//

#include "mirage/Dialect/Block/Analysis/ModuloProblem.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <vector>

using namespace mirage::block;

std::optional<std::string> ModuloProblem::check() const {
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].clocks < 0 || ops[i].registers < 0 || ops[i].lastStage < 0)
      return "op " + std::to_string(i) + ": expected clocks, registers and stages of at least 0";
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge &edge = edges[i];
    if (edge.from >= ops.size() || edge.to >= ops.size() || edge.distance < 0)
      return "edge " + std::to_string(i) + ": expected two ops and a distance of at least 0";
    if (edge.distance == 0 && edge.from >= edge.to)
      return "edge " + std::to_string(i) + ": expected ops to be numbered in an order of one step";
  }
  if (groups < 1)
    return "expected at least one group, got " + std::to_string(groups);
  return std::nullopt;
}

/// Where each op is in the order.
static llvm::SmallVector<int64_t> getPlaces(const ModuloSchedule &schedule) {
  llvm::SmallVector<int64_t> places(schedule.order.size());
  for (auto [place, op] : llvm::enumerate(schedule.order))
    places[op] = int64_t(place);
  return places;
}

/// How many rounds after the one that computes the value the edge's reader executes.
static int64_t getRounds(const ModuloProblem::Edge &edge, const ModuloSchedule &schedule) {
  return edge.distance + schedule.stages[edge.to] - schedule.stages[edge.from];
}

std::optional<ModuloError> ModuloProblem::verify(const ModuloSchedule &schedule) const {
  if (schedule.stages.size() != ops.size() || schedule.order.size() != ops.size())
    return ModuloError{0, "expected a stage and a place for each of " + std::to_string(ops.size()) +
                              " ops, got " + std::to_string(schedule.stages.size()) + " and " +
                              std::to_string(schedule.order.size())};
  llvm::SmallVector<bool> seen(ops.size(), false);
  for (size_t op : schedule.order) {
    if (op >= ops.size() || seen[op])
      return ModuloError{std::min(op, ops.size() - 1), "expected each op once in the order"};
    seen[op] = true;
  }
  for (size_t i = 0; i < ops.size(); ++i)
    if (schedule.stages[i] < 0 || schedule.stages[i] > ops[i].lastStage)
      return ModuloError{i, "expected a stage from 0 to " + std::to_string(ops[i].lastStage) +
                                ", got " + std::to_string(schedule.stages[i])};
  llvm::SmallVector<int64_t> places = getPlaces(schedule);
  for (const Edge &edge : edges) {
    int64_t rounds = getRounds(edge, schedule);
    if (rounds < 0 || (rounds == 0 && places[edge.from] >= places[edge.to]))
      return ModuloError{edge.to, "is executed before a value that it reads"};
  }
  if (int64_t needed = getRegisters(schedule); needed > registers)
    return ModuloError{schedule.order.empty() ? 0 : schedule.order.front(),
                       "expected at most " + std::to_string(registers) + " registers, got " +
                           std::to_string(needed)};
  return std::nullopt;
}

int64_t ModuloProblem::getLeastPeriod() const {
  int64_t products = 0, others = 0;
  for (const Op &op : ops)
    (op.isProduct ? products : others) += op.clocks;
  return groups * std::max(products, others);
}

int64_t ModuloProblem::getChain(const ModuloSchedule &schedule) const {
  int64_t lastRound = 1;
  for (const Edge &edge : edges)
    lastRound = std::max(lastRound, getRounds(edge, schedule));
  // The times of a round depend on those of the last rounds; they repeat after each product has
  // waited for the others.
  int64_t settled = lastRound * int64_t(ops.size() + 2), counted = lastRound * 8;
  std::vector<llvm::SmallVector<int64_t>> done; // by round and op
  int64_t warps = 0, tensor = 0, begin = 0;
  for (int64_t round = 0; round < settled + counted; ++round) {
    if (round == settled)
      begin = std::max(warps, tensor);
    done.emplace_back(ops.size(), 0);
    for (size_t op : schedule.order) {
      for (const Edge &edge : edges)
        if (int64_t earlier = round - getRounds(edge, schedule); edge.to == op && earlier >= 0)
          warps = std::max(warps, done[earlier][edge.from]);
      int64_t &unit = ops[op].isProduct ? tensor : warps;
      unit = std::max(unit, warps) + ops[op].clocks;
      done[round][op] = unit;
    }
    for (size_t op = 0; op < ops.size(); ++op)
      if (ops[op].isWaited && schedule.stages[op] == 0)
        warps = std::max(warps, done[round][op]);
  }
  return (std::max(warps, tensor) - begin) / counted;
}

/// The last place at which each op reads its operands, counted on through later rounds. A product
/// reads them until the warps wait for it, or for one that is started later: they end in order.
static llvm::SmallVector<int64_t> getReadUntil(const ModuloProblem &problem,
                                               const ModuloSchedule &schedule) {
  int64_t size = int64_t(problem.ops.size());
  llvm::SmallVector<int64_t> places = getPlaces(schedule), read(places);
  auto isProduct = [&](size_t op) { return problem.ops[op].isProduct; };
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    if (!isProduct(op))
      continue;
    int64_t waited = places[op] + size;
    for (const ModuloProblem::Edge &edge : problem.edges) {
      if (!isProduct(edge.from))
        continue;
      // The first wait for a product that is not older than this one.
      int64_t round = places[edge.from] < places[op] ? size : 0;
      waited = std::min(waited, places[edge.to] + size * getRounds(edge, schedule) + round);
    }
    if (problem.ops[op].isWaited && schedule.stages[op] == 0)
      waited = std::min(waited, size);
    read[op] = std::max(places[op], waited - 1);
  }
  return read;
}

int64_t ModuloProblem::getRegisters(const ModuloSchedule &schedule) const {
  int64_t size = int64_t(ops.size()), most = 0;
  llvm::SmallVector<int64_t> places = getPlaces(schedule), ends(places);
  llvm::SmallVector<int64_t> read = getReadUntil(*this, schedule);
  for (const Edge &edge : edges)
    ends[edge.from] = std::max(ends[edge.from], read[edge.to] + size * getRounds(edge, schedule));
  for (int64_t place = 0; place < size; ++place) {
    int64_t alive = 0, dying = 0;
    size_t at = schedule.order[place];
    for (size_t op = 0; op < ops.size(); ++op)
      // Each round in which the value was computed and is still read.
      for (int64_t here = place; here <= ends[op] || here == places[op]; here += size) {
        if (here < places[op])
          continue;
        alive += ops[op].registers;
        dying += here == ends[op] && op != at ? ops[op].registers : 0;
      }
    most = std::max(most, alive - (ops[at].inPlace ? std::min(dying, ops[at].registers) : 0));
  }
  return most;
}

include "mirage/Dialect/Block/IR/BlockOps.td"

include "mirage/Dialect/Block/IR/BlockAttrs.td"

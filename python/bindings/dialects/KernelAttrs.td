include "mirage/Dialect/Kernel/IR/KernelAttrs.td"

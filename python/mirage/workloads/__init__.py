"""Built-in programs, by name: the benchmarks time them, and ``mirage workloads`` lists them.

from mirage.workloads import get, names

workload = get("gqa_bs1_kv4096")
graph = workload.graph()                  # a KernelGraph
arrays = workload.numpy_inputs(seed=0)    # or torch_inputs(seed, device)
module = workload.torch_module()          # the same program in PyTorch
"""

from mirage.workloads.catalog import UnknownWorkload, all_workloads, get, names
from mirage.workloads.workload import InputSpec, Workload

__all__ = ["InputSpec", "UnknownWorkload", "Workload", "all_workloads", "get", "names"]

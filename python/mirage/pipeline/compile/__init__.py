"""From a chosen µGraph to artifacts, and to the kernels that do not compile."""

"""Between which numbers values lie, and which steps of loops contribute nothing."""

//! Instruction counts and micro-benchmarks.

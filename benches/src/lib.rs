//! Instruction counts and micro-benches.

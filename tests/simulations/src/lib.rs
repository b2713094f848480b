//! Models and simulations of Strait's protocols: its folder `tests` has the suites.
//!
//! They are a package of their own, because they spend minutes of processor time without
//! optimization, and all other suites seconds. The profile `dev` optimizes this package alone.

// The calls that the patterns make, over `strait.h` (with -DSTRAIT) or over `mpi.h`.
//
// Both headers define the same inline functions, so every pattern is compiled from one source and
// differs between the libraries in nothing but these calls. Messages are bytes in one communicator.
// A failed call ends the program: MPI does so itself, and `check` does so for Strait.

#ifndef PATTERNS_API_H
#define PATTERNS_API_H

#include <stddef.h>

// The rank of this process, and their number, from `api_start` on.
extern int rank, ranks;

// The memory of the window of this rank, from `window_make` on.
extern char *window_memory;

#ifdef STRAIT
#include "api_strait.h"
#else
#include "api_mpi.h"
#endif

#endif

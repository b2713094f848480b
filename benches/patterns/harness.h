// What all patterns share: the buffers, the clock, the bare line, and the rows of the output.

#ifndef PATTERNS_HARNESS_H
#define PATTERNS_HARNESS_H

#include <stddef.h>

#include "api.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

// The tags of measured messages and of the answers at the end of a stream.
enum { TAG = 1, TAG_ANSWER = 2 };

// One measurement.
struct row {
  // The name in the output.
  const char *name;
  // Does the work of one batch on every rank, and returns its time on this rank in nanoseconds.
  // Rank 0's time is reported.
  double (*batch)(size_t bytes, int count);
  // The size of a message.
  size_t bytes;
  // The number of operations in a batch.
  int count;
  // The number by which the time of an operation is divided: 2 for there and back.
  int parts;
};

// The buffers of this rank, which it has touched: `buffer_bytes` long each.
extern char *out, *in;
extern size_t buffer_bytes;

// The options of the command line.
struct options {
  const char *group;
  // The number of batches of each row, after two that warm up.
  int batches;
  // The file of the bare line, or NULL.
  const char *line_file;
  // A regular expression that selects rows, or NULL.
  const char *rows;
};

// The time in nanoseconds since a fixed point.
double now(void);

// Binds this rank to a processor, raises its priority, makes buffers of `bytes` bytes, and maps the
// bare line.
void harness_start(const struct options *options, size_t bytes);

// The time in nanoseconds in which a cache line goes from rank 0 to rank 1, or back, without any
// library. Both call it at the same time. Other ranks, and ranks without a line, get 0.
double bare_line(void);

// Returns whether the options select a row of this name.
int is_selected(const char *name);

// Measures the rows in their order. Every rank calls it.
void measure_rows(const struct row *rows, int count);
#define MEASURE(rows) measure_rows(rows, (int)(sizeof(rows) / sizeof((rows)[0])))

// Writes one row of rank 0: name, size of a message, unit, then for each batch its value and the
// bare line before and after it.
void print_row(const char *name, size_t bytes, const char *unit, int batches,
               double (*values)[3]);

// Computes for this number of nanoseconds, outside the library.
void compute(double nanoseconds);

// Posts a receive from `peer` and a send to it, and waits for both, `count` times. Returns the time.
double exchange_with(int peer, size_t bytes, int count);

// Sorts the values and returns their median.
double median(double *values, int count);

// The groups of patterns, each in a file of its own.
void ping_pong_rows(void);
void request_rows(void);
void stream_rows(void);
void cliff_rows(void);
void bandwidth_rows(void);
void touched_rows(void);
void one_sided_rows(void);
void overlap_rows(void);
void many_rows(void);
void depth_rows(void);

#endif

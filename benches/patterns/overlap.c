// Computation beside one large message, by the rank that computes and the rank that comes first.
//
// The computation takes as long as the message alone. Overlap is the part of it that is hidden: the
// sum of both times, less the time of both together, in percent of the message's time. Each case is
// a row of overlap and one of the message's time.

#include <stdio.h>

#include "harness.h"

enum { SAMPLES = 21, WARM_UP = 5, TAG_START = 7, TAG_TIME = 8, TAG_BOTH = 9, TAG_DATA = 5 };

// Time from agreeing on a start to the start, and from the first rank's call to the other's, in
// nanoseconds.
static const double AHEAD_NS = 30e3, LEAD_NS = 20e3;

// Sends a number of rank `from` to the other rank.
static double tell(double number, int from, int tag) {
  if (rank == from)
    send_to(&number, sizeof number, 1 - from, tag);
  else
    receive_from(&number, sizeof number, from, tag);
  return number;
}

// One message from rank 0 to rank 1. Rank `computes` computes between its call and its wait.
// Returns that rank's time from call to end, on both ranks.
static double pass(size_t bytes, int computes, int first, double computation) {
  request r;
  barrier();
  double start = tell(now() + AHEAD_NS, 0, TAG_START);
  if (rank != first)
    start += LEAD_NS;
  while (now() < start) {
  }
  start = now();
  if (rank == 0)
    start_send(out, bytes, 1, TAG_DATA, &r);
  else
    start_receive(in, bytes, 0, TAG_DATA, &r);
  if (rank == computes && computation > 0)
    compute(computation);
  wait_one(&r);
  return tell(now() - start, computes, TAG_TIME);
}

static double median_of_passes(size_t bytes, int computes, int first, double computation) {
  double samples[SAMPLES];
  for (int k = 0; k < SAMPLES; k++)
    samples[k] = pass(bytes, computes, first, computation);
  return tell(median(samples, SAMPLES), 0, TAG_BOTH);
}

static void measure(const char *size, size_t bytes, int computes, int first) {
  const char *names[] = {"sender", "receiver"};
  char overlap[64], time[64];
  snprintf(overlap, sizeof overlap, "ovl_%s_%s-computes_%s-first", size, names[computes],
           names[first]);
  snprintf(time, sizeof time, "comm_%s_%s-computes_%s-first", size, names[computes], names[first]);
  if (!is_selected(overlap))
    return;
  barrier();
  double before = bare_line();
  for (int k = 0; k < WARM_UP; k++)
    pass(bytes, computes, first, 0);
  double alone = median_of_passes(bytes, computes, first, 0);
  // A rank that comes first waits for the other as well; it may compute meanwhile.
  double lead = computes == first ? LEAD_NS : 0;
  double message = alone - lead < 1e3 ? 1e3 : alone - lead;
  double computation = message + lead;
  double together = median_of_passes(bytes, computes, first, computation);
  barrier();
  double after = bare_line();
  double percent = 100 * (1 - (together - computation) / message);
  print_row(overlap, bytes, "%", 1, (double[1][3]){{percent, before, after}});
  print_row(time, bytes, "ns", 1, (double[1][3]){{message, before, after}});
}

void overlap_rows(void) {
  for (int computes = 0; computes < 2; computes++) {
    for (int first = 0; first < 2; first++) {
      measure("64K", 64 * KIB, computes, first);
      measure("1M", MIB, computes, first);
      measure("4M", 4 * MIB, computes, first);
    }
  }
}

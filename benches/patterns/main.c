// What programs do with messages and windows, measured over Strait or over any MPI.
//
//   patterns GROUP [BATCHES [LINE_FILE [ROWS]]]
//
// Two ranks run, each bound to a processor; the group `multi` runs with any number. Each line of
// output is "row NAME BYTES UNIT VALUE,BEFORE,AFTER …", one triple for each batch: the time of an
// operation (or a percentage), and the bare line before and after the batch, in nanoseconds one way.
// LINE_FILE is an empty file of a page that all ranks can map ("-": none). ROWS is a regular
// expression. `cargo xtask peers` runs the program; docs/patterns.md explains the rows.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct group {
  const char *name;
  void (*rows)(void);
  size_t buffer_bytes;
};

static const struct group groups[] = {
    {"pp", ping_pong_rows, 8 * MIB},       {"nb", request_rows, 8 * MIB},
    {"stream", stream_rows, 8 * MIB},      {"cliff", cliff_rows, 8 * MIB},
    {"bw", bandwidth_rows, 72 * MIB},      {"touch", touched_rows, 72 * MIB},
    {"rma", one_sided_rows, 8 * MIB},      {"ov", overlap_rows, 8 * MIB},
    {"multi", many_rows, MIB},             {"depth", depth_rows, 8 * MIB},
};

int main(int argc, char **argv) {
  api_start(&argc, &argv);
  struct options options = {argc > 1 ? argv[1] : "", argc > 2 ? atoi(argv[2]) : 7,
                            argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL};
  const struct group *group = NULL;
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (!strcmp(groups[i].name, options.group))
      group = &groups[i];
  int fits = group && (ranks == 2 || (ranks > 2 && group->rows == many_rows));
  if (fits) {
    harness_start(&options, group->buffer_bytes);
    group->rows();
    barrier();
  } else if (rank == 0) {
    fprintf(stderr, "patterns: GROUP is pp, nb, stream, cliff, bw, touch, rma, ov or depth with "
                    "2 ranks, or multi with 2 or more\n");
  }
  api_end();
  return fits ? 0 : 1;
}

// Matching while 10,000 receives are posted, or 10,000 messages wait that no receive has asked for.

#include <stdlib.h>

#include "harness.h"

enum { DEPTH = 10000, BYTES = 8, TAG_FIRST = 1000, TAG_GO = 5 };

static request *requests;
static char *room;

static double ping_pong(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count; i++) {
    if (rank == 0) {
      send_to(out, bytes, 1, TAG);
      receive_from(in, bytes, 1, TAG);
    } else {
      receive_from(in, bytes, 0, TAG);
      send_to(out, bytes, 0, TAG);
    }
  }
  return now() - start;
}

// Messages that wait are received in the reverse of their order. Rank 1's time, on both.
static double unexpected_reversed(size_t bytes, int count) {
  for (int i = 0; rank == 0 && i < count; i++)
    send_to(out, bytes, 1, TAG_FIRST + i);
  barrier();
  double start = now();
  for (int i = count - 1; rank == 1 && i >= 0; i--)
    receive_from(in, bytes, 0, TAG_FIRST + i);
  double time = now() - start;
  if (rank == 1)
    send_to(&time, sizeof time, 0, TAG_ANSWER);
  else
    receive_from(&time, sizeof time, 1, TAG_ANSWER);
  return time;
}

// Receives are posted in the reverse of the order in which their messages come.
static double posted_reversed(size_t bytes, int count) {
  for (int i = 0; rank == 1 && i < count; i++)
    start_receive(room + (size_t)i * bytes, bytes, 0, TAG_FIRST + i, &requests[i]);
  barrier();
  double start = now();
  if (rank == 0) {
    for (int i = count - 1; i >= 0; i--)
      send_to(out, bytes, 1, TAG_FIRST + i);
    receive_from(in, 4, 1, TAG_GO);
  } else {
    wait_all(count, requests);
    send_to(out, 4, 0, TAG_GO);
  }
  return now() - start;
}

static void post_all(void) {
  for (int i = 0; i < DEPTH; i++)
    start_receive(room + i * BYTES, BYTES, 1 - rank, TAG_FIRST + i, &requests[i]);
  barrier();
}

static void send_all(void) {
  for (int i = 0; rank == 0 && i < DEPTH; i++)
    send_to(out, BYTES, 1, TAG_FIRST + i);
  barrier();
}

void depth_rows(void) {
  static const struct row shallow[] = {{"pp_8", ping_pong, BYTES, 500, 2}};
  static const struct row posted[] = {{"pp8_posted_other_tags", ping_pong, BYTES, 200, 2}};
  static const struct row waiting[] = {{"pp8_unexpected_waiting", ping_pong, BYTES, 200, 2}};
  static const struct row reversed[] = {
      {"drain_10000_unexpected_reversed", unexpected_reversed, BYTES, DEPTH, 1},
      {"match_10000_posted_reversed", posted_reversed, BYTES, DEPTH, 1},
  };
  requests = malloc(sizeof(request) * DEPTH);
  room = malloc(DEPTH * BYTES);
  if (!requests || !room)
    abort();
  MEASURE(shallow);
  post_all();
  MEASURE(posted);
  for (int i = 0; i < DEPTH; i++)
    cancel(&requests[i]);
  barrier();
  send_all();
  MEASURE(waiting);
  for (int i = DEPTH - 1; rank == 1 && i >= 0; i--)
    receive_from(in, BYTES, 0, TAG_FIRST + i);
  barrier();
  MEASURE(reversed);
  free(requests);
  free(room);
}

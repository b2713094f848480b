// Several messages in flight: exchanges, windows of 64 messages, and tags out of order.

#include "harness.h"

enum { WINDOW = 64, TAGS = 16, TAG_END = 99 };

// Both ranks send, then receive, by blocking calls.
static double exchange_blocking(size_t bytes, int count) {
  int peer = 1 - rank;
  double start = now();
  for (int i = 0; i < count; i++) {
    send_to(out, bytes, peer, TAG);
    receive_from(in, bytes, peer, TAG);
  }
  return now() - start;
}

double exchange_with(int peer, size_t bytes, int count) {
  request r[2];
  double start = now();
  for (int i = 0; i < count; i++) {
    start_receive(in, bytes, peer, TAG, &r[0]);
    start_send(out, bytes, peer, TAG, &r[1]);
    wait_all(2, r);
  }
  return now() - start;
}

// Both ranks exchange with each other.
static double exchange(size_t bytes, int count) { return exchange_with(1 - rank, bytes, count); }

// Windows of 64 messages in one direction, each with an answer: the message rate of the OSU suite.
static double windows(size_t bytes, int count) {
  request r[WINDOW];
  double start = now();
  for (int i = 0; i < count / WINDOW; i++) {
    for (int k = 0; k < WINDOW; k++) {
      if (rank == 0)
        start_send(out, bytes, 1, TAG, &r[k]);
      else
        start_receive(in, bytes, 0, TAG, &r[k]);
    }
    wait_all(WINDOW, r);
    if (rank == 0)
      receive_from(in, 4, 1, TAG_ANSWER);
    else
      send_to(out, 4, 0, TAG_ANSWER);
  }
  return now() - start;
}

// 16 messages with ascending tags, received in descending order by blocking calls.
static double reverse_blocking(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count / TAGS; i++) {
    for (int turn = 0; turn < 2; turn++) {
      for (int k = 0; k < TAGS; k++) {
        if (turn == rank)
          send_to(out, bytes, 1 - rank, k);
        else
          receive_from(in, bytes, 1 - rank, TAGS - 1 - k);
      }
    }
  }
  return now() - start;
}

// 16 messages with ascending tags, received in descending order by requests, and an answer.
static double reverse_requests(size_t bytes, int count) {
  request r[TAGS];
  double start = now();
  for (int i = 0; i < count / TAGS; i++) {
    for (int k = 0; k < TAGS; k++) {
      if (rank == 0)
        send_to(out, bytes, 1, k);
      else
        start_receive(in, bytes, 0, TAGS - 1 - k, &r[k]);
    }
    if (rank == 0) {
      receive_from(in, 4, 1, TAG_END);
    } else {
      wait_all(TAGS, r);
      send_to(out, 4, 0, TAG_END);
    }
  }
  return now() - start;
}

void request_rows(void) {
  static const struct row rows[] = {
      {"exch_8", exchange_blocking, 8, 1000, 1},
      {"exchnb_8", exchange, 8, 1000, 1},
      {"exch_64", exchange_blocking, 64, 1000, 1},
      {"exchnb_64", exchange, 64, 1000, 1},
      {"exch_512", exchange_blocking, 512, 1000, 1},
      {"exchnb_512", exchange, 512, 1000, 1},
      {"exch_1K", exchange_blocking, KIB, 1000, 1},
      {"exchnb_1K", exchange, KIB, 1000, 1},
      {"exchnb_8K", exchange, 8 * KIB, 1000, 1},
      {"win64_8", windows, 8, 6400, 1},
      {"win64_64", windows, 64, 6400, 1},
      {"win64_1K", windows, KIB, 3200, 1},
      {"rev16_8", reverse_blocking, 8, 1600, 2},
      {"tags16_8", reverse_requests, 8, 1600, 1},
  };
  MEASURE(rows);
}

/* Two ranks send a message there and back: strait run -n 2 ./pingpong [bytes [rounds]]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "strait.h"

static void must(int code)
{
    if (code != STRAIT_OK) {
        fprintf(stderr, "%s\n", strait_error_message());
        exit(1);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **arguments)
{
    size_t bytes = count > 1 ? strtoul(arguments[1], NULL, 10) : 8;
    unsigned long rounds = count > 2 ? strtoul(arguments[2], NULL, 10) : 10000;
    char *buffer = (char *)calloc(1, bytes + 1);
    uint32_t rank, ranks;
    strait_world world;
    double start;

    if (buffer == NULL) {
        return 1;
    }
    must(strait_init(STRAIT_ABI, NULL, &world));
    must(strait_rank(world, &rank));
    must(strait_size(world, &ranks));
    if (ranks != 2) {
        fprintf(stderr, "start two ranks: strait run -n 2 %s\n", arguments[0]);
        return 1;
    }
    must(strait_barrier(world, 0));
    start = now();
    for (unsigned long round = 0; round < rounds; round++) {
        if (rank == 0) {
            must(strait_send(world, 0, buffer, bytes, 1, 0));
            must(strait_recv(world, 0, buffer, bytes, 1, 0, NULL));
        } else {
            must(strait_recv(world, 0, buffer, bytes, 0, 0, NULL));
            must(strait_send(world, 0, buffer, bytes, 0, 0));
        }
    }
    if (rank == 0 && rounds > 0) {
        printf("%zu bytes: %.0f ns one way\n", bytes, (now() - start) / (double)rounds / 2 * 1e9);
    }
    must(strait_finalize(world));
    free(buffer);
    return 0;
}

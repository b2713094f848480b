/*
 * Runs the fast path of libstrait.so repeatedly, between two ranks of this process.
 *
 *   hot pairs LIBRARY BYTES    sends and receives, for callgrind (cargo xtask library), which counts
 *                              `measured`
 *   hot calls LIBRARY BYTES    runs all calls that carry a message, also for callgrind
 *   hot time LIBRARY LIBRARY   prints the load time of each library, and the time of a send and
 *                              receive of 8 bytes: warm, and after the application has used all of
 *                              the instruction cache
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "strait.h"

#define CALLS(X) \
    X(init_in_process) X(send) X(recv) X(isend) X(irecv) X(test) X(wait) X(progress) X(finalize) X(error_message)

/* A library's functions, and two ranks in it. */
struct strait {
#define FIELD(name) __typeof__(&strait_##name) name;
    CALLS(FIELD)
    strait_world world[2];
};

enum { ROUNDS = 500, LONGEST = 1024 };

static char out[LONGEST], in[LONGEST];

static void fail(const char *what) {
    fprintf(stderr, "hot: %s\n", what);
    exit(1);
}

static void check(const struct strait *s, int code) {
    if (code != STRAIT_OK) fail(s->error_message());
}

static void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    return library;
}

static void join(struct strait *s, void *library) {
#define FIND(name) \
    *(void **)&s->name = dlsym(library, "strait_" #name); \
    if (!s->name) fail(dlerror());
    CALLS(FIND)
    check(s, s->init_in_process(STRAIT_ABI, 2, s->world));
}

/* Sends a message in each direction. */
static void pair(const struct strait *s, size_t bytes) {
    for (uint32_t rank = 0; rank < 2; rank++) {
        check(s, s->send(s->world[rank], 0, out, bytes, !rank, 7));
        check(s, s->recv(s->world[!rank], 0, in, bytes, rank, 7, NULL));
    }
}

/* Sends messages in each direction by nonblocking calls: with the receive or the send first. */
static void pair_by_requests(const struct strait *s, size_t bytes) {
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (int sends_first = 0; sends_first < 2; sends_first++) {
            strait_request sent, received;
            int done = 0;
            if (sends_first) check(s, s->isend(s->world[rank], 0, out, bytes, !rank, 7, &sent));
            check(s, s->irecv(s->world[!rank], 0, in, bytes, rank, 7, &received));
            if (!sends_first) check(s, s->isend(s->world[rank], 0, out, bytes, !rank, 7, &sent));
            while (!done) {
                check(s, s->test(&received, &done, NULL));
                check(s, s->progress(s->world[rank]));
            }
            check(s, s->wait(&sent, NULL));
        }
    }
}

__attribute__((noinline)) void measured(const struct strait *s, size_t bytes, int all) {
    for (int round = 0; round < ROUNDS; round++) {
        pair(s, bytes);
        if (all) pair_by_requests(s, bytes);
    }
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Size of the application's code between two messages: a return on every line of 2 MiB. */
enum { LINE = 64, APPLICATION = 2 << 20 };

static void run_application(const char *code) {
    for (size_t at = 0; at < APPLICATION; at += LINE) {
        void (*call)(void);
        const char *line = code + at;
        memcpy(&call, &line, sizeof call);
        call();
    }
}

/* Returns the mean of the middle half, because the clock is coarser than the measured difference. */
static double middle(uint64_t *took, size_t count) {
    uint64_t sum = 0;
    qsort(took, count, sizeof *took, by_size);
    for (size_t at = count / 4; at < count * 3 / 4; at++) sum += took[at];
    return (double)sum / (double)(count * 3 / 4 - count / 4);
}

/* Measures a library and prints the result. */
static void measure(const char *path) {
    enum { TIMES = 100, WARM = 100 };
    static uint64_t warm[TIMES], cold[TIMES];
    struct strait s;
    char *application = mmap(NULL, APPLICATION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (application == MAP_FAILED) fail("no memory");
    memset(application, 0xc3, APPLICATION);
    if (mprotect(application, APPLICATION, PROT_READ | PROT_EXEC)) fail("cannot make memory executable");
    uint64_t from = now();
    void *library = load(path);
    double start = (double)(now() - from);
    join(&s, library);
    for (int time = 0; time < TIMES; time++) {
        from = now();
        for (int pairs = 0; pairs < WARM; pairs++) pair(&s, 8);
        warm[time] = now() - from;
        run_application(application);
        from = now();
        pair(&s, 8);
        cold[time] = now() - from;
    }
    /* A pair is two sends and two receives. */
    printf("%f %f %f\n", start, middle(warm, TIMES) / (2 * WARM), middle(cold, TIMES) / 2);
}

/* Compares two libraries in many alternating processes, because the placement of a library and its
 * data in one process matters more than the difference to be measured. */
static void compare(const char *program, char **paths) {
    enum { PROCESSES = 60, FIGURES = 3 };
    static uint64_t found[2][FIGURES][PROCESSES];
    for (int process = 0; process < PROCESSES; process++) {
        for (int turn = 0; turn < 2; turn++) {
            int which = turn ^ (process & 1);
            char command[8192];
            double figures[FIGURES];
            snprintf(command, sizeof command, "'%s' one '%s' 8", program, paths[which]);
            FILE *child = popen(command, "r");
            if (!child || fscanf(child, "%lf %lf %lf", &figures[0], &figures[1], &figures[2]) != FIGURES) fail("a process died");
            pclose(child);
            for (int figure = 0; figure < FIGURES; figure++) found[which][figure][process] = (uint64_t)(figures[figure] * 1000);
        }
    }
    for (int which = 0; which < 2; which++)
        printf("%s: loaded in %.1f us; send and receive warm %.2f ns, cold %.1f ns\n", paths[which],
               middle(found[which][0], PROCESSES) / 1e6, middle(found[which][1], PROCESSES) / 1e3,
               middle(found[which][2], PROCESSES) / 1e3);
}

int main(int count, char **words) {
    struct strait s;
    if (count != 4) fail("pairs LIBRARY BYTES, calls LIBRARY BYTES, or time LIBRARY LIBRARY");
    if (!strcmp(words[1], "time")) {
        compare(words[0], words + 2);
        return 0;
    }
    if (!strcmp(words[1], "one")) {
        measure(words[2]);
        return 0;
    }
    size_t bytes = strtoul(words[3], NULL, 10);
    if (bytes > LONGEST) fail("at most 1024 bytes");
    join(&s, load(words[2]));
    /* The first run excludes the effects of first use from most rounds. */
    for (int time = 0; time < 2; time++) measured(&s, bytes, !strcmp(words[1], "calls"));
    for (int rank = 0; rank < 2; rank++) check(&s, s.finalize(s.world[rank]));
    return 0;
}

// Ranks of which each is bound to a processor of its own. None needs the processor of another, so a
// short wait does not sleep: waking up takes longer than the wait.
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/resource.h>

enum { TURNS = 400, COMPUTES_US = 100 };

// Binds this process, before MPI starts, to the processor with its number among the allowed ones.
static int bind_to(int own) {
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (CPU_COUNT(&allowed) < 2)
        return 0;
    CPU_ZERO(&one);
    for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && found++ == own)
            CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static void compute(void) {
    double begin = MPI_Wtime();
    while (MPI_Wtime() - begin < COMPUTES_US * 1e-6)
        ;
}

// Sleeps of this process so far, those of its other threads left out.
static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

int main(int argc, char **argv) {
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    const char *own = NULL;
    for (int i = 0; i < 3 && !own; i++)
        own = getenv(names[i]);
    int bound = own && bind_to(atoi(own));
    begin(&argc, &argv);
    int all;
    MPI_Allreduce(&bound, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    // Elsewhere one processor has both ranks, and sleeping is right.
    if (all && size == 2) {
        long before = sleeps();
        int token = 0;
        for (int turn = 0; turn < TURNS; turn++) {
            if (turn % 2 == rank) {
                compute();
                MPI_Send(&token, 1, MPI_INT, 1 - rank, 3, MPI_COMM_WORLD);
            } else {
                MPI_Recv(&token, 1, MPI_INT, 1 - rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
        CHECK(sleeps() - before < TURNS / 4);
    }
    return end();
}

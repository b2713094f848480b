/* Processes that did not start together. `cargo xtask mpi` runs it under MPICH as
 * `meet accept FILE` and `meet connect FILE`, each by its own mpiexec, and as `meet spawn`. The
 * first two meet by the port name in the file. Prints "all well" once for each job. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define LENGTH 300000

/* Exchanges a short and a long message in both directions between all ranks of both jobs, and
 * makes a window of all. */
static void talk(MPI_Comm others, int high)
{
    MPI_Comm all;
    int there, whole, place, *part;
    MPI_Win window;
    char *out = malloc(LENGTH), *in = malloc(LENGTH);
    MPI_Comm_remote_size(others, &there);
    for (int other = 0; other < there; other++) {
        for (int number = 0; number < 2; number++) {
            int length = number ? LENGTH : 1;
            memset(out, 1 + rank + high * 50, length);
            MPI_Sendrecv(out, length, MPI_CHAR, other, 7, in, length, MPI_CHAR, other, 7, others, MPI_STATUS_IGNORE);
            for (int i = 0; i < length; i++)
                CHECK(in[i] == 1 + other + !high * 50);
        }
    }
    free(out);
    free(in);
    MPI_Intercomm_merge(others, high, &all);
    MPI_Comm_size(all, &whole);
    MPI_Comm_rank(all, &place);
    CHECK(whole == size + there);
    MPI_Win_allocate(whole * sizeof *part, sizeof *part, MPI_INFO_NULL, all, &part, &window);
    memset(part, 0, whole * sizeof *part);
    MPI_Win_fence(0, window);
    for (int other = 0; other < whole; other++)
        MPI_Put(&place, 1, MPI_INT, other, place, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < whole; i++)
        CHECK(part[i] == i);
    MPI_Win_fence(0, window);
    for (int other = 0; other < whole; other++)
        MPI_Accumulate(&place, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    CHECK(part[0] == whole * (whole - 1) / 2);
    MPI_Win_free(&window);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
    if (rank == 0)
        puts("all well");
}

/* Makes the file complete or not at all. */
static void write_port(const char *file, const char *port)
{
    char draft[4096];
    snprintf(draft, sizeof draft, "%s.draft", file);
    FILE *to = fopen(draft, "w");
    CHECK(to && fputs(port, to) >= 0 && fclose(to) == 0 && rename(draft, file) == 0);
}

static void read_port(const char *file, char *port)
{
    FILE *from;
    while ((from = fopen(file, "r")) == NULL)
        usleep(10000);
    CHECK(fgets(port, MPI_MAX_PORT_NAME, from));
    fclose(from);
}

int main(int count, char **arguments)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm others;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&others);
    if (others != MPI_COMM_NULL) {
        talk(others, 1);
    } else if (strcmp(arguments[1], "spawn") == 0) {
        MPI_Comm_spawn(arguments[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
        talk(others, 0);
    } else if (strcmp(arguments[1], "accept") == 0) {
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            write_port(arguments[2], port);
        }
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others);
        if (rank == 0)
            MPI_Close_port(port);
        talk(others, 0);
    } else {
        if (rank == 0)
            read_port(arguments[2], port);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others);
        talk(others, 1);
    }
    MPI_Finalize();
    return 0;
}

// The last rank cannot make shared memory, or cannot reach others. So no rank joins Strait's world,
// all messages are the host's, and none of the ranks waits for another one at the start.
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// Makes a system call fail from now on, if its third argument is at least `least`.
static void refuse(int call, int error, unsigned least) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, least, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter))
        exit(2);
}

// The least length of the address at which a rank on another node is called. Those at which the
// processes of a host meet are shorter.
enum { LONG_ADDRESS = 30 };

// Returns this process's number as its launcher says it.
static int place(void) {
    const char *text = getenv("PMI_RANK") ? getenv("PMI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
    return text ? atoi(text) : -1;
}

int main(int argc, char **argv) {
    if (place() == 3)
        argc > 1 ? refuse(__NR_connect, EACCES, LONG_ADDRESS)
                 : refuse(__NR_memfd_create, EMFILE, 0);
    begin(&argc, &argv);
    CHECK(size == 4 && rank == place());
    int sum = 0, from = -1, next = (rank + 1) % size, before = (rank + 3) % size;
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 0, &from, 1, MPI_INT, before, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(from == before && sum == 6);
    return end();
}

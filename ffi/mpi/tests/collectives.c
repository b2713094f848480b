// Operations of ours that are open while the program is inside a collective operation, of ours or of
// the host. A peer enters that function only after it has received the message, or sent its own.
#include "check.h"

#define W MPI_COMM_WORLD

static void call(int which, MPI_Comm comm, MPI_Comm *made) {
    int own = rank, all[64], counts[64], offsets[64];
    int members;
    MPI_Comm_size(comm, &members);
    for (int i = 0; i < members; i++)
        counts[i] = 1, offsets[i] = i;
    switch (which) {
    case 0: MPI_Barrier(comm); break;
    case 1: MPI_Bcast(&own, 1, MPI_INT, 1, comm); CHECK(own == 1); break;
    case 2: MPI_Gather(&own, 1, MPI_INT, all, 1, MPI_INT, 0, comm); break;
    case 3: MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, comm); CHECK(all[1] == 1); break;
    case 4: MPI_Allreduce(&own, all, 1, MPI_INT, MPI_SUM, comm); CHECK(all[0] == members * (members - 1) / 2); break;
    case 5: MPI_Alltoallv(all, counts, offsets, MPI_INT, all + 32, counts, offsets, MPI_INT, comm); break;
    case 6: MPI_Comm_dup(comm, made); break;
    case 7: MPI_Comm_split(comm, 0, -rank, made); break;
    case 8: { MPI_Win window; MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, comm, &window); MPI_Win_free(&window); break; }
    }
}

int main(int argc, char **argv) {
    enum { BIG = 300000, MANY = 3000, KINDS = 9 };
    begin(&argc, &argv);
    char *data = malloc(BIG), *room = malloc(BIG);
    MPI_Request *request = malloc(MANY * sizeof *request);
    for (int which = 0; which < KINDS; which++)
        for (int turn = 0; turn < 3; turn++) {
            MPI_Comm made = MPI_COMM_NULL;
            int n = turn == 1 ? 64 : BIG, messages = turn == 1 ? MANY : 1;
            if (rank == 0) {
                fill(data, n, which);
                // The receiver takes them before it enters the collective function.
                for (int i = 0; turn < 2 && i < messages; i++)
                    MPI_Isend(data, n, MPI_BYTE, 1, 5, W, &request[i]);
                // Or the sender sends them before it does.
                if (turn == 2)
                    MPI_Irecv(room, n, MPI_BYTE, 1, 5, W, &request[0]);
                call(which, W, &made);
                MPI_Waitall(messages, request, MPI_STATUSES_IGNORE);
                if (turn == 2)
                    CHECK(is_filled(room, n, which));
            } else {
                if (rank == 1)
                    usleep(3000);
                if (rank == 1 && turn == 2) {
                    fill(data, n, which);
                    MPI_Ssend(data, n, MPI_BYTE, 0, 5, W);
                }
                for (int i = 0; rank == 1 && turn < 2 && i < messages; i++) {
                    MPI_Recv(room, n, MPI_BYTE, 0, 5, W, MPI_STATUS_IGNORE);
                    CHECK(is_filled(room, n, which));
                }
                call(which, W, &made);
            }
            if (made != MPI_COMM_NULL)
                MPI_Comm_free(&made);
        }
    return end();
}

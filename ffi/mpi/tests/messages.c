// Every function of point-to-point communication, with verified data. For two ranks or more: rank 0
// and rank 1 exchange messages, the others wait.
#include "check.h"

#define W MPI_COMM_WORLD
enum { MANY = 40, BIG = 3 << 20 };
static unsigned char *out, *in;

static int got(const MPI_Status *status) {
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    return count;
}

static void lengths(void) {
    static const int length[] = {0, 1, 7, 8, 9, 40, 48, 49, 63, 64, 200, 1024, 1025, 5000, 20000, 70000, BIG};
    for (unsigned i = 0; i < sizeof length / sizeof *length; i++) {
        MPI_Status status;
        int n = length[i];
        if (rank == 0) {
            fill(out, n, i);
            MPI_Send(out, n, MPI_BYTE, 1, i, W);
            MPI_Ssend(out, n, MPI_BYTE, 1, i, W);
            MPI_Rsend(out, n, MPI_BYTE, 1, i, W);
        } else {
            for (int kind = 0; kind < 3; kind++) {
                memset(in, 0, n + 1);
                MPI_Recv(in, n + 1, MPI_BYTE, kind == 1 ? MPI_ANY_SOURCE : 0, kind == 2 ? MPI_ANY_TAG : (int)i, W, &status);
                CHECK(is_filled(in, n, i) && in[n] == 0);
                CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == (int)i && got(&status) == n);
                int cancelled = 1;
                MPI_Test_cancelled(&status, &cancelled);
                CHECK(!cancelled);
            }
        }
    }
}

static void windows(void) {
    for (int n = 8; n <= 40000; n *= 17) {
        MPI_Request request[MANY];
        MPI_Status status[MANY];
        for (int i = 0; i < MANY; i++)
            if (rank == 0) {
                fill(out + i * n, n, i);
                MPI_Isend(out + i * n, n, MPI_BYTE, 1, MANY - i, W, &request[i]);
            } else
                MPI_Irecv(in + i * n, n, MPI_BYTE, 0, i + 1, W, &request[i]);
        MPI_Waitall(MANY, request, status);
        for (int i = 0; i < MANY; i++) {
            CHECK(request[i] == MPI_REQUEST_NULL);
            if (rank == 1) {
                CHECK(is_filled(in + i * n, n, MANY - i - 1));
                CHECK(got(&status[i]) == n && status[i].MPI_TAG == i + 1);
            }
        }
    }
}

// Ends requests in each way that there is. Some requests are the host's: those of Ibarrier.
static void completion(void) {
    for (int way = 0; way < 9; way++) {
        enum { N = 12 };
        MPI_Request request[N];
        MPI_Status status[N], one;
        int done[N] = {0}, indices[N], count, flag, index, left = N, n = way % 2 ? 30000 : 16;
        for (int i = 0; i < N; i++)
            if (i % 4 == 3)
                MPI_Ibarrier(W, &request[i]);
            else if (rank == 0) {
                fill(out + i * n, n, i + way);
                MPI_Isend(out + i * n, n, MPI_BYTE, 1, i, W, &request[i]);
            } else
                MPI_Irecv(in + i * n, n, MPI_BYTE, 0, i, W, &request[i]);
        if (way == 8) {
            MPI_Request_free(&request[0]);
            CHECK(request[0] == MPI_REQUEST_NULL);
            left--, done[0] = 1;
        }
        while (left > 0) {
            switch (way) {
            case 0:
            case 8:
                for (int i = 0; i < N; i++)
                    if (!done[i])
                        MPI_Wait(&request[i], &status[i]), done[i] = 1, left--;
                break;
            case 1:
                for (int i = 0; i < N; i++)
                    if (!done[i]) {
                        MPI_Test(&request[i], &flag, &status[i]);
                        CHECK(!flag || request[i] == MPI_REQUEST_NULL);
                        if (flag)
                            done[i] = 1, left--;
                    }
                break;
            case 2:
                MPI_Waitany(N, request, &index, &one);
                CHECK(index >= 0 && index < N && !done[index]);
                status[index] = one, done[index] = 1, left--;
                break;
            case 3:
                MPI_Testany(N, request, &index, &flag, &one);
                if (flag) {
                    CHECK(index >= 0 && index < N && !done[index]);
                    status[index] = one, done[index] = 1, left--;
                }
                break;
            case 4:
                MPI_Waitall(N, request, status), left = 0;
                break;
            case 5:
                MPI_Testall(N, request, &flag, status);
                left = flag ? 0 : left;
                break;
            case 6:
            case 7: {
                MPI_Status some[N];
                if (way == 6)
                    MPI_Waitsome(N, request, &count, indices, some);
                else
                    MPI_Testsome(N, request, &count, indices, some);
                CHECK(count != MPI_UNDEFINED && (way == 7 || count > 0));
                for (int i = 0; i < count; i++) {
                    CHECK(!done[indices[i]]);
                    done[indices[i]] = 1, status[indices[i]] = some[i], left--;
                }
            }
            }
        }
        for (int i = way == 8; i < N; i++) {
            CHECK(request[i] == MPI_REQUEST_NULL);
            if (rank == 1 && i % 4 != 3) {
                CHECK(is_filled(in + i * n, n, i + way));
                CHECK(got(&status[i]) == n && status[i].MPI_TAG == i && status[i].MPI_SOURCE == 0);
            }
        }
        MPI_Waitany(N, request, &index, &one);
        CHECK(index == MPI_UNDEFINED);
        MPI_Testsome(N, request, &count, indices, status);
        CHECK(count == MPI_UNDEFINED);
        MPI_Barrier(W);
    }
}

static void probes(void) {
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag = 0;
    for (int n = 5; n < 100000; n *= 99) {
        if (rank == 0) {
            fill(out, n, n);
            for (int i = 0; i < 5; i++)
                MPI_Send(out, n, MPI_BYTE, 1, 10 + i, W);
            continue;
        }
        MPI_Probe(0, 10, W, &status);
        CHECK(got(&status) == n && status.MPI_TAG == 10);
        MPI_Recv(in, n, MPI_BYTE, 0, 10, W, MPI_STATUS_IGNORE);
        for (flag = 0; !flag;)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, W, &flag, &status);
        CHECK(got(&status) == n && status.MPI_TAG == 11 && status.MPI_SOURCE == 0);
        MPI_Mprobe(MPI_ANY_SOURCE, 11, W, &message, &status);
        CHECK(got(&status) == n && message != MPI_MESSAGE_NULL);
        memset(in, 0, n);
        MPI_Mrecv(in, n, MPI_BYTE, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL && got(&status) == n && is_filled(in, n, n));
        for (flag = 0; !flag;)
            MPI_Improbe(0, 12, W, &flag, &message, &status);
        memset(in, 0, n);
        MPI_Imrecv(in, n, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &status);
        CHECK(status.MPI_TAG == 12 && got(&status) == n && is_filled(in, n, n));
        // Out of order, where the sender does not wait for the receive.
        MPI_Recv(in, n, MPI_BYTE, 0, n < 1000 ? 14 : 13, W, MPI_STATUS_IGNORE);
        MPI_Recv(in, n, MPI_BYTE, 0, n < 1000 ? 13 : 14, W, MPI_STATUS_IGNORE);
    }
}

static void no_process(void) {
    MPI_Status status;
    MPI_Request request[2];
    MPI_Message message;
    int flag = 0;
    MPI_Send(out, 5, MPI_BYTE, MPI_PROC_NULL, 0, W);
    MPI_Recv(in, 5, MPI_BYTE, MPI_PROC_NULL, MPI_ANY_TAG, W, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && got(&status) == 0);
    MPI_Isend(out, 5, MPI_BYTE, MPI_PROC_NULL, 0, W, &request[0]);
    MPI_Irecv(in, 5, MPI_BYTE, MPI_PROC_NULL, 0, W, &request[1]);
    MPI_Wait(&request[1], &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && got(&status) == 0);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    MPI_Probe(MPI_PROC_NULL, 0, W, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Improbe(MPI_PROC_NULL, 0, W, &flag, &message, &status);
    CHECK(flag && message == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(in, 5, MPI_BYTE, &message, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && message == MPI_MESSAGE_NULL);
    MPI_Sendrecv(out, 1, MPI_BYTE, MPI_PROC_NULL, 0, in, 1, MPI_BYTE, MPI_PROC_NULL, 0, W, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
}

static void both_ways(void) {
    int other = 1 - rank;
    MPI_Status status;
    for (int n = 6; n < 2000000; n *= 50) {
        fill(out, n, rank + n);
        MPI_Sendrecv(out, n, MPI_BYTE, other, 3, in, n + 5, MPI_BYTE, other, 3, W, &status);
        CHECK(is_filled(in, n, other + n) && got(&status) == n && status.MPI_SOURCE == other);
        MPI_Sendrecv_replace(out, n, MPI_BYTE, other, 4, other, MPI_ANY_TAG, W, &status);
        CHECK(is_filled(out, n, other + n) && status.MPI_TAG == 4);
        // To itself.
        MPI_Sendrecv(out, n, MPI_BYTE, rank, 5, in, n, MPI_BYTE, rank, 5, W, &status);
        CHECK(is_filled(in, n, other + n) && status.MPI_SOURCE == rank);
        MPI_Sendrecv_replace(out, n, MPI_BYTE, rank, 5, MPI_ANY_SOURCE, 5, W, &status);
        CHECK(is_filled(out, n, other + n) && status.MPI_SOURCE == rank && got(&status) == n);
        // One half each, with messages that do not wait for their receives.
        if (n < 20000) {
            MPI_Sendrecv(out, n, MPI_BYTE, other, 6, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 6, W, &status);
            CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
            MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 6, in, n, MPI_BYTE, MPI_ANY_SOURCE, 6, W, &status);
            CHECK(is_filled(in, n, rank + n) && status.MPI_SOURCE == other && got(&status) == n);
        }
#if MPI_VERSION >= 4
        MPI_Request request;
        fill(out, n, rank + n);
        MPI_Isendrecv(out, n, MPI_BYTE, other, 3, in, n, MPI_BYTE, other, 3, W, &request);
        MPI_Wait(&request, &status);
        CHECK(is_filled(in, n, other + n) && got(&status) == n && status.MPI_SOURCE == other);
        MPI_Isendrecv_replace(out, n, MPI_BYTE, other, 4, other, 4, W, &request);
        MPI_Wait(&request, &status);
        CHECK(is_filled(out, n, other + n) && status.MPI_TAG == 4);
        fill(out, n, rank);
        MPI_Sendrecv_c(out, (MPI_Count)n, MPI_BYTE, other, 3, in, (MPI_Count)n, MPI_BYTE, other, 3, W, &status);
        CHECK(is_filled(in, n, other));
#endif
    }
}

static void persistent(void) {
    enum { N = 6 };
    for (int n = 8; n < 100000; n *= 1000) {
        MPI_Request request[N];
        MPI_Status status[N];
        for (int i = 0; i < N; i++)
            if (rank == 0)
                (i == 1   ? MPI_Ssend_init
                 : i == 2 ? MPI_Bsend_init
                          : MPI_Send_init)(out + i * n, n, MPI_BYTE, i == 5 ? MPI_PROC_NULL : 1, i, W, &request[i]);
            else
                MPI_Recv_init(in + i * n, n, MPI_BYTE, i == 5 ? MPI_PROC_NULL : MPI_ANY_SOURCE, i, W, &request[i]);
        int flag = 0, index;
        MPI_Test(&request[0], &flag, &status[0]);
        CHECK(flag && request[0] != MPI_REQUEST_NULL);
        MPI_Waitany(N, request, &index, &status[0]);
        CHECK(index == MPI_UNDEFINED);
        for (int turn = 0; turn < 4; turn++) {
            if (rank == 0)
                fill(out, N * n, turn);
            else
                memset(in, 0, N * n);
            if (turn % 2)
                MPI_Startall(N, request);
            else
                for (int i = 0; i < N; i++)
                    MPI_Start(&request[i]);
            if (turn < 2)
                MPI_Waitall(N, request, status);
            else
                for (int i = 0; i < N; i++) {
                    MPI_Waitany(N, request, &index, &status[0]);
                    CHECK(index != MPI_UNDEFINED);
                }
            for (int i = 0; i < N; i++)
                CHECK(request[i] != MPI_REQUEST_NULL);
            if (rank == 1)
                CHECK(is_filled(in, (N - 1) * n, turn));
        }
        for (int i = 0; i < N; i++) {
            MPI_Request_free(&request[i]);
            CHECK(request[i] == MPI_REQUEST_NULL);
        }
    }
}

// One persistent request at a time: its status, a start that is cancelled, and a freed datatype,
// of which another type may have got the handle.
static void persistent_alone(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Datatype four, other;
    int flag;
    MPI_Type_contiguous(4, MPI_BYTE, &four);
    MPI_Type_commit(&four);
    if (rank == 0)
        MPI_Send_init(out, 2, four, 1, 3, W, &request);
    else
        MPI_Recv_init(in, 2, four, 0, MPI_ANY_TAG, W, &request);
    MPI_Type_free(&four);
    MPI_Type_contiguous(100, MPI_BYTE, &other);
    MPI_Type_commit(&other);
    for (int turn = 0; turn < 8; turn++) {
        if (turn == 4 && rank == 1) {
            MPI_Start(&request);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag && request != MPI_REQUEST_NULL);
        }
        MPI_Barrier(W);
        fill(out, 8, turn);
        memset(in, 0, 16);
        MPI_Start(&request);
        if (turn % 2)
            MPI_Wait(&request, &status);
        else
            for (flag = 0; !flag;)
                MPI_Test(&request, &flag, &status);
        if (rank == 1) {
            CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 3 && got(&status) == 8);
            CHECK(is_filled(in, 8, turn) && in[8] == 0);
        }
        // A request that is not active has the empty status.
        MPI_Wait(&request, &status);
        CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && got(&status) == 0);
    }
    MPI_Request_free(&request);
    MPI_Type_free(&other);
}

static void buffered(void) {
    static char room[1 << 20];
    MPI_Request request;
    void *old;
    int bytes;
    MPI_Buffer_attach(room, sizeof room);
    for (int n = 10; n < 200000; n *= 90) {
        if (rank == 0) {
            fill(out, n, n);
            MPI_Bsend(out, n, MPI_BYTE, 1, 1, W);
            fill(out, n, n + 1);
            MPI_Ibsend(out, n, MPI_BYTE, 1, 2, W, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            memset(out, 0, n);
            MPI_Barrier(W);
        } else {
            MPI_Barrier(W);
            MPI_Recv(in, n, MPI_BYTE, 0, 2, W, MPI_STATUS_IGNORE);
            CHECK(is_filled(in, n, n + 1));
            MPI_Recv(in, n, MPI_BYTE, 0, 1, W, MPI_STATUS_IGNORE);
            CHECK(is_filled(in, n, n));
        }
    }
    MPI_Buffer_detach(&old, &bytes);
    CHECK(old == (void *)room && bytes == sizeof room);
}

static void cancelled(void) {
    MPI_Request request;
    MPI_Status status;
    int flag = 0;
    MPI_Irecv(in, 10, MPI_BYTE, 1 - rank, 77, W, &request);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(!flag);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    // One test finds the end, as programs expect that know their MPI.
    MPI_Irecv(in, 10, MPI_BYTE, 1 - rank, 77, W, &request);
    MPI_Cancel(&request);
    MPI_Test(&request, &flag, &status);
    CHECK(flag && request == MPI_REQUEST_NULL);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    // A freed receive still receives.
    if (rank == 1) {
        memset(in, 0, 10);
        MPI_Irecv(in, 10, MPI_BYTE, 0, 78, W, &request);
        MPI_Request_get_status(request, &flag, &status);
        MPI_Request_free(&request);
    }
    MPI_Barrier(W);
    if (rank == 0) {
        fill(out, 10, 5);
        MPI_Send(out, 10, MPI_BYTE, 1, 78, W);
        MPI_Send(out, 1, MPI_BYTE, 1, 79, W);
    } else {
        MPI_Recv(in + 20, 1, MPI_BYTE, 0, 79, W, MPI_STATUS_IGNORE);
        CHECK(is_filled(in, 10, 5));
    }
}

static void get_status(void) {
    MPI_Request request;
    MPI_Status status;
    int flag = 0;
    if (rank == 0) {
        fill(out, 5000, 9);
        MPI_Send(out, 5000, MPI_BYTE, 1, 6, W);
        return;
    }
    MPI_Irecv(in, 6000, MPI_BYTE, 0, 6, W, &request);
    while (!flag)
        MPI_Request_get_status(request, &flag, &status);
    CHECK(got(&status) == 5000 && request != MPI_REQUEST_NULL);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(flag && got(&status) == 5000);
    MPI_Wait(&request, &status);
    CHECK(got(&status) == 5000 && is_filled(in, 5000, 9));
}

static int query(void *state, MPI_Status *status) {
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 42);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = 4242;
    return MPI_SUCCESS;
}
static int forget(void *state) { return (void)state, MPI_SUCCESS; }
static int stop(void *state, int done) { return (void)state, (void)done, MPI_SUCCESS; }

static void generalized(void) {
    MPI_Request request[3];
    MPI_Status status[3];
    int other = 1 - rank;
    MPI_Grequest_start(query, forget, stop, NULL, &request[1]);
    MPI_Irecv(in, 8, MPI_BYTE, other, 8, W, &request[0]);
    MPI_Isend(out, 8, MPI_BYTE, other, 8, W, &request[2]);
    MPI_Grequest_complete(request[1]);
    MPI_Waitall(3, request, status);
    CHECK(status[1].MPI_TAG == 4242 && got(&status[1]) == 42 && got(&status[0]) == 8);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    out = malloc(MANY * 140000), in = malloc(MANY * 140000);
    memset(out, 0, MANY * 140000);
    if (rank < 2) {
        lengths();
        windows();
    }
    MPI_Barrier(W);
    if (size == 2) {
        completion();
        probes();
        no_process();
        both_ways();
        persistent();
        persistent_alone();
        buffered();
        cancelled();
        get_status();
        generalized();
    }
    return end();
}

// Functions that block in the host: operations of ours go on meanwhile. Rank 0 enters the function
// with an operation of ours open. Rank 1 enters it, or does what it waits for, only after that
// operation has ended. Arguments choose the first function and the last.
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/socket.h>

#define W MPI_COMM_WORLD

enum { BIG = 300000 };

static char *message, *room;
// What `MPI_Comm_idup` makes is the host's, and so are its windows.
static MPI_Comm hosts;
static MPI_Win win;
static int *base;
static MPI_File file;
static int large;
static char name[64];

// The call of a name, or of its form with large counts where the host has it.
#define F(name, ...)                                                                               \
    do {                                                                                           \
        int (*form)() = large ? dlsym(RTLD_DEFAULT, #name "_c") : NULL;                            \
        int code = form ? form(__VA_ARGS__) : name(__VA_ARGS__);                                   \
        CHECK(code == MPI_SUCCESS);                                                                \
    } while (0)
#define ONE ((MPI_Aint)1)

// Rank 0 begins with an open operation, and rank 1 with its end.
static void open_operation(MPI_Request *request, int turn) {
    if (rank == 0 && turn == 0)
        fill(message, BIG, 1), MPI_Isend(message, BIG, MPI_BYTE, 1, 5, W, request);
    else if (rank == 0)
        MPI_Irecv(room, BIG, MPI_BYTE, 1, 5, W, request);
}

static void end_operation(int turn) {
    if (rank != 1)
        return;
    usleep(2000);
    if (turn == 0)
        MPI_Recv(room, BIG, MPI_BYTE, 0, 5, W, MPI_STATUS_IGNORE);
    else
        fill(message, BIG, 1), MPI_Ssend(message, BIG, MPI_BYTE, 0, 5, W);
}

static MPI_Group only(int member) {
    MPI_Group all, one;
    MPI_Comm_group(hosts, &all);
    MPI_Group_incl(all, 1, &member, &one);
    MPI_Group_free(&all);
    return one;
}

// Synchronisation of a window. What rank 0 waits for, rank 1 does last.
static void window(int which, int turn) {
    int value = 7;
    MPI_Group group;
    switch (which) {
    case 0:
        end_operation(turn), MPI_Win_fence(0, win);
        break;
    case 1:
    case 2:
        // Rank 1 has a lock while the message is open.
        if (rank == 1) {
            end_operation(turn);
            MPI_Win_unlock(2 - which, win);
        } else if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2 - which, 0, win);
            MPI_Put(&value, 1, MPI_INT, 2 - which, 0, 1, MPI_INT, win);
            MPI_Win_flush(2 - which, win);
            MPI_Win_unlock(2 - which, win);
        }
        break;
    case 3:
        if (rank == 1) {
            end_operation(turn);
            MPI_Win_unlock(1, win);
        } else if (rank == 0) {
            MPI_Win_lock_all(0, win);
            MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
            MPI_Win_flush_all(win), MPI_Win_unlock_all(win);
        }
        break;
    case 4:
        group = only(rank == 0);
        if (rank == 0) {
            MPI_Win_start(group, 0, win);
            for (int i = 0; i < 300; i++)
                MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
            MPI_Win_complete(win);
        } else if (rank == 1) {
            end_operation(turn);
            MPI_Win_post(group, 0, win), MPI_Win_wait(win);
        }
        MPI_Group_free(&group);
        break;
    case 5:
        group = only(rank == 0);
        if (rank == 0) {
            MPI_Win_post(group, 0, win), MPI_Win_wait(win);
        } else if (rank == 1) {
            end_operation(turn);
            MPI_Win_start(group, 0, win);
            MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
            MPI_Win_complete(win);
        }
        MPI_Group_free(&group);
        break;
    }
}

// Collective functions on files.
static void on_file(int which) {
    int own[4] = {rank, rank, rank, rank}, read[4];
    MPI_Status status;
    MPI_Info info;
    switch (which) {
    case 0: F(MPI_File_write_ordered, file, own, ONE, MPI_INT, &status); break;
    case 1: F(MPI_File_read_ordered, file, read, ONE, MPI_INT, &status); break;
    case 2: F(MPI_File_write_all, file, own, ONE, MPI_INT, &status); break;
    case 3: F(MPI_File_read_all, file, read, ONE, MPI_INT, &status); break;
    case 4: F(MPI_File_write_at_all, file, (MPI_Offset)(rank * 4), own, ONE, MPI_INT, &status); break;
    case 5: F(MPI_File_read_at_all, file, (MPI_Offset)(rank * 4), read, ONE, MPI_INT, &status); break;
    case 6: F(MPI_File_write_all_begin, file, own, ONE, MPI_INT); MPI_File_write_all_end(file, own, &status); break;
    case 7: F(MPI_File_read_all_begin, file, read, ONE, MPI_INT); MPI_File_read_all_end(file, read, &status); break;
    case 8: F(MPI_File_write_at_all_begin, file, (MPI_Offset)(rank * 4), own, ONE, MPI_INT); MPI_File_write_at_all_end(file, own, &status); break;
    case 9: F(MPI_File_read_at_all_begin, file, (MPI_Offset)(rank * 4), read, ONE, MPI_INT); MPI_File_read_at_all_end(file, read, &status); break;
    case 10: F(MPI_File_write_ordered_begin, file, own, ONE, MPI_INT); MPI_File_write_ordered_end(file, own, &status); break;
    case 11: F(MPI_File_read_ordered_begin, file, read, ONE, MPI_INT); MPI_File_read_ordered_end(file, read, &status); break;
    case 12: MPI_File_seek_shared(file, 0, MPI_SEEK_SET); break;
    case 13: MPI_File_set_atomicity(file, 1), MPI_File_set_atomicity(file, 0); break;
    case 14: MPI_Info_create(&info), MPI_File_set_info(file, info), MPI_Info_free(&info); break;
    case 15: MPI_File_set_size(file, 4096), MPI_File_preallocate(file, 4096), MPI_File_sync(file); break;
    case 16: MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL); break;
    }
}

// Collective functions on communicators and windows.
static void on_comm(int which) {
    MPI_Info info;
    MPI_Comm made = MPI_COMM_NULL, half;
    MPI_Win another;
    MPI_Request request = MPI_REQUEST_NULL;
    int one = rank, sum[3];
    switch (which) {
    case 0: MPI_Info_create(&info), MPI_Comm_set_info(W, info), MPI_Info_free(&info); break;
    case 1: MPI_Info_create(&info), MPI_Win_set_info(win, info), MPI_Info_free(&info); break;
    case 2:
        MPI_Comm_split(W, rank == 0, rank, &half);
        MPI_Intercomm_create(half, 0, W, rank == 0, 7, &made);
        MPI_Comm_free(&half);
        break;
    case 3: MPI_Win_create(&one, 4, 4, MPI_INFO_NULL, hosts, &another), MPI_Win_free(&another); break;
    case 4: MPI_Allreduce(&one, sum, 1, MPI_INT, MPI_SUM, hosts); CHECK(sum[0] == size * (size - 1) / 2); break;
    case 5: MPI_Comm_dup(hosts, &made); break;
#if MPI_VERSION >= 4
    case 6: MPI_Barrier_init(W, MPI_INFO_NULL, &request), MPI_Request_free(&request); break;
    case 7: F(MPI_Allgather_init, &one, ONE, MPI_INT, sum, ONE, MPI_INT, W, MPI_INFO_NULL, &request); MPI_Request_free(&request); break;
    case 8: F(MPI_Allreduce_init, &one, sum, ONE, MPI_INT, MPI_SUM, hosts, MPI_INFO_NULL, &request); MPI_Request_free(&request); break;
    case 9: {
        MPI_Group all, own;
        MPI_Comm_split(W, rank == 0, rank, &half);
        MPI_Comm_group(half, &own);
        MPI_Comm_group(W, &all);
        int ranks[2] = {0, 1};
        MPI_Group lone, rest;
        MPI_Group_incl(all, 1, ranks, &lone), MPI_Group_excl(all, 1, ranks, &rest);
        MPI_Intercomm_create_from_groups(rank == 0 ? lone : rest, 0, rank == 0 ? rest : lone, 0, "tag", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
        MPI_Group_free(&all), MPI_Group_free(&own), MPI_Group_free(&lone), MPI_Group_free(&rest), MPI_Comm_free(&half);
        break;
    }
#endif
    }
    if (made != MPI_COMM_NULL)
        MPI_Comm_free(&made);
}

// Only MPICH joins processes here: the others wait for ever, also without the front. MPICH needs a
// port, which it has over libfabric but not over UCX.
static int can_join(void) {
    static int known = -1;
    char port[MPI_MAX_PORT_NAME];
    if (known < 0) {
        MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        known = is_host("MPICH") && MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS;
        if (known)
            MPI_Close_port(port);
        else if (rank == 0)
            fprintf(stderr, "NOT RUN: MPI_Comm_join, which this host cannot carry out\n");
        MPI_Comm_set_errhandler(W, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    }
    return known;
}

// Ranks 0 and 1 meet by a socket.
static void join(int turn) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    MPI_Comm made;
    if (rank == 0) {
        CHECK(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
        getsockname(listener, (void *)&at, &length);
        MPI_Send(&at, sizeof at, MPI_BYTE, 1, 6, W);
        fd = accept(listener, NULL, NULL);
        CHECK(MPI_Comm_join(fd, &made) == MPI_SUCCESS);
    } else {
        MPI_Recv(&at, sizeof at, MPI_BYTE, 0, 6, W, MPI_STATUS_IGNORE);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (void *)&at, sizeof at) == 0);
        end_operation(turn);
        CHECK(MPI_Comm_join(fd, &made) == MPI_SUCCESS);
    }
    if (made != MPI_COMM_NULL)
        MPI_Comm_disconnect(&made);
    close(fd), close(listener);
}

enum { WINDOWS = 6, FILES = 17, COMMS = 10, ALL = WINDOWS + FILES + COMMS + 1 };

static void call(int which, int turn) {
    if (which < WINDOWS) {
        window(which, turn);
    } else if (which < WINDOWS + FILES + COMMS) {
        end_operation(turn);
        which < WINDOWS + FILES ? on_file(which - WINDOWS) : on_comm(which - WINDOWS - FILES);
    } else if (rank < 2 && can_join()) {
        join(turn);
    } else {
        end_operation(turn);
    }
}

// Gives rank 1 the lock that rank 0 will wait for.
static void prepare(int which) {
    int value = 3, target = which == 2 ? 0 : 1;
    if (rank == 1 && which >= 1 && which <= 3) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Put(&value, 1, MPI_INT, target, 1, 1, MPI_INT, win);
        MPI_Win_flush(target, win);
    }
    MPI_Barrier(W);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Request request;
    int first = argc > 1 ? atoi(argv[1]) : 0, last = argc > 2 ? atoi(argv[2]) : argc > 1 ? first : ALL - 1;
    message = malloc(BIG), room = malloc(BIG);
    MPI_Comm_idup(W, &hosts, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, hosts, &base, &win);
    if (rank == 0) {
        snprintf(name, sizeof name, "/tmp/strait-host-waits-%d", (int)getpid());
        FILE *filled = fopen(name, "w");
        CHECK(filled && fwrite(room, 1, BIG, filled) == BIG && fclose(filled) == 0);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, W);
    MPI_File_open(W, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    for (int which = first; which <= last; which++)
        for (int turn = 0; turn < 4; turn++) {
            MPI_Request open = MPI_REQUEST_NULL;
            large = turn / 2;
            prepare(which);
            open_operation(&open, turn % 2);
            call(which, turn % 2);
            MPI_Wait(&open, MPI_STATUS_IGNORE);
            if (rank == 1 - turn % 2)
                CHECK(is_filled(room, BIG, 1));
            MPI_Barrier(W);
            if (which == 0)
                MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        }
    MPI_File_close(&file);
    MPI_Win_free(&win);
    MPI_Comm_free(&hosts);
    return end();
}

// The last rank is killed while the others wait in a call of a window, or before they call. Each of
// them gets an error through the window's handler, and none waits for ever. Only a call that has
// nothing to wait for may succeed. The launcher must not end them. The first argument chooses the
// call. The file that the second names gets a byte for each rank that is through.
#include "check.h"
#include <signal.h>

enum { FENCE, LOCK, LOCK_BEHIND, FLUSH, START, COMPLETE, WAIT, TEST, LOCK_ALL, FREE, CREATE };

static int handled;

static void handler(MPI_Win *win, int *code, ...) {
    (void)win;
    handled += *code != MPI_SUCCESS;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    alarm(20);
    int which = atoi(argv[1]), last = size - 1, *base, value = 5, result = -1, code = MPI_SUCCESS;
    MPI_Win win, other;
    MPI_Errhandler errhandler;
    MPI_Group all, peers;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_create_errhandler(handler, &errhandler);
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, errhandler);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &rank, &peers);
    if (which == FENCE)
        MPI_Win_fence(0, win);
    // The last rank has a lock of its own memory, or of that of rank 0.
    int locked = which == LOCK_BEHIND ? 0 : last;
    if (rank == last && (which == LOCK || which == LOCK_BEHIND)) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, locked, 0, win);
        MPI_Win_flush(locked, win);
    }
    if (which == FLUSH)
        MPI_Win_lock_all(0, win);
    // The last rank posts for the others, which have an epoch when it dies, or it does not.
    if (which == COMPLETE && rank == last)
        MPI_Win_post(peers, 0, win);
    if (which == COMPLETE && rank != last) {
        MPI_Group only;
        MPI_Group_incl(all, 1, &last, &only);
        MPI_Win_start(only, 0, win);
        MPI_Put(&value, 1, MPI_INT, last, rank, 1, MPI_INT, win);
    }
    if ((which == WAIT || which == TEST) && rank != last) {
        MPI_Group only;
        MPI_Group_incl(all, 1, &last, &only);
        MPI_Win_post(only, 0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last) {
        usleep(60000);
        raise(SIGKILL);
    }
    // Rank 0 is in the call when the last one dies, rank 1 comes later.
    if (rank == 1)
        usleep(150000);
    switch (which) {
    case FENCE: code = MPI_Win_fence(0, win); break;
    case LOCK:
        code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush(last, win);
        break;
    case LOCK_BEHIND: {
        // The lock of a living rank: its holder's death frees it.
        code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        CHECK(code == MPI_SUCCESS && handled == 0);
        base[1] = rank;
        CHECK(MPI_Win_unlock(0, win) == MPI_SUCCESS);
        handled = 1, code = MPI_ERR_OTHER;
        break;
    }
    case FLUSH:
        while (code == MPI_SUCCESS) {
            code = MPI_Fetch_and_op(&value, &result, MPI_INT, last, 0, MPI_SUM, win);
            if (code == MPI_SUCCESS)
                code = MPI_Win_flush(last, win);
            usleep(100);
        }
        break;
    case START:
        code = MPI_Win_start(peers, 0, win);
        if (code == MPI_SUCCESS)
            code = MPI_Put(&value, 1, MPI_INT, last, 0, 1, MPI_INT, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_complete(win);
        break;
    case COMPLETE:
        usleep(100000);
        MPI_Put(&value, 1, MPI_INT, last, rank, 1, MPI_INT, win);
        code = MPI_Win_complete(win);
        break;
    case WAIT: code = MPI_Win_wait(win); break;
    case TEST: for (int flag = 0; !flag && code == MPI_SUCCESS;) code = MPI_Win_test(win, &flag); break;
    case LOCK_ALL:
        code = MPI_Win_lock_all(0, win);
        for (int turn = 0; turn < 5000 && code == MPI_SUCCESS; turn++)
            code = MPI_Win_flush_all(win), usleep(100);
        break;
    case FREE: code = MPI_Win_free(&win); break;
    case CREATE:
        code = MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &other);
        handled = 1;
        break;
    }
    // What was put is in memory that outlives its owner, and nothing is left to flush.
    int may_succeed = which == COMPLETE || which == LOCK_ALL;
    if (!(may_succeed || (code != MPI_SUCCESS && handled > 0))) {
        fprintf(stderr, "call %d: rank %d: code %d, handled %d\n", which, rank, code, handled);
        _exit(4);
    }
    FILE *known = argc > 2 ? fopen(argv[2], "a") : NULL;
    if (known)
        fputs("x", known), fclose(known);
    _exit(3);
}

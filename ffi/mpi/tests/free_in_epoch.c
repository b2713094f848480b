// Says whether the MPI, without the front, refuses to free a window in an epoch, which the standard
// forbids: "refused", "freed", or what happened in each kind of epoch if they differ.
#include "check.h"

static int called, class;

static void handler(MPI_Win *win, int *code, ...) {
    (void)win;
    called++;
    MPI_Error_class(*code, &class);
}

enum { LOCK, LOCK_ALL, POST, START, COMPLETE, KINDS };

static void begin_epoch(int kind, int other, MPI_Group peer, MPI_Win win) {
    if (kind == LOCK)
        MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    else if (kind == LOCK_ALL)
        MPI_Win_lock_all(0, win);
    else
        MPI_Win_post(peer, 0, win);
    if (kind == START || kind == COMPLETE)
        MPI_Win_start(peer, 0, win);
    if (kind == COMPLETE)
        MPI_Win_complete(win);
}

static void end_epoch(int kind, int other, MPI_Group peer, MPI_Win win) {
    if (kind == LOCK)
        MPI_Win_unlock(other, win);
    if (kind == LOCK_ALL)
        MPI_Win_unlock_all(win);
    if (kind == POST)
        MPI_Win_start(peer, 0, win);
    if (kind == POST || kind == START)
        MPI_Win_complete(win);
    if (kind == POST || kind == START || kind == COMPLETE)
        MPI_Win_wait(win);
}

// Returns whether the window stayed, and its handler got the error.
static int is_refused(int kind, int other, MPI_Group peer) {
    MPI_Win win, kept;
    MPI_Errhandler errhandler;
    int *base;
    // One for each window: MPICH 5 gives a handler up where it refuses to free a window.
    MPI_Win_create_errhandler(handler, &errhandler);
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, errhandler);
    begin_epoch(kind, other, peer, win);
    // A member that frees its window and one that does not would wait for each other.
    MPI_Barrier(MPI_COMM_WORLD);
    called = 0, class = 0, kept = win;
    // MPICH 5 returns success after it has called the handler.
    MPI_Win_free(&kept);
    if (kept == MPI_WIN_NULL) {
        CHECK(called == 0);
        return 0;
    }
    CHECK(kept == win && called == 1 && class == MPI_ERR_RMA_SYNC);
    MPI_Barrier(MPI_COMM_WORLD);
    end_epoch(kind, other, peer, win);
    MPI_Win_free(&win);
    return 1;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int other = 1 - rank, refused[KINDS], count = 0;
    MPI_Group all, peer;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &other, &peer);
    for (int kind = 0; kind < KINDS; kind++)
        count += refused[kind] = is_refused(kind, other, peer);
    MPI_Group_free(&peer), MPI_Group_free(&all);
    MPI_Finalize();
    if (rank != 0)
        return 0;
    if (count == 0 || count == KINDS)
        return puts(count ? "refused" : "freed"), 0;
    for (int kind = 0; kind < KINDS; kind++)
        printf("kind %d: %s\n", kind, refused[kind] ? "refused" : "freed");
    return 0;
}

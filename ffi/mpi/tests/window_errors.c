// Errors of windows reach the window's handler, with the class that the host has for them.
#include "check.h"

static int called, class;

static void handler(MPI_Win *win, int *code, ...) {
    (void)win;
    called++;
    MPI_Error_class(*code, &class);
}

static int is(int code, int wanted) {
    int found;
    MPI_Error_class(code, &found);
    int fits = called == 1 && class == wanted && found == wanted;
    if (!fits)
        fprintf(stderr, "called %d, class %d and %d, wanted %d\n", called, class, found, wanted);
    called = 0;
    return fits;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Errhandler errhandler;
    MPI_Win win;
    int *base, value = 1, code;
    MPI_Win_create_errhandler(handler, &errhandler);
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, errhandler);
    CHECK(is(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC));
    CHECK(is(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC));
    CHECK(is(MPI_Win_complete(win), MPI_ERR_RMA_SYNC));
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    code = MPI_Put(&value, 1, MPI_INT, 0, 100, 1, MPI_INT, win);
    CHECK(is(code, MPI_ERR_RMA_RANGE));
    if (size > 1)
        CHECK(is(MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC));
    CHECK(is(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC));
    MPI_Win_unlock(0, win);
    MPI_Win_fence(0, win);
    code = MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, win);
    CHECK(code != MPI_SUCCESS && is(code, MPI_ERR_RANK));
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Errhandler_free(&errhandler);
    return end();
}

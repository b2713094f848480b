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

// A window that is freed in an epoch stays as it is. Open MPI frees it.
static void free_in_epochs(MPI_Win win, int *base) {
    int value = rank + 5, other = 1 - rank;
    MPI_Win kept = win;
    MPI_Group all, one;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &other, &one);
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    CHECK(is(MPI_Win_free(&kept), MPI_ERR_RMA_SYNC) && kept == win);
    MPI_Win_unlock(other, win);
    MPI_Win_lock_all(0, win);
    CHECK(is(MPI_Win_free(&kept), MPI_ERR_RMA_SYNC) && kept == win);
    MPI_Win_unlock_all(win);
    MPI_Win_post(one, 0, win);
    CHECK(is(MPI_Win_free(&kept), MPI_ERR_RMA_SYNC) && kept == win);
    MPI_Win_start(one, 0, win);
    MPI_Put(&value, 1, MPI_INT, other, 0, 1, MPI_INT, win);
    CHECK(is(MPI_Win_free(&kept), MPI_ERR_RMA_SYNC) && kept == win);
    MPI_Win_complete(win);
    CHECK(is(MPI_Win_free(&kept), MPI_ERR_RMA_SYNC) && kept == win);
    MPI_Win_wait(win);
    CHECK(base[0] == other + 5);
    MPI_Group_free(&one), MPI_Group_free(&all);
}

// One number is what these operations change. A derived type has several. Floating-point numbers
// cannot be compared and swapped.
static void change_unfit(MPI_Win win) {
    int value = 1, compare = 0, result = 42;
    MPI_Datatype four;
    MPI_Type_contiguous(4, MPI_BYTE, &four), MPI_Type_commit(&four);
    CHECK(is(MPI_Compare_and_swap(&value, &compare, &result, four, 0, 0, win), MPI_ERR_TYPE));
    CHECK(is(MPI_Fetch_and_op(&value, &result, four, 0, 0, MPI_REPLACE, win), MPI_ERR_TYPE));
    long double values[3] = {0};
    CHECK(is(MPI_Compare_and_swap(&values[0], &values[1], &values[2], MPI_LONG_DOUBLE, 0, 0, win),
             MPI_ERR_TYPE));
    CHECK(result == 42);
    MPI_Type_free(&four);
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
    change_unfit(win);
    MPI_Win_unlock(0, win);
    MPI_Win_fence(0, win);
    code = MPI_Put(&value, 1, MPI_INT, size, 0, 1, MPI_INT, win);
    CHECK(code != MPI_SUCCESS && is(code, MPI_ERR_RANK));
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (!is_host("Open MPI"))
        free_in_epochs(win, base);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Errhandler_free(&errhandler);
    return end();
}

// Accumulates of each kind of type and operation, with verified results.
#include "check.h"
#include <stdint.h>

enum { TURNS = 200 };

// Each rank applies an operation TURNS times to the same number of rank 0, while the others do too.
#define SUMS(type, mpi)                                                                            \
    do {                                                                                           \
        type one[3] = {1, 2, 3}, zero[3] = {0, 0, 0}, found[3];                                    \
        MPI_Win_fence(0, win);                                                                     \
        if (rank == 0)                                                                             \
            MPI_Put(zero, 3, mpi, 0, at, 3, mpi, win);                                             \
        MPI_Win_fence(0, win);                                                                     \
        for (int turn = 0; turn < TURNS / 10; turn++)                                              \
            MPI_Accumulate(one, 3, mpi, 0, at, 3, mpi, MPI_SUM, win);                              \
        MPI_Win_fence(0, win);                                                                     \
        MPI_Get_accumulate(NULL, 0, mpi, found, 3, mpi, 0, at, 3, mpi, MPI_NO_OP, win);            \
        MPI_Win_fence(0, win);                                                                     \
        int all = TURNS / 10 * size;                                                               \
        CHECK(found[0] == (type)all && found[1] == (type)(2 * all) && found[2] == (type)(3 * all)); \
    } while (0)

static void sums(MPI_Win win, MPI_Aint at) {
    SUMS(signed char, MPI_SIGNED_CHAR);
    SUMS(unsigned char, MPI_UNSIGNED_CHAR);
    SUMS(short, MPI_SHORT);
    SUMS(unsigned short, MPI_UNSIGNED_SHORT);
    SUMS(int, MPI_INT);
    SUMS(unsigned, MPI_UNSIGNED);
    SUMS(long, MPI_LONG);
    SUMS(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    SUMS(float, MPI_FLOAT);
    SUMS(double, MPI_DOUBLE);
    SUMS(long double, MPI_LONG_DOUBLE);
    SUMS(float _Complex, MPI_C_FLOAT_COMPLEX);
    SUMS(double _Complex, MPI_C_DOUBLE_COMPLEX);
    SUMS(MPI_Aint, MPI_AINT);
    SUMS(int64_t, MPI_INT64_T);
    SUMS(uint32_t, MPI_UINT32_T);
}

static int fetch(MPI_Win win, int operand, MPI_Op op) {
    int before = -77;
    MPI_Fetch_and_op(&operand, &before, MPI_INT, rank, 8, op, win);
    MPI_Win_flush(rank, win);
    return before;
}

static void operations(MPI_Win win) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    fetch(win, 12, MPI_REPLACE);
    CHECK(fetch(win, 3, MPI_SUM) == 12);
    CHECK(fetch(win, 2, MPI_PROD) == 15);
    CHECK(fetch(win, 7, MPI_MIN) == 30);
    CHECK(fetch(win, 9, MPI_MAX) == 7);
    CHECK(fetch(win, 8, MPI_BAND) == 9);
    CHECK(fetch(win, 3, MPI_BOR) == 8);
    CHECK(fetch(win, 1, MPI_BXOR) == 11);
    CHECK(fetch(win, 5, MPI_LAND) == 10);
    CHECK(fetch(win, 0, MPI_LOR) == 1);
    CHECK(fetch(win, 4, MPI_LXOR) == 1);
    CHECK(fetch(win, 0, MPI_NO_OP) == 0);
    // Logical values and pairs.
    struct { double value; int place; } pair = {1.5, 3}, other = {2.5, 1}, result = {0, 0};
    MPI_Put(&pair, 1, MPI_DOUBLE_INT, rank, 32, 1, MPI_DOUBLE_INT, win);
    MPI_Win_flush(rank, win);
    MPI_Get_accumulate(&other, 1, MPI_DOUBLE_INT, &result, 1, MPI_DOUBLE_INT, rank, 32, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win);
    MPI_Win_flush(rank, win);
    CHECK(result.value == 1.5 && result.place == 3);
    MPI_Accumulate(&pair, 1, MPI_DOUBLE_INT, rank, 32, 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
    MPI_Win_flush(rank, win);
    MPI_Fetch_and_op(&pair, &result, MPI_DOUBLE_INT, rank, 32, MPI_REPLACE, win);
    MPI_Win_flush(rank, win);
    CHECK(result.value == 1.5 && result.place == 3);
    struct { short value; int place; } small[3] = {{1, 1}, {2, 2}, {3, 3}}, less[3] = {{1, 0}, {1, 7}, {9, 9}};
    MPI_Put(small, 3, MPI_SHORT_INT, rank, 64, 3, MPI_SHORT_INT, win);
    MPI_Win_flush(rank, win);
    MPI_Accumulate(less, 3, MPI_SHORT_INT, rank, 64, 3, MPI_SHORT_INT, MPI_MINLOC, win);
    MPI_Win_flush(rank, win);
    MPI_Get(small, 3, MPI_SHORT_INT, rank, 64, 3, MPI_SHORT_INT, win);
    MPI_Win_flush(rank, win);
    CHECK(small[0].place == 0 && small[1].value == 1 && small[1].place == 7 && small[2].value == 3);
    _Bool yes = 1, no = 0, was = 1;
    MPI_Put(&no, 1, MPI_C_BOOL, rank, 120, 1, MPI_C_BOOL, win);
    MPI_Win_flush(rank, win);
    MPI_Fetch_and_op(&yes, &was, MPI_C_BOOL, rank, 120, MPI_LOR, win);
    MPI_Win_flush(rank, win);
    CHECK(was == 0);
    MPI_Compare_and_swap(&no, &yes, &was, MPI_C_BOOL, rank, 120, win);
    MPI_Win_flush(rank, win);
    CHECK(was == 1);
    MPI_Win_unlock(rank, win);
}

// Every rank draws tickets from rank 0, and takes turns by compare-and-swap.
static void tickets(MPI_Win win, MPI_Aint at) {
    long one = 1, zero = 0, ticket, sum = 0, all;
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(&zero, 1, MPI_LONG, 0, at, 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, at, MPI_SUM, win);
        MPI_Win_flush(0, win);
        sum += ticket;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    long n = (long)TURNS * size;
    CHECK(all == n * (n - 1) / 2);
    long old, new;
    for (int turn = 0; turn < TURNS; turn++)
        do {
            MPI_Fetch_and_op(NULL, &old, MPI_LONG, 0, at, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
            long wanted = old;
            new = old + 1;
            MPI_Compare_and_swap(&new, &wanted, &old, MPI_LONG, 0, at, win);
            MPI_Win_flush(0, win);
        } while (old != new - 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Fetch_and_op(NULL, &old, MPI_LONG, 0, at, MPI_NO_OP, win);
    MPI_Win_flush(0, win);
    CHECK(old == 2 * n);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Derived types at both ends of accumulates.
static void derived(MPI_Win win) {
    MPI_Datatype vector;
    double own[8], found[8], zero[32] = {0};
    for (int i = 0; i < 8; i++)
        own[i] = i + 1, found[i] = -1;
    MPI_Type_vector(4, 1, 2, MPI_DOUBLE, &vector), MPI_Type_commit(&vector);
    MPI_Win_fence(0, win);
    MPI_Put(zero, 32, MPI_DOUBLE, rank, 0, 32, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    for (int target = 0; target < size; target++)
        MPI_Accumulate(own, 1, vector, target, 8, 1, vector, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(own, 4, MPI_DOUBLE, found, 1, vector, rank, 8, 1, vector, MPI_REPLACE, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 4; i++)
        CHECK(found[2 * i] == size * (2 * i + 1) && (i == 3 || found[2 * i + 1] == -1));
    MPI_Get(found, 1, vector, rank, 8, 1, vector, win);
    MPI_Win_fence(0, win);
    CHECK(found[0] == 1 && found[2] == 2 && found[6] == 4);
    MPI_Type_free(&vector);
}

static void use(MPI_Win win) {
    sums(win, 0);
    sums(win, 3); // an odd address
    operations(win);
    tickets(win, 16);
    tickets(win, 19);
    derived(win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    char *base, *memory = malloc(4096);
    MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    use(win);
    MPI_Win_free(&win);
    MPI_Win_create(memory, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    use(win);
    MPI_Win_free(&win);
    free(memory);
    return end();
}

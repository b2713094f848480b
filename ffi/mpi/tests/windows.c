// Windows: every way to make one, to synchronise and to transfer, with verified contents.
#include "check.h"

enum { N = 1000 };

static int next(void) { return (rank + 1) % size; }
static int previous(void) { return (rank + size - 1) % size; }

static void attributes(MPI_Win win, void *base, MPI_Aint bytes, int unit, int flavor) {
    void *found;
    MPI_Aint *length;
    int *number, flag = 0;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &found, &flag);
    CHECK(flag && (found == base || bytes == 0));
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &length, &flag);
    CHECK(flag && *length == bytes);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &flag);
    CHECK(flag && *number == unit);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag);
    CHECK(flag && *number == flavor);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &number, &flag);
    CHECK(flag && *number == MPI_WIN_UNIFIED);
    char name[MPI_MAX_OBJECT_NAME] = "";
    int letters;
    MPI_Win_set_name(win, "a window");
    MPI_Win_get_name(win, name, &letters);
    CHECK(strcmp(name, "a window") == 0 && letters == 8);
    MPI_Group group, all;
    int same;
    MPI_Win_get_group(win, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_compare(group, all, &same);
    CHECK(same == MPI_IDENT);
    MPI_Group_free(&group), MPI_Group_free(&all);
}

// Puts and gets between fences.
static void fences(MPI_Win win, int *base) {
    int own[N], found[N];
    for (int i = 0; i < N; i++)
        own[i] = rank * N + i, base[i] = -1;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Put(own, N, MPI_INT, next(), 0, N, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++)
        CHECK(base[i] == previous() * N + i);
    MPI_Get(found, N - 10, MPI_INT, next(), 10, N - 10, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 0; i < N - 10; i++)
        CHECK(found[i] == rank * N + i + 10);
}

// Derived types at both ends.
static void derived(MPI_Win win, int *base) {
    MPI_Datatype vector, back, block;
    int own[N], found[N];
    for (int i = 0; i < N; i++)
        own[i] = rank * N + i, base[i] = -1, found[i] = -2;
    MPI_Type_vector(10, 2, 5, MPI_INT, &vector), MPI_Type_commit(&vector);
    // The second number before the first, and below the address of the element.
    int lengths[2] = {1, 1}, places[2] = {0, -1};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &back), MPI_Type_commit(&back);
    MPI_Type_contiguous(20, MPI_INT, &block), MPI_Type_commit(&block);
    MPI_Win_fence(0, win);
    MPI_Put(own, 1, vector, next(), 0, 20, MPI_INT, win);
    MPI_Put(own, 20, MPI_INT, next(), 100, 1, vector, win);
    MPI_Put(own, 1, back, next(), 901, 1, back, win);
    MPI_Put(own, 2, block, next(), 300, 40, MPI_INT, win);
    MPI_Win_fence(0, win);
    int from = previous() * N;
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 2; k++) {
            CHECK(base[2 * i + k] == from + 5 * i + k);
            CHECK(base[100 + 5 * i + k] == from + 2 * i + k);
        }
    CHECK(base[102] == -1 && base[104] == -1 && base[147] == -1);
    CHECK(base[901] == from && base[340] == -1);
    for (int i = 0; i < 40; i++)
        CHECK(base[300 + i] == from + i);
    MPI_Win_fence(0, win);
    MPI_Get(found + 1, 1, vector, next(), 100, 1, vector, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 10; i++)
        CHECK(found[1 + 5 * i] == rank * N + 2 * i && found[2 + 5 * i] == rank * N + 2 * i + 1);
    CHECK(found[0] == -2 && found[3] == -2);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Type_free(&vector), MPI_Type_free(&back), MPI_Type_free(&block);
}

// Epochs of groups: each rank writes to the next.
static void groups(MPI_Win win, int *base) {
    MPI_Group all, origin, target;
    int from = previous(), to = next(), flag = 0, value;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &from, &origin), MPI_Group_incl(all, 1, &to, &target);
    for (int turn = 0; turn < 50; turn++) {
        MPI_Win_post(origin, 0, win);
        MPI_Win_start(target, 0, win);
        value = rank * 1000 + turn;
        MPI_Put(&value, 1, MPI_INT, to, 3, 1, MPI_INT, win);
        MPI_Win_complete(win);
        if (turn % 2)
            MPI_Win_wait(win);
        else
            for (flag = 0; !flag;)
                MPI_Win_test(win, &flag);
        CHECK(base[3] == from * 1000 + turn);
    }
    MPI_Group_free(&all), MPI_Group_free(&origin), MPI_Group_free(&target);
}

// Passive target: each rank adds to a counter under an exclusive lock, without atomics.
static void locks(MPI_Win win, int *base) {
    int zero = 0, value, mine = rank + 1, found;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    MPI_Put(&zero, 1, MPI_INT, rank, 0, 1, MPI_INT, win);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int turn = 0; turn < 100; turn++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    CHECK(value == 100 * size);
    MPI_Win_lock_all(0, win);
    for (int target = 0; target < size; target++)
        MPI_Put(&mine, 1, MPI_INT, target, 10 + rank, 1, MPI_INT, win);
    MPI_Win_flush_local_all(win), MPI_Win_flush_all(win);
    MPI_Get(&found, 1, MPI_INT, next(), 10 + rank, 1, MPI_INT, win);
    MPI_Win_flush_local(next(), win);
    CHECK(found == rank + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int origin = 0; origin < size; origin++)
        CHECK(base[10 + origin] == origin + 1);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Request forms, and targets that are no process.
static void requests(MPI_Win win, int *base) {
    int own[4] = {rank, rank + 1, rank + 2, rank + 3}, found[4] = {-1, -1, -1, -1}, before = -1;
    MPI_Request request[3];
    MPI_Status status;
    memset(base, 0, 100 * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Rput(own, 4, MPI_INT, next(), 20, 4, MPI_INT, win, &request[0]);
    MPI_Wait(&request[0], &status);
    MPI_Win_flush(next(), win);
    MPI_Rget(found, 4, MPI_INT, next(), 20, 4, MPI_INT, win, &request[0]);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    CHECK(found[0] == rank && found[3] == rank + 3 && request[0] == MPI_REQUEST_NULL);
    MPI_Raccumulate(own, 4, MPI_INT, next(), 20, 4, MPI_INT, MPI_SUM, win, &request[0]);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    MPI_Win_flush(next(), win);
    MPI_Rget_accumulate(own, 1, MPI_INT, &before, 1, MPI_INT, next(), 23, 1, MPI_INT, MPI_REPLACE, win, &request[0]);
    MPI_Rput(own, 4, MPI_INT, MPI_PROC_NULL, 0, 4, MPI_INT, win, &request[1]);
    MPI_Rget(own, 4, MPI_INT, MPI_PROC_NULL, 0, 4, MPI_INT, win, &request[2]);
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    CHECK(before == 2 * (rank + 3));
    MPI_Put(own, 4, MPI_INT, MPI_PROC_NULL, 0, 4, MPI_INT, win);
    MPI_Get(own, 4, MPI_INT, MPI_PROC_NULL, 0, 4, MPI_INT, win);
    MPI_Accumulate(own, 4, MPI_INT, MPI_PROC_NULL, 0, 4, MPI_INT, MPI_SUM, win);
    MPI_Fetch_and_op(own, &before, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(base[20] == 2 * previous() && base[23] == previous());
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all(MPI_Win win, int *base) {
    fences(win, base);
    derived(win, base);
    groups(win, base);
    locks(win, base);
    requests(win, base);
}

// Units that differ between members.
static void units(void) {
    MPI_Win win;
    int unit = rank % 2 ? 4 : 1, value = rank + 7, *base;
    MPI_Win_allocate(64, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, next(), next() % 2 ? 3 : 12, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(base[3] == previous() + 7);
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
}

static void shared(void) {
    MPI_Win win;
    MPI_Aint bytes;
    int unit, *base, *other;
    MPI_Win_allocate_shared(rank == 0 ? 0 : 4 * N, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    int *number, flag;
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag);
    CHECK(flag && *number == MPI_WIN_FLAVOR_SHARED);
    MPI_Win_fence(0, win);
    if (rank)
        for (int i = 0; i < N; i++)
            base[i] = rank * N + i;
    MPI_Win_fence(0, win);
    int target = size - 1;
    MPI_Win_shared_query(win, target, &bytes, &unit, &other);
    CHECK(bytes == 4 * N && unit == 4);
    for (int i = 0; i < N; i++)
        CHECK(other[i] == target * N + i);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &other);
    CHECK(bytes == 4 * N && other[0] == N);
    // A member without memory has no address.
    MPI_Win_shared_query(win, 0, &bytes, &unit, &other);
    CHECK(bytes == 0 && unit == 4 && other == NULL);
    int found = -1;
    MPI_Get(&found, 1, MPI_INT, target, 5, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(found == target * N + 5);
    MPI_Win_free(&win);
}

static void dynamic(void) {
    MPI_Win win;
    int memory[2][N], value = rank + 50, found[2];
    MPI_Aint at[64][2], own[2];
    int *number, flag;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag);
    CHECK(flag && *number == MPI_WIN_FLAVOR_DYNAMIC);
    for (int part = 0; part < 2; part++) {
        memory[part][9] = 100 * rank + part;
        MPI_Win_attach(win, memory[part], sizeof(memory[part]));
        MPI_Get_address(memory[part], &own[part]);
    }
    MPI_Allgather(own, 2, MPI_AINT, at, 2, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int part = 0; part < 2; part++) {
        MPI_Get(&found[part], 1, MPI_INT, next(), MPI_Aint_add(at[next()][part], 9 * 4), 1, MPI_INT, win);
        MPI_Put(&value, 1, MPI_INT, next(), MPI_Aint_add(at[next()][part], 11 * 4), 1, MPI_INT, win);
    }
    MPI_Win_flush_all(win);
    CHECK(found[0] == 100 * next() && found[1] == 100 * next() + 1);
    int one = 1, before = -1;
    MPI_Fetch_and_op(&one, &before, MPI_INT, next(), MPI_Aint_add(at[next()][0], 11 * 4), MPI_SUM, win);
    MPI_Win_unlock_all(win);
    CHECK(before == value);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[0][11] == previous() + 51 && memory[1][11] == previous() + 50);
    for (int part = 0; part < 2; part++)
        MPI_Win_detach(win, memory[part]);
    MPI_Win_free(&win);
}

// Memory from MPI: windows over it, also beside other memory, and messages from it.
static void allocated(void) {
    enum { LARGE = 300000 };
    MPI_Win win;
    int *piece, *large, *other = malloc(N * sizeof(int));
    CHECK(MPI_Alloc_mem(N * sizeof(int), MPI_INFO_NULL, &piece) == MPI_SUCCESS);
    for (int turn = 0; turn < 2; turn++) {
        int *base = turn && rank == 0 ? other : piece;
        MPI_Win_create(base, N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        attributes(win, base, N * sizeof(int), sizeof(int), MPI_WIN_FLAVOR_CREATE);
        all(win, base);
        MPI_Win_free(&win);
    }
    CHECK(MPI_Alloc_mem(LARGE * sizeof(int), MPI_INFO_NULL, &large) == MPI_SUCCESS);
    for (int i = 0; i < LARGE; i++)
        large[i] = rank + i;
    MPI_Sendrecv_replace(large, LARGE, MPI_INT, next(), 9, previous(), 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < LARGE; i++)
        CHECK(large[i] == previous() + i);
    CHECK(MPI_Free_mem(large) == MPI_SUCCESS && MPI_Free_mem(piece) == MPI_SUCCESS);
    free(other);
    // It is never freed.
    MPI_Alloc_mem(N * sizeof(int), MPI_INFO_NULL, &piece);
    piece[N - 1] = 1;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Win win;
    int *base, *memory = malloc(N * sizeof(int));
    for (int turn = 0; turn < 3; turn++) {
        MPI_Win_create(memory, N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        attributes(win, memory, N * sizeof(int), sizeof(int), MPI_WIN_FLAVOR_CREATE);
        all(win, memory);
        MPI_Win_free(&win);
        MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        attributes(win, base, N * sizeof(int), sizeof(int), MPI_WIN_FLAVOR_ALLOCATE);
        all(win, base);
        MPI_Win_free(&win);
        units();
        if (size > 1)
            shared();
        dynamic();
        allocated();
    }
    // A communicator in another order, and one of some ranks.
    MPI_Comm comm;
    int place, members, value = rank;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    MPI_Comm_rank(comm, &place), MPI_Comm_size(comm, &members);
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, comm, &base, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_INT, (place + 1) % members, 2, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    int sender = (place + members - 1) % members;
    CHECK(base[2] % 2 == rank % 2 && (members == 1 || base[2] == (members - 1 - sender) * 2 + rank % 2));
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    free(memory);
    return end();
}

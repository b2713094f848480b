// Datatypes of every constructor. What arrives is compared with what MPI_Pack makes of the sender's
// buffer, and what a receive leaves in a buffer with what MPI_Unpack leaves.
#include "check.h"

enum { ROOM = 1 << 16, MOST = 3 };

static unsigned char *memory(unsigned seed) {
    unsigned char *bytes = malloc(2 * ROOM);
    fill(bytes, 2 * ROOM, seed);
    return bytes;
}

static void compare(const char *name, MPI_Datatype type, int count) {
    static unsigned char packed[ROOM], arrived[ROOM];
    unsigned char *from = memory(1), *to = memory(2), *expected = memory(2);
    int bytes, position = 0, unpacked = 0, element;
    MPI_Status status;
    MPI_Type_size(type, &element);
    // A host may lack a type.
    if (element == 0)
        return;
    MPI_Pack_size(count, type, MPI_COMM_WORLD, &bytes);
    CHECK(bytes <= ROOM);
    MPI_Pack(from + ROOM, count, type, packed, ROOM, &position, MPI_COMM_WORLD);
    MPI_Unpack(packed, position, &unpacked, expected + ROOM, count, type, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Request request;
        MPI_Send(from + ROOM, count, type, 1, 1, MPI_COMM_WORLD);
        MPI_Ssend(from + ROOM, count, type, 1, 2, MPI_COMM_WORLD);
        MPI_Isend(from + ROOM, count, type, 1, 3, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Request request;
        int count_again, elements = 0;
        memset(arrived, 0, sizeof arrived);
        MPI_Recv(arrived, ROOM, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (bytes != count * element || memcmp(arrived, packed, bytes) != 0)
            fprintf(stderr, "%s: sent differently from MPI_Pack\n", name), MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Irecv(to + ROOM, count, type, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, type, &count_again);
        CHECK(count_again == count);
        if (memcmp(to, expected, 2 * ROOM) != 0)
            fprintf(stderr, "%s: received differently from MPI_Unpack\n", name), MPI_Abort(MPI_COMM_WORLD, 1);
        fill(to, 2 * ROOM, 2);
        MPI_Recv(to + ROOM, count, type, 0, 3, MPI_COMM_WORLD, &status);
        // MPICH divides by zero for a pair.
        if (strcmp(name, "pair") != 0)
            MPI_Get_elements(&status, type, &elements);
        CHECK(elements != MPI_UNDEFINED);
        if (memcmp(to, expected, 2 * ROOM) != 0)
            fprintf(stderr, "%s: received differently from MPI_Unpack\n", name), MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(from), free(to), free(expected);
}

// Compares a type, and frees it: the next one may have its handle.
static void all(const char *name, MPI_Datatype type) {
    MPI_Type_commit(&type);
    for (int count = 0; count <= MOST; count++)
        compare(name, type, count);
    MPI_Type_free(&type);
}

static void constructors(void) {
    MPI_Datatype type, inner, parts[4] = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_SHORT};
    int lengths[4] = {2, 1, 3, 2}, places[4] = {0, 3, 7, 20}, down[4] = {9, 6, 3, 0};
    MPI_Aint at[4] = {0, 16, 48, 64}, down_at[4] = {64, 32, 8, 0};
    MPI_Type_contiguous(5, MPI_INT, &type), all("contiguous", type);
    MPI_Type_vector(4, 2, 3, MPI_INT, &type), all("vector", type);
    MPI_Type_vector(4, 1, -2, MPI_INT, &type), all("vector backwards", type);
    MPI_Type_vector(3, 2, 2, MPI_INT, &type), all("vector without gaps", type);
    MPI_Type_create_hvector(4, 2, 13, MPI_SHORT, &type), all("hvector", type);
    MPI_Type_indexed(4, lengths, places, MPI_INT, &type), all("indexed", type);
    MPI_Type_indexed(4, lengths, down, MPI_INT, &type), all("indexed downwards", type);
    MPI_Type_create_hindexed(4, lengths, at, MPI_INT, &type), all("hindexed", type);
    MPI_Type_create_indexed_block(4, 2, places, MPI_INT, &type), all("indexed block", type);
    MPI_Type_create_hindexed_block(4, 2, down_at, MPI_SHORT, &type), all("hindexed block", type);
    MPI_Type_create_struct(4, lengths, at, parts, &type), all("struct", type);
    MPI_Type_create_struct(4, lengths, down_at, parts, &type), all("struct downwards", type);
    MPI_Type_vector(3, 1, 2, MPI_INT, &inner);
    MPI_Type_create_resized(inner, -4, 40, &type), all("resized", type);
    MPI_Type_dup(inner, &type), all("dup", type);
    MPI_Type_vector(2, 2, 3, inner, &type), all("vector of vectors", type);
    parts[1] = inner;
    MPI_Type_create_struct(4, lengths, at, parts, &type), all("struct of vectors", type);
    MPI_Type_free(&inner);
    MPI_Type_dup(MPI_DOUBLE, &type), all("dup of a predefined type", type);
    MPI_Type_create_f90_integer(9, &type);
    for (int count = 0; count <= MOST; count++)
        compare("f90 integer", type, count);
}

static void arrays(void) {
    int sizes[3] = {6, 5, 4}, boxes[3] = {2, 3, 2}, starts[3] = {1, 2, 1};
    int orders[2] = {MPI_ORDER_C, MPI_ORDER_FORTRAN};
    MPI_Datatype type;
    // Intel MPI's MPI_Pack takes other elements of a distributed array than the standard says.
    int processes = is_host("Intel") ? 0 : 6;
    for (int order = 0; order < 2; order++) {
        MPI_Type_create_subarray(3, sizes, boxes, starts, orders[order], MPI_SHORT, &type), all("subarray", type);
        for (int process = 0; process < processes; process++) {
            int kinds[3] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
            int arguments[3] = {2, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[3] = {3, 2, 1};
            MPI_Type_create_darray(6, process, 3, sizes, kinds, arguments, grid, orders[order], MPI_INT, &type);
            all("distributed array", type);
        }
    }
}

static void predefined(void) {
    MPI_Datatype types[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_BYTE, MPI_PACKED, MPI_C_BOOL, MPI_INT8_T, MPI_UINT64_T, MPI_AINT, MPI_C_DOUBLE_COMPLEX, MPI_WCHAR};
    MPI_Datatype pairs[] = {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        for (int count = 0; count <= MOST; count++)
            compare("predefined", types[i], count);
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int count = 0; count <= MOST; count++)
            compare("pair", pairs[i], count);
}

static void bottom(void) {
    static double far[4];
    int near[3] = {rank, rank + 10, rank + 20};
    int lengths[2] = {4, 3};
    MPI_Aint at[2];
    MPI_Datatype parts[2] = {MPI_DOUBLE, MPI_INT}, type;
    MPI_Get_address(far, &at[0]), MPI_Get_address(near, &at[1]);
    for (int i = 0; i < 4; i++)
        far[i] = rank + i;
    MPI_Type_create_struct(2, lengths, at, parts, &type);
    MPI_Type_commit(&type);
    if (rank == 0)
        MPI_Send(MPI_BOTTOM, 1, type, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Recv(MPI_BOTTOM, 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(far[3] == 3 && near[0] == 0 && near[2] == 20);
    }
    MPI_Type_free(&type);
}

// Long runs are sent where they are; a type may be freed while an operation goes on.
static void long_runs(void) {
    enum { RUN = 30000, N = 20 };
    char *data = malloc(2 * RUN * N), *other = calloc(2 * RUN, N);
    MPI_Datatype type;
    MPI_Request request;
    fill(data, 2 * RUN * N, 3);
    MPI_Type_vector(N, RUN, 2 * RUN, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    if (rank == 0)
        MPI_Isend(data, 1, type, 1, 0, MPI_COMM_WORLD, &request);
    else if (rank == 1)
        MPI_Irecv(other, 1, type, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    MPI_Type_vector(7, 1, 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Send(data, 1, type, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Type_free(&type);
    if (rank < 2)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; rank == 1 && i < N; i++)
        for (int j = 0; j < 2 * RUN; j++)
            if (j < RUN || i < N - 1)
                CHECK(other[2 * RUN * i + j] == (j < RUN ? data[2 * RUN * i + j] : 0));
    free(data), free(other);
}

// Lengths alone are compared: a send of another signature than the receive's, which the standard
// forbids, leaves its bytes in the receive's first ones (docs/mpi.md).
static void other_signature(void) {
    int lengths[3] = {1, 2, 1}, places[3] = {4, 8, 16}, numbers[20] = {0}, bytes;
    MPI_Datatype type;
    MPI_Status status;
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type), MPI_Type_commit(&type);
    if (rank == 0)
        MPI_Send("abc", 3, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        CHECK(MPI_Recv(numbers, 1, type, 0, 0, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        CHECK(bytes == 3 && memcmp(&numbers[4], "abc", 4) == 0);
    }
    MPI_Type_free(&type);
}

#if MPI_VERSION >= 4
static void large_counts(void) {
    MPI_Datatype type;
    MPI_Count lengths[3] = {2, 1, 3}, places[3] = {0, 5, 9}, sizes[2] = {6, 5}, boxes[2] = {2, 3}, starts[2] = {1, 2};
    MPI_Datatype parts[3] = {MPI_INT, MPI_SHORT, MPI_CHAR};
    MPI_Type_contiguous_c(5, MPI_INT, &type), all("contiguous_c", type);
    MPI_Type_vector_c(4, 2, 3, MPI_INT, &type), all("vector_c", type);
    MPI_Type_create_hvector_c(4, 2, 13, MPI_SHORT, &type), all("hvector_c", type);
    MPI_Type_indexed_c(3, lengths, places, MPI_INT, &type), all("indexed_c", type);
    MPI_Type_create_hindexed_c(3, lengths, places, MPI_CHAR, &type), all("hindexed_c", type);
    MPI_Type_create_indexed_block_c(3, 2, places, MPI_INT, &type), all("indexed_block_c", type);
    MPI_Type_create_hindexed_block_c(3, 2, places, MPI_CHAR, &type), all("hindexed_block_c", type);
    places[1] = 16, places[2] = 32;
    MPI_Type_create_struct_c(3, lengths, places, parts, &type), all("struct_c", type);
    MPI_Type_create_subarray_c(2, sizes, boxes, starts, MPI_ORDER_C, MPI_INT, &type), all("subarray_c", type);
    int kinds[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, grid[2] = {3, 2};
    int arguments[2] = {2, MPI_DISTRIBUTE_DFLT_DARG};
    if (!is_host("Intel")) {
        MPI_Type_create_darray_c(6, 4, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
        all("darray_c", type);
    }
    MPI_Type_create_resized_c(MPI_INT, 0, 12, &type), all("resized_c", type);
}
#else
static void large_counts(void) {}
#endif

int main(int argc, char **argv) {
    begin(&argc, &argv);
    predefined();
    constructors();
    arrays();
    bottom();
    long_runs();
    other_signature();
    large_counts();
    return end();
}

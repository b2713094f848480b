// Errors reach the handler of the communicator, with the class that the host has for them.
#include "check.h"

static int called, class;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    called++;
    MPI_Error_class(*code, &class);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Errhandler errhandler;
    MPI_Comm comm;
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status[2];
    int data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, room[8] = {0}, code, other = 1 - rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_set_errhandler(comm, errhandler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler);
    if (rank < 2) {
        // A message that is too long leaves its beginning.
        MPI_Isend(data, 8, MPI_INT, other, 0, comm, &request[0]);
        code = MPI_Recv(room, 2, MPI_INT, other, 0, comm, &status[0]);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        CHECK(code != MPI_SUCCESS && called == 1 && class == MPI_ERR_TRUNCATE);
        MPI_Error_class(code, &code);
        CHECK(code == MPI_ERR_TRUNCATE && room[1] == 2 && room[2] == 0);
        // In an array the statuses tell which request failed.
        MPI_Irecv(room, 1, MPI_INT, other, 1, comm, &request[0]);
        MPI_Irecv(room + 1, 4, MPI_INT, other, 2, comm, &request[1]);
        MPI_Send(data, 2, MPI_INT, other, 1, comm);
        MPI_Send(data, 2, MPI_INT, other, 2, comm);
        code = MPI_Waitall(2, request, status);
        CHECK(code == MPI_ERR_IN_STATUS && called == 2);
        CHECK(status[1].MPI_ERROR == MPI_SUCCESS);
        MPI_Error_class(status[0].MPI_ERROR, &class);
        CHECK(class == MPI_ERR_TRUNCATE);
        // Wrong arguments.
        code = MPI_Send(data, 1, MPI_INT, size, 0, comm);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_RANK && called == 3);
        code = MPI_Send(data, -1, MPI_INT, other, 0, comm);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_COUNT && called == 4);
        code = MPI_Isend(data, 1, MPI_INT, other, -5, comm, &request[0]);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_TAG && called == 5);
        code = MPI_Send(data, 1, MPI_DATATYPE_NULL, other, 0, comm);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_TYPE && called == 6);
        MPI_Datatype loose;
        MPI_Type_vector(2, 1, 2, MPI_INT, &loose);
        code = MPI_Irecv(room, 1, loose, other, 0, comm, &request[0]);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_TYPE && called == 7);
        MPI_Type_commit(&loose);
        MPI_Irecv(room, 1, loose, other, 0, comm, &request[0]);
        MPI_Send(data, 2, MPI_INT, other, 0, comm);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        CHECK(room[0] == 1 && room[2] == 2 && called == 7);
        MPI_Type_free(&loose);
        code = MPI_Send(NULL, 1, MPI_INT, other, 0, comm);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_BUFFER && called == 8);
        code = MPI_Recv_init(NULL, 1, MPI_INT, other, 0, comm, &request[0]);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_BUFFER && called == 9);
        // MPICH, and the MPIs made from it, look at no datatype where there are no elements.
        if (!is_host("Open MPI")) {
            MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, other, 0, comm, &request[0]);
            MPI_Send(NULL, 0, MPI_DATATYPE_NULL, other, 0, comm);
            CHECK(MPI_Wait(&request[0], MPI_STATUS_IGNORE) == MPI_SUCCESS && called == 9);
        }
    }
    // A wrong argument of a collective operation, at all ranks alike. Not every host returns a code
    // when the handler has returned.
    called = 0;
    MPI_Bcast(data, 1, MPI_INT, size, comm);
    CHECK(called == 1 && class == MPI_ERR_ROOT);
    MPI_Allreduce(data, room, 1, MPI_INT, MPI_OP_NULL, comm);
    CHECK(called == 2 && class == MPI_ERR_OP);
    // Bytes have no order. Open MPI compares them.
    if (!is_host("Open MPI")) {
        MPI_Reduce(data, room, 1, MPI_BYTE, MPI_MAX, 0, comm);
        CHECK(called == 3 && class == MPI_ERR_OP);
    }
    MPI_Allreduce(data, room, 4, MPI_BYTE, MPI_BXOR, comm);
    CHECK(called < 4 && room[0] == (size % 2 ? data[0] : 0));
    // The communicator goes on.
    code = MPI_Allreduce(data, room, 1, MPI_INT, MPI_SUM, comm);
    CHECK(code == MPI_SUCCESS && room[0] == size);
    MPI_Errhandler_free(&errhandler);
    MPI_Comm_free(&comm);
    return end();
}

/* A minimal channel in the manner of MPICH2's CH3, over the five functions, as Nemesis (Buntinas
 * et al. 2007, section 3.1) describes a channel.
 *
 * The layer above passes a header and a list of buffers (IOV) of limited length. Data that
 * cannot leave at once wait in a queue of sends. When all data of an IOV have left, an upcall
 * reloads it, or completes the request.
 *
 * Arriving data begin with a header. An upcall answers it with a request. The IOV of the request
 * gives the place of the data, and is also reloaded until all data have arrived.
 *
 * In this example the layer above sends every second number of an array. So each number is a
 * separate buffer, and an IOV never holds them all. strait run -n 4 ./ch3 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strait.h"

enum { IOV_LIMIT = 16, NUMBERS = 1000, MESSAGES = 20 };

/* The header that the layer above puts before its data. */
struct header {
    uint32_t number;
    uint32_t count;
};

/* A pending message, sent or received. */
struct request {
    struct header header;
    struct iovec iov[IOV_LIMIT];
    int iov_count;
    uint64_t *data;     /* every second of them */
    uint32_t described; /* numbers in IOVs so far */
    int is_complete;
    struct request *next;
};

/* A connection: its pending sends, and its arriving message. */
struct connection {
    strait_vc vc;
    struct request *first, *last; /* pending sends */
    struct header header;         /* of the arriving message */
    size_t header_bytes;
    struct request *receiving; /* NULL: the header is not complete */
};

static void must(int code)
{
    if (code != STRAIT_OK) {
        fprintf(stderr, "%s\n", strait_error_message());
        exit(1);
    }
}

/* ---- the layer above: the upcalls ------------------------------------------------------------ */

static struct request *posted; /* receives, in order; all from one peer here */

/* Describes the next numbers of a request. Returns false if there are none, and the request is
 * complete. */
static int reload(struct request *request)
{
    request->iov_count = 0;
    while (request->described < request->header.count && request->iov_count < IOV_LIMIT) {
        struct iovec *buffer = &request->iov[request->iov_count++];
        buffer->iov_base = &request->data[2 * request->described++];
        buffer->iov_len = sizeof(uint64_t);
    }
    request->is_complete = request->iov_count == 0;
    return !request->is_complete;
}

/* Handles a header, and returns the request for its data. */
static struct request *arrived(const struct header *header)
{
    struct request *request = posted;
    if (request == NULL || header->count > NUMBERS) {
        fprintf(stderr, "message %u of %u numbers is not expected\n", header->number, header->count);
        exit(1);
    }
    posted = request->next;
    request->header = *header;
    reload(request);
    return request;
}

/* ---- the channel ----------------------------------------------------------------------------- */

/* Removes bytes from the front of an IOV. */
static void advance(struct request *request, size_t bytes)
{
    int done = 0;
    while (done < request->iov_count && bytes >= request->iov[done].iov_len) {
        bytes -= request->iov[done++].iov_len;
    }
    request->iov_count -= done;
    memmove(request->iov, request->iov + done, sizeof(struct iovec) * (size_t)request->iov_count);
    if (request->iov_count > 0) {
        request->iov[0].iov_base = (char *)request->iov[0].iov_base + bytes;
        request->iov[0].iov_len -= bytes;
    }
}

/* Sends a request's header and data, after the pending sends. */
static void start_send(struct connection *connection, struct request *request)
{
    request->iov[0].iov_base = &request->header;
    request->iov[0].iov_len = sizeof request->header;
    request->iov_count = 1;
    request->next = NULL;
    if (connection->first == NULL) {
        connection->first = request;
    } else {
        connection->last->next = request;
    }
    connection->last = request;
}

static int push(struct connection *connection)
{
    struct request *request = connection->first;
    int bytes = 0;
    if (request == NULL) {
        return 0;
    }
    must(strait_rdma_put_datav(connection->vc, request->iov, request->iov_count, &bytes));
    advance(request, (size_t)bytes);
    if (request->iov_count == 0 && !reload(request)) {
        connection->first = request->next;
    }
    return bytes > 0;
}

static int pull(struct connection *connection)
{
    struct request *request = connection->receiving;
    int bytes = 0;
    if (request == NULL) {
        struct iovec rest;
        rest.iov_base = (char *)&connection->header + connection->header_bytes;
        rest.iov_len = sizeof connection->header - connection->header_bytes;
        must(strait_rdma_read_datav(connection->vc, &rest, 1, &bytes));
        connection->header_bytes += (size_t)bytes;
        if (connection->header_bytes == sizeof connection->header) {
            connection->header_bytes = 0;
            connection->receiving = arrived(&connection->header);
        }
    } else {
        must(strait_rdma_read_datav(connection->vc, request->iov, request->iov_count, &bytes));
        advance(request, (size_t)bytes);
        if (request->iov_count == 0) {
            reload(request);
        }
    }
    if (connection->receiving != NULL && connection->receiving->is_complete) {
        connection->receiving = NULL;
    }
    return bytes > 0;
}

/* Makes progress on all connections. */
static void progress(struct connection *connections, uint32_t ranks)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        while (push(&connections[rank]) | pull(&connections[rank])) {
        }
    }
}

/* ---- a program: each rank sends to the next, and receives from the previous one -------------- */

static uint64_t value(uint32_t rank, uint32_t message, uint32_t number)
{
    return ((uint64_t)rank << 40) + ((uint64_t)message << 20) + number;
}

static struct request *made(uint32_t rank, uint32_t message, int is_filled)
{
    struct request *request = (struct request *)calloc(1, sizeof *request);
    uint64_t *data = (uint64_t *)calloc(2 * NUMBERS, sizeof *data);
    if (request == NULL || data == NULL) {
        exit(1);
    }
    request->data = data;
    request->header.number = message;
    request->header.count = NUMBERS - message;
    for (uint32_t number = 0; is_filled && number < request->header.count; number++) {
        data[2 * number] = value(rank, message, number);
    }
    return request;
}

static int is_right(const struct request *request, uint32_t from, uint32_t message)
{
    for (uint32_t number = 0; number < NUMBERS; number++) {
        uint64_t expected = number < NUMBERS - message ? value(from, message, number) : 0;
        if (request->data[2 * number] != expected || request->data[2 * number + 1] != 0) {
            return 0;
        }
    }
    return request->header.number == message;
}

int main(void)
{
    struct request *sent[MESSAGES], *received[MESSAGES];
    struct connection *connections;
    int has_parent, rank, complete = 0;
    uint32_t ranks, me, from;
    strait_world group;

    must(strait_rdma_init_process_group(&has_parent, &group, &rank));
    must(strait_rdma_init(group, rank));
    must(strait_size(group, &ranks));
    me = (uint32_t)rank;
    from = (me + ranks - 1) % ranks;
    connections = (struct connection *)calloc(ranks, sizeof *connections);
    if (connections == NULL) {
        return 1;
    }
    for (uint32_t peer = 0; peer < ranks; peer++) {
        must(strait_rdma_vc(group, peer, &connections[peer].vc));
    }
    for (int message = MESSAGES - 1; message >= 0; message--) {
        received[message] = made(from, (uint32_t)message, 0);
        received[message]->next = posted;
        posted = received[message];
    }
    for (uint32_t message = 0; message < MESSAGES; message++) {
        sent[message] = made(me, message, 1);
        start_send(&connections[(me + 1) % ranks], sent[message]);
    }
    while (complete < 2 * MESSAGES) {
        progress(connections, ranks);
        complete = 0;
        for (int message = 0; message < MESSAGES; message++) {
            complete += sent[message]->is_complete + received[message]->is_complete;
        }
    }
    for (uint32_t message = 0; message < MESSAGES; message++) {
        if (!is_right(received[message], from, message)) {
            fprintf(stderr, "rank %u: message %u is wrong\n", me, message);
            return 1;
        }
        free(sent[message]->data), free(sent[message]);
        free(received[message]->data), free(received[message]);
    }
    free(connections);
    /* A rank that left early would be missed by ranks that still poll their connection to it. */
    must(strait_barrier(group, 0));
    must(strait_rdma_finalize());
    printf("rank %u: %d messages\n", me, MESSAGES);
    return 0;
}

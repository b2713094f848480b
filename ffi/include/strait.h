/*
 * strait.h: the C interface of Strait, a transport kernel for MPI. C99 and C++.
 *
 * Every function that can fail returns STRAIT_OK (0) or one of strait_code; strait_error_message() then says, for the calling
 * thread, what happened, where, with which peer, and what to do. The library starts no thread that was not asked for, installs no
 * signal handler, hooks nothing, prints nothing, and nothing unwinds out of it.
 *
 * Handles are checked: one that is null, of another kind, or given back makes STRAIT_ERR_HANDLE, never a crash.
 *
 * Threads. A world, with all that is open in it, is used by one thread at a time; it need not be the same one always. Different
 * worlds are used by different threads as they like. A function for which something else holds says so.
 *
 * Fork. Handles of the parent are nothing to a child: STRAIT_ERR_FORKED. A child may exec, or open a world of its own.
 *
 * A pointer is to lead to what its function says, for as long as it says; the library cannot check that. Where it says "or NULL",
 * it may be null; anywhere else null makes STRAIT_ERR_ARGUMENT.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef STRAIT_H
#define STRAIT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version --------------------------------------------------------------------------------------------------------------- */

/* The interface that this header describes: the upper half changes when programs must be built anew, the lower when something is
 * added. strait_init compares it with the library's. */
#define STRAIT_ABI 0x10000u

/* The library's STRAIT_ABI, and its version as text. Any thread. */
uint32_t strait_abi(void);
const char *strait_version(void);

/* ---- Errors ---------------------------------------------------------------------------------------------------------------- */

enum strait_code {
    STRAIT_OK = 0,
    STRAIT_ERR_ARGUMENT = 1,      /* a null pointer, a length, a context that cannot be */
    STRAIT_ERR_HANDLE = 2,        /* a handle that is null, of another kind, or given back */
    STRAIT_ERR_VERSION = 3,       /* header and library do not fit */
    STRAIT_ERR_BOOT = 4,          /* this process could not join its job */
    STRAIT_ERR_ENVIRONMENT = 5,   /* a STRAIT_* variable has no usable value */
    STRAIT_ERR_NETWORK = 6,       /* the job spans nodes, and there is no network */
    STRAIT_ERR_MEMORY = 7,        /* no private memory, or none in the segment */
    STRAIT_ERR_SYSTEM = 8,        /* the system refuses something */
    STRAIT_ERR_RANK = 9,          /* no such rank */
    STRAIT_ERR_TAG = 10,          /* no such tag, or a wildcard where none may be */
    STRAIT_ERR_TRUNCATED = 11,    /* the message was longer than the buffer, which was filled */
    STRAIT_ERR_PEER_FAILED = 12,  /* the peer died: strait_error_peer() */
    STRAIT_ERR_PEER_FINISHED = 13, /* the peer has left the job */
    STRAIT_ERR_UNREACHABLE = 14,  /* the peer is on another node, without a network */
    STRAIT_ERR_CANCELLED = 15,    /* the operation was cancelled */
    STRAIT_ERR_COLLECTIVE = 16,   /* a collective call by whose arguments something is wrong */
    STRAIT_ERR_WINDOW = 17,       /* a window was not made, or refuses the operation */
    STRAIT_ERR_CORRUPT = 18,      /* shared memory holds what no correct peer writes: end the job */
    STRAIT_ERR_STOPPED = 19,      /* this rank gave up and communicates no more */
    STRAIT_ERR_BUSY = 20,         /* something is still open, or in use further up the stack */
    STRAIT_ERR_FORKED = 21,       /* the handle is of the process that forked this one */
    STRAIT_ERR_INTERNAL = 22      /* a fault of this library: report it */
};

/* What the calling thread's last failed call says; empty if none failed. Valid until the next failure in this thread, or its
 * end. Any thread. */
const char *strait_error_message(void);

/* The rank that the calling thread's last failure is about; -1 if it is about none. Any thread. */
int64_t strait_error_peer(void);

/* The name of a code, as above; "unknown" for any other number. Any thread. */
const char *strait_error_name(int code);

/* ---- Worlds ---------------------------------------------------------------------------------------------------------------- */

/* This process's place in a job. Never followed: a number in the shape of a pointer. NULL: none. */
typedef struct strait_world_ *strait_world;

/* An operation under way. */
typedef struct strait_request_ *strait_request;

/* What `get` of strait_exchange returns when nothing was put under the key. */
#define STRAIT_NO_KEY (-1)

/* How the ranks of a job find each other without a launcher that Strait knows: the embedder's own key-value exchange. What a rank
 * put is found by all once all have passed the same fence. Callbacks return 0, or a number of the embedder's that the error names.
 * They are called by the thread that is inside strait_init (all of them), or making a device's connections. */
typedef struct strait_exchange {
    size_t size;                /* sizeof(strait_exchange) */
    uint32_t rank;              /* this process, from 0 */
    uint32_t ranks;             /* processes of the job */
    const uint32_t *nodes;      /* some number of the node of each rank, or NULL: ranks of one host and boot are on one */
    void *context;              /* given to the callbacks */
    /* Keeps a copy of `bytes` bytes under `key`, of letters, digits, '-', '_' and '.'; each key is put once in a job. */
    int (*put)(void *context, const char *key, const void *value, size_t bytes);
    /* Sets *bytes to the value's length, and copies it to `value` if it is no longer than `room`. STRAIT_NO_KEY if there is none. */
    int (*get)(void *context, const char *key, void *value, size_t room, size_t *bytes);
    /* Waits until all ranks have called it. */
    int (*fence)(void *context);
    /* Ends the job with this exit code, as far as it can. Or NULL. */
    void (*abort)(void *context, int code);
} strait_exchange;

/* What an embedder may give. Zeroed but for `size`: the defaults. */
typedef struct strait_options {
    size_t size;                /* sizeof(strait_options) */
    /* Told what strait_error_message() says whenever a call on the world fails, by the thread that called. Or NULL. It calls
     * nothing of this library but strait_error_*. */
    void (*log)(void *context, const char *message);
    void *log_context;
    /* Called instead of giving up the processor or sleeping, when a call that waits finds nothing to do. Or NULL. It may run other
     * work, other calls on this world among it; it returns. */
    void (*yield)(void *context);
    void *yield_context;
    /* How ranks find each other, or NULL: as the environment says (strait run, or a launcher that speaks PMI-1). Copied, but for
     * `context`, which stays the embedder's until the world is finalized. */
    const strait_exchange *exchange;
} strait_options;

/* Joins the job. `abi` is STRAIT_ABI; `options` or NULL. With the environment: once per process. All ranks join together, but
 * under strait run. Any thread. MPI-4.1 11.2.1. */
int strait_init(uint32_t abi, const strait_options *options, strait_world *world);

/* A job of `ranks` ranks in this process, one world for each at worlds[0] to worlds[ranks - 1], to be used by a thread each: for
 * tests, and for programs with threads in place of processes. Any thread. */
int strait_init_in_process(uint32_t abi, uint32_t ranks, strait_world *worlds);

/* Leaves the job: waits until what was sent has been handed over. Requests that are not over are settled as by
 * strait_request_free. The handle, and those of all that is open in the world, are void from the call on, whatever it returns. MPI-4.1 11.2.2. */
int strait_finalize(strait_world world);

/* Ends this process with exit code `code`, and the job with it as far as the launcher can. Returns only for a bad handle.
 * MPI-4.1 9.3. */
int strait_abort(strait_world world, int code);

/* This process, and processes of the job. */
int strait_rank(strait_world world, uint32_t *rank);
int strait_size(strait_world world, uint32_t *ranks);

/* The node map: number of nodes, and the node of a rank, from 0. Ranks on one node share memory. */
int strait_nodes(strait_world world, uint32_t *nodes);
int strait_node_of(strait_world world, uint32_t rank, uint32_t *node);

/* Moves whatever can move, without waiting. */
int strait_progress(strait_world world);

/* Waits until all ranks have called it in this context. MPI-4.1 6.3. */
int strait_barrier(strait_world world, uint32_t context);

/* ---- Messages -------------------------------------------------------------------------------------------------------------- */

/* Contexts keep messages apart, as communicators do: from 0 to STRAIT_CONTEXT_MAX. Tags go from 0 to STRAIT_TAG_MAX. */
#define STRAIT_CONTEXT_MAX 0x7fffffefu
#define STRAIT_TAG_MAX 0x7fffffffu

/* Match any source, and any tag, in receives and probes. */
#define STRAIT_ANY_SOURCE UINT32_MAX
#define STRAIT_ANY_TAG UINT32_MAX

/* What a receive got. Of a send: its destination, its tag, and its bytes. */
typedef struct strait_status {
    uint32_t source;
    uint32_t tag;
    uint64_t bytes;
} strait_status;

/* Sends `bytes` bytes; returns when they may be changed. MPI-4.1 3.2.1. */
int strait_send(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag);

/* Receives one message of at most `bytes` bytes; waits for it. `status` or NULL. MPI-4.1 3.2.4. */
int strait_recv(strait_world world, uint32_t context, void *buffer, size_t bytes, uint32_t source, uint32_t tag,
                strait_status *status);

/* Begin to send, to receive. The bytes stay as they are, the buffer is touched by nobody, until the request is over, whichever way:
 * strait_test, strait_wait, strait_request_free or strait_finalize end it. MPI-4.1 3.7.2. */
int strait_isend(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag,
                 strait_request *request);
int strait_irecv(strait_world world, uint32_t context, void *buffer, size_t bytes, uint32_t source, uint32_t tag,
                 strait_request *request);

/* As those, of the concatenation of `count` buffers. The list itself may be changed when the call returns. */
int strait_isendv(strait_world world, uint32_t context, const struct iovec *parts, int count, uint32_t destination, uint32_t tag,
                  strait_request *request);
int strait_irecvv(strait_world world, uint32_t context, const struct iovec *parts, int count, uint32_t source, uint32_t tag,
                  strait_request *request);

/* Describe a message that has arrived, without receiving it: strait_probe waits for one, strait_iprobe sets *found. `status` or
 * NULL. MPI-4.1 3.8.1. */
int strait_probe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, strait_status *status);
int strait_iprobe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, int *found, strait_status *status);

/* Sets *done when the operation is over; makes progress otherwise. Over, well or not, *request becomes NULL, and the call returns
 * how it ended. `status` or NULL. MPI-4.1 3.7.3. */
int strait_test(strait_request *request, int *done, strait_status *status);

/* Waits until the operation is over. *request becomes NULL. `status` or NULL. MPI-4.1 3.7.3. */
int strait_wait(strait_request *request, strait_status *status);

/* Waits for all of them; those that are NULL are left out. The first failure, once all are over. `statuses`: as many, or NULL.
 * MPI-4.1 3.7.5. */
int strait_wait_all(size_t count, strait_request *requests, strait_status *statuses);

/* Cancels a receive that no message has matched; *cancelled, or NULL, says whether it did. The request is to be waited for in
 * either case. MPI-4.1 3.8.4. */
int strait_cancel(strait_request request, int *cancelled);

/* Gives a request back: a send goes on from a copy, a receive that no message has matched is cancelled, one whose message is
 * arriving lets it go. *request becomes NULL; its buffers are the caller's again. */
int strait_request_free(strait_request *request);

#ifdef __cplusplus
}
#endif

#endif

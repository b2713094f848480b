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

/* Structs that begin with `size` grow at their end; the caller sets it to the sizeof of its header. A smaller one than the library's: what
 * lies beyond counts as zero where the library reads, and is not written where it writes; `size` stays as it is. A larger one:
 * STRAIT_ERR_VERSION, and nothing is read or written, since the library is older than the header. Less than sizeof(size_t):
 * STRAIT_ERR_ARGUMENT. */

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

/* An operation under way, a message that a probe has matched, memory that others reach, a connection of the RDMA channel: likewise. */
typedef struct strait_request_ *strait_request;
typedef struct strait_message_ *strait_message;
typedef struct strait_window_ *strait_window;
typedef struct strait_vc_ *strait_vc;

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
    /* Says what memory was unmapped, or mapped anew, since it was last asked: sets *base and *bytes, and returns not 0; or returns 0 when
     * there is no more. Asked before memory is registered with the device, by the thread that uses the world or by the progress
     * thread, never by two at once; it calls nothing of this library. Or NULL. With it the world keeps all memory registered that messages
     * and windows use, and what was unmapped is to be said, here or by strait_invalidate, before such an address is used again. */
    int (*watch_memory)(void *context, void **base, size_t *bytes);
    void *watch_context;
} strait_options;

/* Joins the job. `abi` is STRAIT_ABI; `options` or NULL. With the environment: once per process. All ranks join together, but
 * under strait run. Any thread. MPI-4.1 11.2.1. */
int strait_init(uint32_t abi, const strait_options *options, strait_world *world);

/* A job of `ranks` ranks in this process, one world for each at worlds[0] to worlds[ranks - 1], to be used by a thread each: for
 * tests, and for programs with threads in place of processes. Any thread. */
int strait_init_in_process(uint32_t abi, uint32_t ranks, strait_world *worlds);

/* Leaves the job: waits until what was sent has been handed over. Requests that are not over are settled as by
 * strait_request_free. STRAIT_ERR_BUSY, and nothing is changed, while windows are open or a packet's handler runs; otherwise the
 * handle, and those of all that is open in the world, are void from the call on, whatever it returns. MPI-4.1 11.2.2. */
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

/* Moves whatever can move, without waiting, and hands packets to their handlers. */
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

/* Synchronous sends: as strait_send, strait_isend and strait_isendv, but over not before the matching receive has begun. A short one
 * stays with its sender until then, so both ranks have to be inside the library for it to cross. MPI-4.1 3.4, 3.7.2. */
int strait_ssend(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag);
int strait_issend(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag,
                  strait_request *request);
int strait_issendv(strait_world world, uint32_t context, const struct iovec *parts, int count, uint32_t destination, uint32_t tag,
                   strait_request *request);

/* Describe a message that has arrived, without receiving it: strait_probe waits for one, strait_iprobe sets *found. `status` or
 * NULL. MPI-4.1 3.8.1. */
int strait_probe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, strait_status *status);
int strait_iprobe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, int *found, strait_status *status);

/* Matched probes: as strait_probe and strait_iprobe, and the message is taken out of matching, so that no other probe or receive finds it.
 * It is received by its handle alone, into a buffer as for strait_recv, strait_irecv and strait_irecvv; *message becomes NULL then,
 * however the receive ends, but for a call that is refused (STRAIT_ERR_ARGUMENT, STRAIT_ERR_HANDLE, STRAIT_ERR_BUSY, STRAIT_ERR_MEMORY). If
 * its sender dies before all of it could be had, receiving it ends with STRAIT_ERR_PEER_FAILED. MPI-4.1 3.8.2, 3.8.3. */
int strait_mprobe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, strait_message *message, strait_status *status);
int strait_improbe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, int *found, strait_message *message,
                   strait_status *status);
int strait_mrecv(strait_message *message, void *buffer, size_t bytes, strait_status *status);
int strait_imrecv(strait_message *message, void *buffer, size_t bytes, strait_request *request);
int strait_imrecvv(strait_message *message, const struct iovec *parts, int count, strait_request *request);

/* Gives a matched message back to matching, as if it came only now: the oldest receive that was posted meanwhile takes it, if one matches;
 * else it waits where it waited before. *message becomes NULL. */
int strait_message_free(strait_message *message);

/* Sets *done when the operation is over; makes progress otherwise. Over, well or not, *request becomes NULL, and the call returns
 * how it ended. `status` or NULL; it stays as it was if the operation failed. A *request that is NULL is STRAIT_ERR_HANDLE, here and for
 * strait_wait: an MPI answers for its MPI_REQUEST_NULL itself. MPI-4.1 3.7.3. */
int strait_test(strait_request *request, int *done, strait_status *status);

/* Waits until the operation is over. *request becomes NULL. `status` as for strait_test. MPI-4.1 3.7.3. */
int strait_wait(strait_request *request, strait_status *status);

/* Waits for all of them; those that are NULL are left out. The first failure, once all are over. `statuses`: as many, or NULL; that of one
 * that failed stays as it was. `codes`: as many, or NULL: how each ended, STRAIT_OK for those left out, from which an MPI has its
 * MPI_ERR_IN_STATUS. MPI-4.1 3.7.5. */
int strait_wait_all(size_t count, strait_request *requests, strait_status *statuses, int *codes);

/* Waits until one of them is over, as strait_wait does, and says which; those that are NULL are left out, and SIZE_MAX is the answer
 * when all are. All are of one world. MPI-4.1 3.7.5. */
int strait_wait_any(size_t count, strait_request *requests, size_t *index, strait_status *status);

/* Sets *done if all of them are over, and ends them as strait_wait_all does; those that are NULL are left out. Makes progress otherwise, and
 * ends none. All are of one world. MPI-4.1 3.7.5. */
int strait_test_all(size_t count, strait_request *requests, int *done, strait_status *statuses, int *codes);

/* Sets *done if one of them is over, and ends it as strait_wait_any does; also when all are NULL: then *index is SIZE_MAX, as it is when
 * none is over. Makes progress otherwise. All are of one world. MPI-4.1 3.7.5. */
int strait_test_any(size_t count, strait_request *requests, int *done, size_t *index, strait_status *status);

/* Waits until one of them is over, and ends all that are: *over is their number, and indices[0] to indices[*over - 1] are their places,
 * ascending; statuses and codes, or NULL, are in the order of the indices, and there is room for `count` of each. Those that are NULL are
 * left out, and *over is SIZE_MAX when all are. The first failure, as by strait_wait_all. All are of one world. MPI-4.1 3.7.5. */
int strait_wait_some(size_t count, strait_request *requests, size_t *over, size_t *indices, strait_status *statuses, int *codes);

/* As that, without waiting: makes progress when none is over, and *over is 0 if none is then. MPI-4.1 3.7.5. */
int strait_test_some(size_t count, strait_request *requests, size_t *over, size_t *indices, strait_status *statuses, int *codes);

/* Cancels a receive that no message has matched; *cancelled, or NULL, says whether it did. The request is to be waited for in
 * either case. MPI-4.1 3.8.4. */
int strait_cancel(strait_request request, int *cancelled);

/* Gives a request back: a send goes on from a copy, a receive that no message has matched is cancelled, one whose message is
 * arriving lets it go. *request becomes NULL; its buffers are the caller's again. */
int strait_request_free(strait_request *request);

/* ---- Active messages ------------------------------------------------------------------------------------------------------- */

/* Called with a packet that has come: its bytes are the handler's until it returns. By the thread that is inside strait_progress,
 * strait_test, strait_wait or one of their like for several, and by no other call. It may make any call on the world but
 * strait_finalize; those that wait hand over no packets meanwhile. */
typedef void (*strait_packet_handler)(void *context, strait_world world, uint32_t source, uint32_t id, const void *data,
                                      size_t bytes);

/* Has packets with this id, from 0 to STRAIT_TAG_MAX, handed to `handler`; NULL: to none. Packets of one source come in the order in
 * which they were sent. One whose id has no handler waits, and what comes after it. */
int strait_packet_handle(strait_world world, uint32_t id, strait_packet_handler handler, void *context);

/* Sends the concatenation of `count` buffers as a packet, of any length up to SIZE_MAX / 2: there is no longest. One longer than eager_max of
 * strait_info, between nodes stream_max, crosses as a large message does, when its handler is due, to memory that the receiver has for as long as the world: when
 * there is none, what should have handed it over returns STRAIT_ERR_MEMORY, and the packet waits. For large data that have a place to
 * go see strait_lmt_pre_send. `request` as for strait_isendv; or NULL: what cannot leave at once is copied,
 * and the buffers are the caller's again when the call returns. */
int strait_packet_send(strait_world world, uint32_t destination, uint32_t id, const struct iovec *parts, int count,
                       strait_request *request);

/* ---- Large messages under the embedder's own rendezvous --------------------------------------------------------------------- */

/* The LMT interface of Nemesis (section 3.2). The embedder matches: it sends its own RTS with the cookie in it, and passes the cookie in
 * at the receiver when the RTS has met its receive. Of the paper's functions two are left. lmt_pre_recv and lmt_start_recv are one:
 * the transfer never wants a CTS, since the receiver can begin it alone, so there is no lmt_start_send. Each side's request says when its part
 * is done, which stands for lmt_post_send, lmt_post_recv and DONE; there are no further cookies. */

/* Bytes to be sent along with an RTS, as they are. Ranks of one job understand each other's. */
typedef struct strait_cookie {
    uint32_t mark;
    uint32_t sender;
    uint32_t number;
    uint32_t receiver;
    uint64_t bytes;             /* of the message */
} strait_cookie;

/* Describes what is to be sent. The buffers stay as they are until the request is over, which the receiver decides. */
int strait_lmt_pre_send(strait_world world, uint32_t receiver, const struct iovec *parts, int count, strait_cookie *cookie,
                        strait_request *request);

/* Begins the transfer to these buffers. Each cookie is passed in once. */
int strait_lmt_start_recv(strait_world world, const strait_cookie *cookie, const struct iovec *parts, int count,
                          strait_request *request);

/* ---- The RDMA channel ------------------------------------------------------------------------------------------------------ */

/* The five functions of MPICH2's RDMA channel (Liu et al. 2004, section 3.2): between each two ranks a pipe of bytes each way. One channel
 * per process; its functions by one thread at a time, that which uses the world. */

/* Joins the job that the environment tells of; the process group is a world like any other. *has_parent is 0. */
int strait_rdma_init_process_group(int *has_parent, strait_world *group, int *rank);

/* Opens the channel of a process group, however that was made; `rank` is this process's. */
int strait_rdma_init(strait_world group, int rank);

/* Closes the channel: its connections are void. What was put is delivered. Leaves the job, too, if strait_rdma_init_process_group joined it. */
int strait_rdma_finalize(void);

/* The connection to a rank of the group. The same one each time. */
int strait_rdma_vc(strait_world group, uint32_t rank, strait_vc *vc);

/* Puts bytes of these buffers, one after the other, into the pipe: as many as there is room for, *num_bytes of them, from 0 to all.
 * Does not wait; the buffers are the caller's when it returns. Call again with the rest. */
int strait_rdma_put_datav(strait_vc vc, const struct iovec *iov, int n, int *num_bytes);

/* Gets bytes out of the pipe, in the order in which they were put: as many as are there and the buffers hold, *num_bytes of them. Does
 * not wait. */
int strait_rdma_read_datav(strait_vc vc, const struct iovec *iov, int n, int *num_bytes);

/* ---- Windows --------------------------------------------------------------------------------------------------------------- */

/* Memory of each member of a group that the others reach without its help (MPI-4.1 chapter 12). Targets are places in the group, from
 * 0; displacements count in units of the target's. Which epochs allow what is the embedder's business: operations may be called
 * at any time. They are done, at the origin, when their call returns. */

/* Who has a window, and what they choose for it. NULL: all ranks, context 0, and the defaults. Zeroed but for `size`: likewise. All
 * members give the same ranks, context and design; the rest is each one's own. */
typedef struct strait_members {
    size_t size;                /* sizeof(strait_members) */
    const uint32_t *ranks;      /* in the order of their places; or NULL: all */
    uint32_t count;
    uint32_t context;           /* in which the members meet */
    uint32_t single_accumulates; /* not 0: most accumulates are of one number of 8 bytes */
    uint32_t lock_design;       /* a strait_lock_design */
    uint32_t lock_policy;       /* a strait_lock_policy, for hybrid locks */
    uint32_t lock_hysteresis;   /* requests after which STRAIT_POLICY_HYSTERESIS moves a lock */
    uint32_t lock_backoff;      /* how many times longer than at first the pauses get between two looks at a lock that another
                                 * holds; 1: they do not; 0: the default */
    uint32_t reserved;          /* 0 */
} strait_members;

/* How a window's locks work (Jiang et al. 2004; Santhanaraman et al. 2009). All but the last three have the target's lock manager take part:
 * in its calls, or by a thread that the design starts. */
enum strait_lock_design {
    STRAIT_LOCK_DEFAULT = 0,    /* as STRAIT_WINDOW_LOCK says, or hybrid */
    STRAIT_LOCK_TWO_SIDED = 1,
    STRAIT_LOCK_THREAD = 2,
    STRAIT_LOCK_EVENT = 3,
    STRAIT_LOCK_TEST_AND_SET = 4,
    STRAIT_LOCK_MCS = 5,
    STRAIT_LOCK_HYBRID = 6
};

/* When this member moves a hybrid lock between CPU mode and network mode: with every request that the other suits, after so many,
 * or never. */
enum strait_lock_policy {
    STRAIT_POLICY_FOLLOW = 0,
    STRAIT_POLICY_HYSTERESIS = 1,
    STRAIT_POLICY_PINNED_CPU = 2,
    STRAIT_POLICY_PINNED_NETWORK = 3
};

/* Where a lock is: at a word for processors, or at one for the device. */
enum strait_lock_mode {
    STRAIT_MODE_CPU = 0,
    STRAIT_MODE_NETWORK = 1
};

enum strait_lock_type {
    STRAIT_SHARED = 1,
    STRAIT_EXCLUSIVE = 2
};

/* Which bytes of a part an operation reaches, from its displacement on. */
typedef struct strait_run {
    size_t offset;
    size_t length;
} strait_run;

typedef struct strait_shape {
    size_t count;               /* blocks, or runs */
    size_t block;               /* bytes of a block */
    size_t stride;              /* bytes from the start of one block to that of the next */
    const strait_run *runs;     /* any runs, in place of blocks; or NULL */
} strait_shape;

enum strait_type {
    STRAIT_INT8 = 0,
    STRAIT_UINT8 = 1,
    STRAIT_INT16 = 2,
    STRAIT_UINT16 = 3,
    STRAIT_INT32 = 4,
    STRAIT_UINT32 = 5,
    STRAIT_INT64 = 6,
    STRAIT_UINT64 = 7,
    STRAIT_FLOAT = 8,
    STRAIT_DOUBLE = 9
};

/* MPI-4.1 6.9.2, and 12.3.4 for the last two. Logical and bitwise ones are of integers. */
enum strait_op {
    STRAIT_SUM = 0,
    STRAIT_PROD = 1,
    STRAIT_MIN = 2,
    STRAIT_MAX = 3,
    STRAIT_LAND = 4,
    STRAIT_LOR = 5,
    STRAIT_LXOR = 6,
    STRAIT_BAND = 7,
    STRAIT_BOR = 8,
    STRAIT_BXOR = 9,
    STRAIT_REPLACE = 10,
    STRAIT_NO_OP = 11
};

/* What a caller promises of an epoch; several are joined by | (MPI-4.1 12.5.5). */
enum strait_assert {
    STRAIT_NO_STORE = 1,
    STRAIT_NO_PUT = 2,
    STRAIT_NO_PRECEDE = 4,
    STRAIT_NO_SUCCEED = 8,
    STRAIT_NO_CHECK = 16
};

/* What makes a window's accumulates atomic. */
enum strait_atomicity {
    STRAIT_ATOMIC_PROCESSOR = 0, /* atomic instructions: the owner's own belong to it */
    STRAIT_ATOMIC_LOCKS = 1,
    STRAIT_ATOMIC_DEVICE = 2
};

/* What strait_window_needs_target is asked about: strait_put and its like; strait_get; strait_accumulate, strait_get_accumulate;
 * strait_fetch_and_op and strait_compare_and_swap; locks and unlocks; puts and gets of many small blocks. */
enum strait_operation {
    STRAIT_OPERATION_PUT = 0,
    STRAIT_OPERATION_GET = 1,
    STRAIT_OPERATION_ACCUMULATE = 2,
    STRAIT_OPERATION_FETCH_AND_OP = 3,
    STRAIT_OPERATION_LOCK = 4,
    STRAIT_OPERATION_BLOCKS = 5
};

/* Make a window; every member calls it. Over memory in the segment, zeroed; over consecutive memory there, all members on one node;
 * over the caller's memory, which is the window's until strait_window_free has succeeded. MPI-4.1 12.2.2, 12.2.3, 12.2.1. */
int strait_window_allocate(strait_world world, const strait_members *members, size_t bytes, size_t unit, strait_window *window);
int strait_window_allocate_shared(strait_world world, const strait_members *members, size_t bytes, size_t unit,
                                  strait_window *window);
int strait_window_create(strait_world world, const strait_members *members, void *base, size_t bytes, size_t unit,
                         strait_window *window);

/* Make a window to which nothing is attached yet; every member calls it. Displacements count bytes. MPI-4.1 12.2.4. */
int strait_window_create_dynamic(strait_world world, const strait_members *members, strait_window *window);

/* Attaches memory to a dynamic window: at most 63 at a time. It is the window's until no member reaches it any more and it is detached, or
 * the window freed. *displacement is that of its first byte, for all operations of all members; the embedder tells them. It knows
 * this attachment from earlier and later ones at the same address; who does without that uses the address. MPI-4.1 12.2.4. */
int strait_window_attach(strait_window window, void *base, size_t bytes, size_t *displacement);

/* Detaches what strait_window_attach gave this displacement, or what begins at this address: STRAIT_ERR_WINDOW for whoever reaches for it
 * from now on. Does not wait. MPI-4.1 12.2.4. */
int strait_window_detach(strait_window window, size_t displacement);

/* Gives the window back, when all members have called it. *window becomes NULL, whatever it returns but for a bad handle. When a member
 * died, others may still reach the memory: it is kept until the process ends. MPI-4.1 12.2.5. */
int strait_window_free(strait_window *window);

/* This rank's place; and the part of the member in a place: bytes, unit, and where it is mapped here, NULL if it is not. Each may be NULL. */
int strait_window_place(strait_window window, uint32_t *place);
int strait_window_part(strait_window window, uint32_t target, void **base, size_t *bytes, size_t *unit);

/* A strait_atomicity. */
int strait_window_atomicity(strait_window window, int *atomicity);

/* Whether a strait_operation may need the target's processor to come to its end: its calls, or a thread of the library's there. */
int strait_window_needs_target(strait_window window, int operation, int *needs);

/* Write to, read from the target's part. MPI-4.1 12.3.1, 12.3.2. */
int strait_put(strait_window window, const void *data, size_t bytes, uint32_t target, size_t displacement);
int strait_get(strait_window window, void *buffer, size_t bytes, uint32_t target, size_t displacement);

/* As those, between the concatenation of `count` buffers and the bytes of a shape; as many of both. */
int strait_putv(strait_window window, const struct iovec *parts, int count, uint32_t target, size_t displacement,
                const strait_shape *shape);
int strait_getv(strait_window window, const struct iovec *parts, int count, uint32_t target, size_t displacement,
                const strait_shape *shape);

/* As strait_put and strait_get, with a request; the buffer stays as it is until that is over. MPI-4.1 12.3.5. */
int strait_rput(strait_window window, const void *data, size_t bytes, uint32_t target, size_t displacement,
                strait_request *request);
int strait_rget(strait_window window, void *buffer, size_t bytes, uint32_t target, size_t displacement,
                strait_request *request);

/* Combine each of `count` numbers of the target's with one of `data`: `type` is a strait_type, `op` a strait_op, `shape` or NULL says where
 * they lie; and give what was there before. Numbers lie on multiples of their size. MPI-4.1 12.3.4. */
int strait_accumulate(strait_window window, const void *data, size_t count, int type, uint32_t target, size_t displacement,
                      const strait_shape *shape, int op);
int strait_get_accumulate(strait_window window, const void *data, void *results, size_t count, int type, uint32_t target,
                          size_t displacement, const strait_shape *shape, int op);

/* As those, with a request, which is over when the call returns. MPI-4.1 12.3.5. */
int strait_raccumulate(strait_window window, const void *data, size_t count, int type, uint32_t target, size_t displacement,
                       const strait_shape *shape, int op, strait_request *request);
int strait_rget_accumulate(strait_window window, const void *data, void *results, size_t count, int type, uint32_t target,
                           size_t displacement, const strait_shape *shape, int op, strait_request *request);

/* The same of one number; and write `replacement` if the number is `compare`, of integers. MPI-4.1 12.3.4. */
int strait_fetch_and_op(strait_window window, const void *operand, void *result, int type, uint32_t target, size_t displacement,
                        int op);
int strait_compare_and_swap(strait_window window, const void *compare, const void *replacement, void *result, int type,
                            uint32_t target, size_t displacement);

/* Active synchronisation; `promises` are of strait_assert. MPI-4.1 12.5.1, 12.5.2. */
int strait_window_fence(strait_window window, int promises);
int strait_window_post(strait_window window, const uint32_t *origins, uint32_t count, int promises);
int strait_window_start(strait_window window, const uint32_t *targets, uint32_t count, int promises);
int strait_window_complete(strait_window window);
int strait_window_wait(strait_window window);
int strait_window_test(strait_window window, int *done);

/* Passive synchronisation: `type` is a strait_lock_type. A lock is waited for by the first operation to its target. MPI-4.1 12.5.3. */
int strait_window_lock(strait_window window, int type, uint32_t target, int promises);
int strait_window_unlock(strait_window window, uint32_t target);
int strait_window_lock_all(strait_window window, int promises);
int strait_window_unlock_all(strait_window window);

/* The strait_lock_design of the window: the one asked for, or STRAIT_LOCK_TWO_SIDED where the device lacks the atomics for that. */
int strait_window_lock_design(strait_window window, int *design);

/* What this member did for the window's locks. Set `size` before the call. */
typedef struct strait_lock_counters {
    size_t size;                /* sizeof(strait_lock_counters) */
    uint64_t mode;              /* the strait_lock_mode in which the lock of this member's part is */
    uint64_t to_network;        /* times that this member's lock manager moved that lock to network mode */
    uint64_t to_cpu;            /* times that this member moved a lock to CPU mode */
    uint64_t accesses;          /* to words of locks, by the device */
    uint64_t requests;          /* to lock managers */
} strait_lock_counters;

int strait_window_lock_counters(strait_window window, strait_lock_counters *counters);

/* Complete this rank's operations: at a target, at all; here, of one target, of all. What has a request is complete here when that is
 * over. And order its own accesses to its part with them. MPI-4.1 12.5.4. */
int strait_window_flush(strait_window window, uint32_t target);
int strait_window_flush_all(strait_window window);
int strait_window_flush_local(strait_window window, uint32_t target);
int strait_window_flush_local_all(strait_window window);
int strait_window_sync(strait_window window);

/* ---- Memory ---------------------------------------------------------------------------------------------------------------- */

/* Memory in the node's segment, zeroed, aligned to a page: large messages and windows over it need no system call. It is the caller's until
 * strait_memory_free or strait_finalize. MPI-4.1 9.2. */
int strait_memory_allocate(strait_world world, size_t bytes, void **base);
int strait_memory_free(strait_world world, void *base);

/* Any other memory is registered with the device as it is used, and stays so if strait_options has watch_memory. Forgets the registrations
 * of these bytes: to be called when memory that messages or windows used is unmapped or given back to the system, before or after,
 * unless watch_memory says so. Nothing to do on one node. */
int strait_invalidate(strait_world world, const void *base, size_t bytes);

/* ---- Knowledge ------------------------------------------------------------------------------------------------------------- */

/* What is in force. Set `size` before the call. */
typedef struct strait_info {
    size_t size;                /* sizeof(strait_info) */
    uint32_t rank;
    uint32_t ranks;
    uint32_t node;
    uint32_t nodes;
    uint64_t fastbox_max;       /* longest message that goes through a fastbox, bytes */
    uint64_t eager_max;         /* longest that is copied on a node; longer ones are announced, bytes */
    uint64_t parcel_max;        /* longest that goes in parcels while there are some, bytes */
    uint64_t unexpected_max;    /* private memory for one peer's unexpected messages, bytes */
    uint64_t stream_max;        /* longest that goes in the stream between nodes; longer ones are announced, bytes */
} strait_info;

int strait_get_info(strait_world world, strait_info *info);

/* What has happened so far. Set `size` before the call. */
typedef struct strait_counters {
    size_t size;                /* sizeof(strait_counters) */
    uint64_t unexpected_bytes;  /* held now for messages that nobody has received */
    uint64_t unexpected_peak;   /* the most that it has been */
    uint64_t rtrs_sent;         /* requests to receive, of the speculative rendezvous */
    uint64_t rtrs_retracted;
    uint64_t rtrs_missed;
    uint64_t rtrs_heard;
    uint64_t rtrs_used;
    uint64_t rtrs_stopped;
    uint64_t registration_hits; /* buffers that were found registered */
    uint64_t registration_misses;
    uint64_t registration_evictions;
    uint64_t registration_invalidations;
} strait_counters;

int strait_get_counters(strait_world world, strait_counters *counters);

#ifdef __cplusplus
}
#endif

#endif

/* strait.h: the C interface of Strait, a transport kernel for MPI. C99 and C++.
 *
 * Every function that can fail returns STRAIT_OK (0) or one of strait_code. After a failure,
 * strait_error_message() describes for the calling thread the failure, its place, the peer, and
 * the remedy. The library starts no thread unless asked, installs no signal handler or hook, and
 * prints nothing. Nothing unwinds out of it.
 *
 * Handles are checked. A handle that is null, of another kind, or already closed gives
 * STRAIT_ERR_HANDLE, never a crash.
 *
 * Threads. A world and everything that is open in it is used by one thread at a time, which may
 * change between calls. Different threads may use different worlds at the same time. Functions
 * with another rule state it.
 *
 * Fork. The handles of a parent are invalid in a child: STRAIT_ERR_FORKED. A child may exec, or
 * open a world of its own.
 *
 * A pointer must lead to the memory that its function names, for as long as the function says.
 * The library cannot check that. A pointer may be null only where the text says "or NULL".
 * Elsewhere null gives STRAIT_ERR_ARGUMENT.
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

/* ---- Version --------------------------------------------------------------------------------- */

/* The version of the interface in this header. The upper half changes when programs must be
 * rebuilt, the lower half when something is added. strait_init compares it with the library's
 * version. */
#define STRAIT_ABI 0x10000u

/* Structs that begin with `size` grow at their end. The caller sets `size` to the sizeof of its
 * header. The library never changes it.
 *
 * - A smaller struct than the library's: the missing fields count as zero when the library
 *   reads, and are not written when it writes.
 * - A larger struct: STRAIT_ERR_VERSION, and nothing is read or written, since the library is
 *   older than the header.
 * - A size less than sizeof(size_t): STRAIT_ERR_ARGUMENT. */

/* Return the library's STRAIT_ABI, and its version as text. Any thread may call them. */
uint32_t strait_abi(void);
const char *strait_version(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

enum strait_code {
    STRAIT_OK = 0,
    STRAIT_ERR_ARGUMENT = 1,      /* a null pointer, or an impossible length or context */
    STRAIT_ERR_HANDLE = 2,        /* a handle that is null, of another kind, or closed */
    STRAIT_ERR_VERSION = 3,       /* header and library do not match */
    STRAIT_ERR_BOOT = 4,          /* this process could not join its job */
    STRAIT_ERR_ENVIRONMENT = 5,   /* a STRAIT_* variable has no usable value */
    STRAIT_ERR_NETWORK = 6,       /* the job spans nodes, but there is no network */
    STRAIT_ERR_MEMORY = 7,        /* no private memory, or no memory in the segment */
    STRAIT_ERR_SYSTEM = 8,        /* a system call failed */
    STRAIT_ERR_RANK = 9,          /* no such rank */
    STRAIT_ERR_TAG = 10,          /* no such tag, or a wildcard where none is allowed */
    STRAIT_ERR_TRUNCATED = 11,    /* the message was longer than the buffer, which is full */
    STRAIT_ERR_PEER_FAILED = 12,  /* the peer died: see strait_error_peer() */
    STRAIT_ERR_PEER_FINISHED = 13, /* the peer has left the job */
    STRAIT_ERR_UNREACHABLE = 14,  /* the peer is on another node, without a network */
    STRAIT_ERR_CANCELLED = 15,    /* the operation was cancelled */
    STRAIT_ERR_COLLECTIVE = 16,   /* a collective call with invalid arguments */
    STRAIT_ERR_WINDOW = 17,       /* a window could not be made, or refuses the operation */
    STRAIT_ERR_CORRUPT = 18,      /* a peer wrote invalid data to shared memory: end the job */
    STRAIT_ERR_STOPPED = 19,      /* this rank stopped and no longer communicates */
    STRAIT_ERR_BUSY = 20,         /* an object is still open, or in use further up the stack */
    STRAIT_ERR_FORKED = 21,       /* the handle belongs to the process that forked this one */
    STRAIT_ERR_INTERNAL = 22      /* a fault of this library: report it */
};

/* Returns the message of the calling thread's last failure, or an empty string if no call has
 * failed. It is valid until the next failure in this thread, or until the thread ends. Any
 * thread may call it. */
const char *strait_error_message(void);

/* Returns the rank that the calling thread's last failure concerns, or -1 if it concerns none.
 * Any thread may call it. */
int64_t strait_error_peer(void);

/* Returns the name of a strait_code, or "unknown" for any other number. Any thread may call it. */
const char *strait_error_name(int code);

/* ---- Worlds ---------------------------------------------------------------------------------- */

/* A process's membership in a job. The handle is a number with the type of a pointer, and is
 * never dereferenced. NULL is no world. */
typedef struct strait_world_ *strait_world;

/* Handles of a pending operation, a message that a probe has matched, memory that other ranks
 * access, and a connection of the RDMA channel. NULL is none. */
typedef struct strait_request_ *strait_request;
typedef struct strait_message_ *strait_message;
typedef struct strait_window_ *strait_window;
typedef struct strait_vc_ *strait_vc;

/* Handle of some ranks of a job, for collective operations among them. NULL is none. */
typedef struct strait_group_ *strait_group;

/* The answer of `get` of strait_exchange when no value was put under the key. */
#define STRAIT_NO_KEY (-1)

/* The embedder's own key-value exchange, through which ranks find each other without a launcher
 * that Strait knows. When all ranks have passed the same fence, each rank finds the values that
 * any rank put before it.
 *
 * Callbacks return 0, or a number of the embedder that the error message contains. The thread
 * that calls them is inside strait_init (for all of them), or connects a device. */
typedef struct strait_exchange {
    size_t size;                /* sizeof(strait_exchange) */
    uint32_t rank;              /* this process, from 0 */
    uint32_t ranks;             /* number of processes of the job */
    const uint32_t *nodes;      /* a number for the node of each rank; or NULL: ranks of one
                                 * host and boot are on one node */
    void *context;              /* passed to the callbacks */
    /* Stores a copy of `bytes` bytes under `key`, which has letters, digits, '-', '_' and '.'.
     * Each key is put once in a job. */
    int (*put)(void *context, const char *key, const void *value, size_t bytes);
    /* Sets *bytes to the length of the value, and copies the value to `value` if it fits into
     * `room` bytes. Returns STRAIT_NO_KEY if there is no value. */
    int (*get)(void *context, const char *key, void *value, size_t room, size_t *bytes);
    /* Waits until all ranks have called it. */
    int (*fence)(void *context);
    /* Ends the job with this exit code, as far as possible. Or NULL. */
    void (*abort)(void *context, int code);
} strait_exchange;

/* Options of a world. All fields but `size` may be zero, which selects the defaults. */
typedef struct strait_options {
    size_t size;                /* sizeof(strait_options) */
    /* Receives the text of strait_error_message() whenever a call on the world fails, in the
     * thread that made the call. Also receives warnings, which begin with "warning: ", in
     * strait_init() and strait_finalize(). Or NULL. It calls no function of this library but
     * strait_error_*. */
    void (*log)(void *context, const char *message);
    void *log_context;
    /* Runs instead of a yield or a sleep, when a waiting call finds nothing to do. Or NULL. It
     * may do other work, and may make other calls on this world. It must return. */
    void (*yield)(void *context);
    void *yield_context;
    /* The way in which ranks find each other. NULL: the environment decides (strait run, or a
     * launcher that speaks PMI-1). The struct is copied. `context` remains the embedder's and
     * must stay valid until the world is finalized. */
    const strait_exchange *exchange;
    /* Reports one range of memory that was unmapped or mapped anew since the last call. It sets
     * *base and *bytes, and returns a number other than 0. It returns 0 when there is no further
     * range. Or NULL.
     *
     * The library calls it before it registers memory with the device, in the thread that uses
     * the world or in the progress thread, never in two threads at once. It calls no function of
     * this library.
     *
     * With it, the world keeps all memory registered that messages and windows use. The embedder
     * must report unmapped memory, here or by strait_invalidate, before its addresses are used
     * again. */
    int (*watch_memory)(void *context, void **base, size_t *bytes);
    void *watch_context;
} strait_options;

/* Joins the job. `abi` is STRAIT_ABI, and `options` may be NULL. With the environment, a process
 * joins once. All ranks join together, except under strait run. Any thread may call it. MPI-4.1
 * 11.2.1. */
int strait_init(uint32_t abi, const strait_options *options, strait_world *world);

/* Makes a job of `ranks` ranks in this process, with a world for each in worlds[0] to
 * worlds[ranks - 1]. Each world is used by one thread. It is for tests, and for programs with
 * threads instead of processes. Any thread may call it. */
int strait_init_in_process(uint32_t abi, uint32_t ranks, strait_world *worlds);

/* Leaves the job, after all sent messages have been delivered to the transport. Pending requests
 * are settled as by strait_request_free.
 *
 * It returns STRAIT_ERR_BUSY and changes nothing while windows are open or a packet handler
 * runs. Otherwise the handles of the world and of everything open in it are invalid from the
 * call on, whatever it returns. MPI-4.1 11.2.2. */
int strait_finalize(strait_world world);

/* Ends this process with exit code `code`, and the job as far as the launcher can. It returns
 * only for an invalid handle. MPI-4.1 9.3. */
int strait_abort(strait_world world, int code);

/* Return the rank of this process, and the number of ranks of the job. */
int strait_rank(strait_world world, uint32_t *rank);
int strait_size(strait_world world, uint32_t *ranks);

/* Return the number of nodes, and the node of a rank, from 0. Ranks on one node share memory. */
int strait_nodes(strait_world world, uint32_t *nodes);
int strait_node_of(strait_world world, uint32_t rank, uint32_t *node);

/* Makes progress without waiting, and passes arrived packets to their handlers. */
int strait_progress(strait_world world);

/* Waits until all ranks have called it in this context. MPI-4.1 6.3. */
int strait_barrier(strait_world world, uint32_t context);

/* ---- Messages -------------------------------------------------------------------------------- */

/* Contexts separate messages, as communicators do. They go from 0 to STRAIT_CONTEXT_MAX, tags
 * from 0 to STRAIT_TAG_MAX. */
#define STRAIT_CONTEXT_MAX 0x7fffffefu
#define STRAIT_TAG_MAX 0x7fffffffu

/* Wildcards that match any source or any tag, in receives and probes. */
#define STRAIT_ANY_SOURCE UINT32_MAX
#define STRAIT_ANY_TAG UINT32_MAX

/* Source, tag and length in bytes of a received message. Of an operation on a window: its target,
 * 0, and its length. A send has no status: the values that it leaves here are not specified, as in
 * MPI-4.1 3.7.3. */
typedef struct strait_status {
    uint32_t source;
    uint32_t tag;
    uint64_t bytes;
} strait_status;

/* Sends `bytes` bytes. The caller may change them when it returns. MPI-4.1 3.2.1. */
int strait_send(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag);

/* Waits for one message of at most `bytes` bytes, and receives it. `status` or NULL. MPI-4.1
 * 3.2.4. */
int strait_recv(strait_world world, uint32_t context, void *buffer, size_t bytes, uint32_t source, uint32_t tag,
                strait_status *status);

/* Start a send or a receive. Until the request has ended, the data to send must not change, and
 * the buffer of a receive must not be accessed. strait_test, strait_wait, strait_request_free or
 * strait_finalize end it. MPI-4.1 3.7.2. */
int strait_isend(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag,
                 strait_request *request);
int strait_irecv(strait_world world, uint32_t context, void *buffer, size_t bytes, uint32_t source, uint32_t tag,
                 strait_request *request);

/* Start a send or a receive of the concatenation of `count` buffers. The list itself may be
 * changed when the call returns. */
int strait_isendv(strait_world world, uint32_t context, const struct iovec *parts, int count, uint32_t destination, uint32_t tag,
                  strait_request *request);
int strait_irecvv(strait_world world, uint32_t context, const struct iovec *parts, int count, uint32_t source, uint32_t tag,
                  strait_request *request);

/* Synchronous sends. They differ from strait_send, strait_isend and strait_isendv in that they
 * complete after the matching receive has started. Between nodes a message stays with its sender
 * until then, so both ranks must be inside the library for it to be transferred. MPI-4.1 3.4,
 * 3.7.2. */
int strait_ssend(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag);
int strait_issend(strait_world world, uint32_t context, const void *data, size_t bytes, uint32_t destination, uint32_t tag,
                  strait_request *request);
int strait_issendv(strait_world world, uint32_t context, const struct iovec *parts, int count, uint32_t destination, uint32_t tag,
                   strait_request *request);

/* Describe a message that has arrived, without receiving it. strait_probe waits for a message,
 * strait_iprobe sets *found. `status` or NULL. MPI-4.1 3.8.1. */
int strait_probe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, strait_status *status);
int strait_iprobe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, int *found, strait_status *status);

/* Matched probes. They differ from strait_probe and strait_iprobe in that they take the message
 * out of matching, so that no other probe or receive finds it. Only its handle receives it, into
 * a buffer as for strait_recv, strait_irecv and strait_irecvv.
 *
 * *message becomes NULL then, however the receive ends. It stays only if the call is refused
 * (STRAIT_ERR_ARGUMENT, STRAIT_ERR_HANDLE, STRAIT_ERR_BUSY, STRAIT_ERR_MEMORY). If the sender
 * dies before all of the message has arrived, its receive ends with STRAIT_ERR_PEER_FAILED.
 * MPI-4.1 3.8.2, 3.8.3. */
int strait_mprobe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, strait_message *message, strait_status *status);
int strait_improbe(strait_world world, uint32_t context, uint32_t source, uint32_t tag, int *found, strait_message *message,
                   strait_status *status);
int strait_mrecv(strait_message *message, void *buffer, size_t bytes, strait_status *status);
int strait_imrecv(strait_message *message, void *buffer, size_t bytes, strait_request *request);
int strait_imrecvv(strait_message *message, const struct iovec *parts, int count, strait_request *request);

/* Returns a matched message to matching, as if it had just arrived. The oldest matching receive
 * that was posted meanwhile takes it. If there is none, it waits at its previous place. *message
 * becomes NULL. */
int strait_message_free(strait_message *message);

/* Sets *done if the operation is complete, and makes progress otherwise. When it is complete,
 * with or without an error, *request becomes NULL, and the call returns the result of the
 * operation. `status` or NULL. It is unchanged if the operation failed.
 *
 * A *request that is NULL gives STRAIT_ERR_HANDLE, here and in strait_wait. An MPI handles its
 * own MPI_REQUEST_NULL. MPI-4.1 3.7.3. */
int strait_test(strait_request *request, int *done, strait_status *status);

/* Waits until the operation is complete. *request becomes NULL. `status` as for strait_test.
 * MPI-4.1 3.7.3. */
int strait_wait(strait_request *request, strait_status *status);

/* Waits for all requests, and skips those that are NULL. Returns the first failure, once all are
 * complete.
 *
 * `statuses` has `count` elements, or is NULL. The status of a failed request is unchanged.
 * `codes` has `count` elements, or is NULL. It gets the result of each request, STRAIT_OK for
 * skipped ones, from which an MPI makes its MPI_ERR_IN_STATUS. MPI-4.1 3.7.5. */
int strait_wait_all(size_t count, strait_request *requests, strait_status *statuses, int *codes);

/* Waits until one of the requests is complete, ends it as strait_wait does, and returns its
 * index. Skips requests that are NULL; *index is SIZE_MAX when all are. All requests belong to
 * one world. MPI-4.1 3.7.5. */
int strait_wait_any(size_t count, strait_request *requests, size_t *index, strait_status *status);

/* Sets *done if all requests are complete, and ends them as strait_wait_all does. Skips those
 * that are NULL. Otherwise makes progress, and ends none. All requests belong to one world.
 * MPI-4.1 3.7.5. */
int strait_test_all(size_t count, strait_request *requests, int *done, strait_status *statuses, int *codes);

/* Sets *done if one of the requests is complete, and ends it as strait_wait_any does. Otherwise
 * makes progress, and *index is SIZE_MAX. When all are NULL, *done is set and *index is
 * SIZE_MAX. All requests belong to one world. MPI-4.1 3.7.5. */
int strait_test_any(size_t count, strait_request *requests, int *done, size_t *index, strait_status *status);

/* Waits until a request is complete, and ends all that are. *over is their number, and
 * indices[0] to indices[*over - 1] are their indices in ascending order. `statuses` and `codes`,
 * or NULL, are in the order of the indices. Each array has room for `count` elements.
 *
 * Skips requests that are NULL; *over is SIZE_MAX when all are. Returns the first failure, as
 * strait_wait_all does. All requests belong to one world. MPI-4.1 3.7.5. */
int strait_wait_some(size_t count, strait_request *requests, size_t *over, size_t *indices, strait_status *statuses, int *codes);

/* Ends all complete requests as strait_wait_some does, without waiting. Makes progress when none
 * is complete. *over is 0 if none is complete then. MPI-4.1 3.7.5. */
int strait_test_some(size_t count, strait_request *requests, size_t *over, size_t *indices, strait_status *statuses, int *codes);

/* Cancels a receive that no message has matched. *cancelled, or NULL, says whether it did. The
 * caller must wait for the request in either case. MPI-4.1 3.8.4. */
int strait_cancel(strait_request request, int *cancelled);

/* Frees a request. A send continues from a copy. A receive without a matched message is
 * cancelled. A receive whose message is arriving drops it. *request becomes NULL, and its
 * buffers belong to the caller again. */
int strait_request_free(strait_request *request);

/* ---- Active messages ------------------------------------------------------------------------- */

/* Handles a packet that has arrived. The bytes belong to the handler until it returns. It runs
 * in the thread that is inside strait_progress, strait_test, strait_wait or their variants for
 * several requests, and in no other call. It may make any call on the world but strait_finalize.
 * Waiting calls inside a handler deliver no packets. */
typedef void (*strait_packet_handler)(void *context, strait_world world, uint32_t source, uint32_t id, const void *data,
                                      size_t bytes);

/* Sets the handler of packets with this id, from 0 to STRAIT_TAG_MAX. NULL removes the handler.
 * Packets of one source arrive in the order in which they were sent. A packet whose id has no
 * handler waits, and so do later packets. */
int strait_packet_handle(strait_world world, uint32_t id, strait_packet_handler handler, void *context);

/* Sends the concatenation of `count` buffers as a packet, of any length up to SIZE_MAX / 2:
 * there is no smaller limit. `request` as for strait_isendv. If it is NULL, data that cannot
 * leave at once are copied, and the buffers belong to the caller again when the call returns.
 *
 * A packet longer than eager_max of strait_info, between nodes stream_max, is transferred as a
 * large message when its handler is due. It goes to memory that the receiver keeps as long as
 * the world. Without memory, the call that should deliver it returns STRAIT_ERR_MEMORY, and the
 * packet waits.
 *
 * Large data with a known destination are the case of strait_lmt_pre_send. */
int strait_packet_send(strait_world world, uint32_t destination, uint32_t id, const struct iovec *parts, int count,
                       strait_request *request);

/* ---- Large messages under the embedder's own rendezvous -------------------------------------- */

/* The LMT interface of Nemesis (section 3.2). The embedder matches. It sends its own RTS with
 * the cookie in it. At the receiver, it passes the cookie in when the RTS has met its receive.
 *
 * Two of the paper's functions are left. lmt_pre_recv and lmt_start_recv are one function. The
 * transfer never needs a CTS, since the receiver can start it alone, so there is no
 * lmt_start_send. Each side's request reports the end of its part, which replaces lmt_post_send,
 * lmt_post_recv and DONE. There are no further cookies. */

/* Bytes that the embedder sends unchanged with an RTS. All ranks of a job can read them. */
typedef struct strait_cookie {
    uint32_t mark;
    uint32_t sender;
    uint32_t number;
    uint32_t receiver;
    uint64_t bytes;             /* of the message */
} strait_cookie;

/* Describes the data to send. The buffers must not change until the request is complete, which
 * depends on the receiver. */
int strait_lmt_pre_send(strait_world world, uint32_t receiver, const struct iovec *parts, int count, strait_cookie *cookie,
                        strait_request *request);

/* Starts the transfer to these buffers. Each cookie is passed in once. */
int strait_lmt_start_recv(strait_world world, const strait_cookie *cookie, const struct iovec *parts, int count,
                          strait_request *request);

/* ---- Methods of the embedder that move large messages ---------------------------------------- */

/* The other half of the LMT interface: Strait matches, and the embedder moves the data, by a device
 * or a system call of its own. strait_set_transfer_method gives a rank the functions of the paper.
 * They move the messages of strait_send, strait_isend and so on between two ranks of one node that
 * Strait would otherwise announce by an RTS: those above STRAIT_EAGER_MAX that find too few
 * parcels. All ranks have the same functions.
 *
 *     sender         packet         receiver
 *     pre_send       RTS, cookie ->
 *                                   matching
 *                    <- CTS, cookie pre_recv, start_recv
 *     start_send
 *     handle_cookie  <- COOKIE ->   handle_cookie
 *     progress                      progress
 *                    <- DONE ->
 *     post_send                     post_recv
 *
 * A function that answers STRAIT_TRANSFER_REFUSED gives the message up. It then moves by a transfer
 * of Strait's own, so no message is lost. A function may not block, and it makes no call that uses
 * the world. The functions are called by the thread that uses the world, and by its progress
 * thread, one at a time. Cookies come from another process: check them before use. */

enum { STRAIT_TRANSFER_COOKIE_MAX = 512 }; /* the longest cookie, in bytes */

/* One side of a message, for the time of one call. The functions change no field. */
typedef struct strait_transfer_side {
    uint64_t id;                /* no other message of this rank that is under way has it */
    uint32_t peer;              /* the rank of the other side */
    uint32_t is_send;           /* 1 at the sender, 0 at the receiver */
    size_t bytes;               /* to move */
    void *library;
} strait_transfer_side;

/* How far a call has brought a message. */
enum strait_transfer_step {
    STRAIT_TRANSFER_REFUSED = -1,
    STRAIT_TRANSFER_OK = 0,     /* of pre_send and pre_recv: prepared; pre_recv has a CTS sent */
    STRAIT_TRANSFER_WAITING = 0, /* nothing has moved; progress is called again */
    STRAIT_TRANSFER_MOVED = 1,  /* something has moved: the other side is woken if it sleeps */
    STRAIT_TRANSFER_DONE = 2,   /* this side is done, the other learns of it by itself, and does
                                 * not refuse the message any more */
    STRAIT_TRANSFER_DONE_FOR_BOTH = 3, /* the message has arrived: the other side gets a DONE. A
                                        * sender answers this only if its receiver does not refuse
                                        * the message any more */
    STRAIT_TRANSFER_WITHOUT_CTS = 4 /* of pre_recv: the receiver moves the data alone */
};

/* Cookies are written to `cookie`, which has room for STRAIT_TRANSFER_COOKIE_MAX bytes, and their
 * length to *cookie_bytes, which is 0 before. post_send and post_recv end each message for which
 * pre_send or pre_recv of the same side has not refused; `complete` is 0 if the message moves
 * another way or its peer has died. When they return, nothing accesses the buffers any more on
 * behalf of the message. The other side may not know of the end yet, so what its cookies name must
 * not lead it to another message. serves and handle_cookie may be NULL: all messages are served, and a
 * cookie is refused. */
typedef struct strait_transfer_method {
    size_t size;
    void *context;              /* passed to all functions */
    int (*serves)(void *context, uint32_t peer, size_t bytes); /* at the sender: not 0 if so */
    int (*pre_send)(void *context, strait_transfer_side *side, void *cookie, size_t *cookie_bytes);
    int (*pre_recv)(void *context, strait_transfer_side *side, const void *send_cookie, size_t send_cookie_bytes,
                    void *cookie, size_t *cookie_bytes);
    int (*start_send)(void *context, strait_transfer_side *side, const void *receive_cookie,
                      size_t receive_cookie_bytes);
    int (*start_recv)(void *context, strait_transfer_side *side);
    int (*handle_cookie)(void *context, strait_transfer_side *side, const void *cookie, size_t cookie_bytes);
    int (*progress)(void *context, strait_transfer_side *side);
    void (*post_send)(void *context, strait_transfer_side *side, int complete);
    void (*post_recv)(void *context, strait_transfer_side *side, int complete);
} strait_transfer_method;

/* Gives this rank its method, before the first large message. The functions and their context stay
 * valid until strait_finalize has returned. STRAIT_ERR_BUSY: there is one, which stays. */
int strait_set_transfer_method(strait_world world, const strait_transfer_method *method);

/* Gives the contiguous memory at `offset` bytes from the start of the message, with length 0 at its
 * end. For the functions of a method. */
int strait_transfer_part(strait_transfer_side *side, size_t offset, struct iovec *part);

/* Sends a COOKIE to the other side. For the functions of a method. STRAIT_ERR_BUSY: an earlier
 * packet of this side has not left, or the other side is not known yet; try again in progress. */
int strait_transfer_send_cookie(strait_transfer_side *side, const void *cookie, size_t bytes);

/* ---- The RDMA channel ------------------------------------------------------------------------ */

/* The five functions of MPICH2's RDMA channel (Liu et al. 2004, section 3.2). Between each two
 * ranks there is a pipe of bytes in each direction: a ring in registered memory, which the peer's
 * device writes. STRAIT_RING names the design of the rings, and STRAIT_RING_COPY_MAX the longest
 * part that is copied through them; all ranks need the same. A process has one channel. One thread
 * at a time uses its functions, the thread that uses the world. */

/* Joins the job that the environment describes. The process group is a world like any other.
 * *has_parent is 0. */
int strait_rdma_init_process_group(int *has_parent, strait_world *group, int *rank);

/* Opens the channel of a process group, in whatever way that was made. `rank` is the rank of
 * this process. All ranks open the channels of a group in the same order. A connection carries
 * bytes when both of its ranks have called strait_rdma_put_datav or strait_rdma_read_datav. */
int strait_rdma_init(strait_world group, int rank);

/* Closes the channel, and makes its connections invalid. All data that were put are delivered,
 * and no buffer is in use any more. Later calls of the peers on connections to this rank fail with
 * STRAIT_ERR_PEER_FAILED as soon as they have to write, so ranks meet in a barrier before it.
 * It also leaves the job if strait_rdma_init_process_group joined it. */
int strait_rdma_finalize(void);

/* Returns the connection to a rank of the group. It is the same one each time. */
int strait_rdma_vc(strait_world group, uint32_t rank, strait_vc *vc);

/* Puts bytes of these buffers, one after the other, into the pipe, as many as fit: *num_bytes of
 * them, from 0 to all. It does not wait. The bytes that it counts belong to the caller again. The
 * caller calls again with the rest.
 *
 * A long part may move without a copy. It counts when the peer has it, and the device may read it
 * until then. So bytes that are not counted stay unchanged until a later call counts them or the
 * channel is closed. Meanwhile a call that begins with another buffer returns
 * STRAIT_ERR_ARGUMENT and changes nothing. */
int strait_rdma_put_datav(strait_vc vc, const struct iovec *iov, int n, int *num_bytes);

/* Gets bytes out of the pipe, in the order in which they were put. It takes as many as have
 * arrived and fit into the buffers: *num_bytes of them. It does not wait.
 *
 * A long part may move without a copy, and the device may write the buffer until a call has
 * counted the bytes. So the caller calls again with the rest of the same buffers, and does not use
 * them otherwise, as with strait_rdma_put_datav.
 *
 * When the peer has died, the call delivers what had arrived and then returns
 * STRAIT_ERR_PEER_FAILED. */
int strait_rdma_read_datav(strait_vc vc, const struct iovec *iov, int n, int *num_bytes);

/* ---- Windows --------------------------------------------------------------------------------- */

/* Memory of each member of a group, which the others access without its help (MPI-4.1 chapter
 * 12). A target is an index into the group, from 0. A displacement counts units of the target.
 * The embedder enforces epochs: it may call operations at any time. Operations are complete at
 * the origin when their call returns. */

/* The members of a window, and their choices for it. NULL selects all ranks, context 0, and the
 * defaults; so does a struct that is zero except for `size`. All members pass the same ranks,
 * context and design. The other fields may differ between members. */
typedef struct strait_members {
    size_t size;                /* sizeof(strait_members) */
    const uint32_t *ranks;      /* in the order of their indices; or NULL: all */
    uint32_t count;
    uint32_t context;           /* the context that the members use */
    uint32_t single_accumulates; /* not 0: most accumulates are of one number of 8 bytes */
    uint32_t lock_design;       /* a strait_lock_design */
    uint32_t lock_policy;       /* a strait_lock_policy, for hybrid locks */
    uint32_t lock_hysteresis;   /* requests in the wrong mode after which
                                 * STRAIT_POLICY_HYSTERESIS or _HISTORY moves a lock; not 0 */
    uint32_t lock_backoff;      /* longest pause between two polls of a lock that another member
                                 * holds, as a multiple of the first pause; 1: constant;
                                 * 0: the default */
    uint32_t lock_remembered;   /* requests that STRAIT_POLICY_HISTORY remembers: lock_hysteresis
                                 * to 64 */
    uint64_t lock_cost_suiting; /* for STRAIT_POLICY_COST, in any unit: a request that finds the */
    uint64_t lock_cost_other;   /* lock in the mode that suits it, one in the other mode, and one */
    uint64_t lock_cost_migration; /* that moves the lock (`strait bench lock` measures them) */
} strait_members;

/* The design of a window's locks (Jiang et al. 2004; Santhanaraman et al. 2009). The
 * target's lock manager takes part in all but test-and-set, MCS and some uses of hybrid: in the
 * target's calls, or by a thread that the design starts. */
enum strait_lock_design {
    STRAIT_LOCK_DEFAULT = 0,    /* the value of STRAIT_WINDOW_LOCK, or hybrid */
    STRAIT_LOCK_TWO_SIDED = 1,
    STRAIT_LOCK_THREAD = 2,
    STRAIT_LOCK_EVENT = 3,
    STRAIT_LOCK_TEST_AND_SET = 4,
    STRAIT_LOCK_MCS = 5,
    STRAIT_LOCK_HYBRID = 6,
    STRAIT_LOCK_THREAD_PER_WINDOW = 7 /* a thread of the target that ends with the window */
};

/* The policy by which this member moves a hybrid lock between CPU mode and network mode. */
enum strait_lock_policy {
    STRAIT_POLICY_DEFAULT = 0,      /* that of STRAIT_WINDOW_LOCK, or STRAIT_POLICY_FOLLOW */
    STRAIT_POLICY_HYSTERESIS = 1,   /* after a number of requests in the wrong mode */
    STRAIT_POLICY_PINNED_CPU = 2,   /* never */
    STRAIT_POLICY_PINNED_NETWORK = 3,
    STRAIT_POLICY_FOLLOW = 4,       /* with every request in the wrong mode, as in the paper */
    STRAIT_POLICY_HISTORY = 5,      /* after a number of them among the last requests */
    STRAIT_POLICY_COST = 6          /* when they have lost as much as a migration costs */
};

/* The mode of a lock: a word for processors, or a word for the device. */
enum strait_lock_mode {
    STRAIT_MODE_CPU = 0,
    STRAIT_MODE_NETWORK = 1
};

enum strait_lock_type {
    STRAIT_SHARED = 1,
    STRAIT_EXCLUSIVE = 2
};

/* The bytes of a part that an operation accesses, relative to its displacement. */
typedef struct strait_run {
    size_t offset;
    size_t length;
} strait_run;

typedef struct strait_shape {
    size_t count;               /* number of blocks or runs */
    size_t block;               /* size of a block in bytes */
    size_t stride;              /* bytes from the start of one block to that of the next */
    const strait_run *runs;     /* runs instead of blocks; or NULL */
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

/* MPI-4.1 6.9.2, and 12.3.4 for the last two. Logical and bitwise operations are for integers. */
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

/* Assertions of a caller about an epoch, combined by | (MPI-4.1 12.5.5). */
enum strait_assert {
    STRAIT_NO_STORE = 1,
    STRAIT_NO_PUT = 2,
    STRAIT_NO_PRECEDE = 4,
    STRAIT_NO_SUCCEED = 8,
    STRAIT_NO_CHECK = 16
};

/* The mechanism that makes a window's accumulates atomic. */
enum strait_atomicity {
    /* Atomic instructions, and plain arithmetic under locks for long accumulates. The owner's own
     * atomic instructions are atomic with accumulates only until a member accumulates 32 or more
     * consecutive numbers to the same 16 KiB. */
    STRAIT_ATOMIC_PROCESSOR = 0,
    STRAIT_ATOMIC_LOCKS = 1,
    STRAIT_ATOMIC_DEVICE = 2
};

/* The arguments of strait_window_needs_target. Each stands for a group of operations:
 * - PUT: strait_put and its variants
 * - GET: strait_get
 * - ACCUMULATE: strait_accumulate, strait_get_accumulate
 * - FETCH_AND_OP: strait_fetch_and_op and strait_compare_and_swap
 * - LOCK: locks and unlocks
 * - BLOCKS: puts and gets of many small blocks */
enum strait_operation {
    STRAIT_OPERATION_PUT = 0,
    STRAIT_OPERATION_GET = 1,
    STRAIT_OPERATION_ACCUMULATE = 2,
    STRAIT_OPERATION_FETCH_AND_OP = 3,
    STRAIT_OPERATION_LOCK = 4,
    STRAIT_OPERATION_BLOCKS = 5
};

/* Make a window. Every member calls the function. MPI-4.1 12.2.2, 12.2.3, 12.2.1.
 * - strait_window_allocate: over memory in the segment, zeroed.
 * - strait_window_allocate_shared: over consecutive memory there; all members are on one node.
 * - strait_window_create: over the caller's memory, which belongs to the window until
 *   strait_window_free has succeeded. */
int strait_window_allocate(strait_world world, const strait_members *members, size_t bytes, size_t unit, strait_window *window);
int strait_window_allocate_shared(strait_world world, const strait_members *members, size_t bytes, size_t unit,
                                  strait_window *window);
int strait_window_create(strait_world world, const strait_members *members, void *base, size_t bytes, size_t unit,
                         strait_window *window);

/* Makes a window without attached memory. Every member calls it. Displacements count bytes.
 * MPI-4.1 12.2.4. */
int strait_window_create_dynamic(strait_world world, const strait_members *members, strait_window *window);

/* Attaches memory to a dynamic window, at most 4,095 ranges at a time. The memory belongs to the
 * window until it is detached or the window is freed, and no member accesses it any more.
 *
 * *displacement is the displacement of its first byte, for the operations of all members. The
 * embedder passes it to them. It differs from those of earlier and later attachments at the same
 * address. A program that does not need this distinction may use the address. MPI-4.1 12.2.4. */
int strait_window_attach(strait_window window, void *base, size_t bytes, size_t *displacement);

/* Detaches the memory to which strait_window_attach gave this displacement, or which begins at
 * this address. Later accesses to it give STRAIT_ERR_WINDOW. It does not wait. MPI-4.1 12.2.4. */
int strait_window_detach(strait_window window, size_t displacement);

/* Frees the window, when all members have called it. *window becomes NULL, whatever the call
 * returns, except for an invalid handle. If a member died, others may still access the memory:
 * it is kept until the process ends. MPI-4.1 12.2.5. */
int strait_window_free(strait_window *window);

/* Return this rank's index, and the part of the member with an index: its size in bytes, its
 * unit, and the address of its mapping here, or NULL if it is not mapped. Each result may be
 * NULL. */
int strait_window_place(strait_window window, uint32_t *place);
int strait_window_part(strait_window window, uint32_t target, void **base, size_t *bytes, size_t *unit);

/* Returns the strait_atomicity of the window. */
int strait_window_atomicity(strait_window window, int *atomicity);

/* Returns whether a strait_operation may need the target's processor to complete: its calls, or
 * a thread of the library there. */
int strait_window_needs_target(strait_window window, int operation, int *needs);

/* Write to the target's part, and read from it. The operation may continue after the call: the
 * data must not change, and the buffer must not be used, until the next synchronisation with the
 * target has returned (strait_window_flush, _flush_local, _unlock, _complete, _fence, _free, and
 * the calls for all targets). MPI-4.1 12.3.1, 12.3.2. */
int strait_put(strait_window window, const void *data, size_t bytes, uint32_t target, size_t displacement);
int strait_get(strait_window window, void *buffer, size_t bytes, uint32_t target, size_t displacement);

/* Transfer between the concatenation of `count` buffers and the bytes of a shape. Both have the
 * same total length. */
int strait_putv(strait_window window, const struct iovec *parts, int count, uint32_t target, size_t displacement,
                const strait_shape *shape);
int strait_getv(strait_window window, const struct iovec *parts, int count, uint32_t target, size_t displacement,
                const strait_shape *shape);

/* Perform strait_put and strait_get with a request. The buffer must not change until the request
 * is complete. MPI-4.1 12.3.5. */
int strait_rput(strait_window window, const void *data, size_t bytes, uint32_t target, size_t displacement,
                strait_request *request);
int strait_rget(strait_window window, void *buffer, size_t bytes, uint32_t target, size_t displacement,
                strait_request *request);

/* Combine each of `count` numbers of the target with one of `data`. `type` is a strait_type, and
 * `op` a strait_op. `shape`, or NULL, describes the location of the numbers.
 * strait_get_accumulate also returns the old numbers. Numbers are aligned to their size. MPI-4.1
 * 12.3.4. */
int strait_accumulate(strait_window window, const void *data, size_t count, int type, uint32_t target, size_t displacement,
                      const strait_shape *shape, int op);
int strait_get_accumulate(strait_window window, const void *data, void *results, size_t count, int type, uint32_t target,
                          size_t displacement, const strait_shape *shape, int op);

/* Perform strait_accumulate and strait_get_accumulate with a request, which is complete when the
 * call returns. MPI-4.1 12.3.5. */
int strait_raccumulate(strait_window window, const void *data, size_t count, int type, uint32_t target, size_t displacement,
                       const strait_shape *shape, int op, strait_request *request);
int strait_rget_accumulate(strait_window window, const void *data, void *results, size_t count, int type, uint32_t target,
                           size_t displacement, const strait_shape *shape, int op, strait_request *request);

/* Combine one number of the target with an operand and return the old number, or write
 * `replacement` if the number equals `compare`. The latter is for integers. MPI-4.1 12.3.4. */
int strait_fetch_and_op(strait_window window, const void *operand, void *result, int type, uint32_t target, size_t displacement,
                        int op);
int strait_compare_and_swap(strait_window window, const void *compare, const void *replacement, void *result, int type,
                            uint32_t target, size_t displacement);

/* Active synchronisation. `promises` are values of strait_assert. MPI-4.1 12.5.1, 12.5.2. */
int strait_window_fence(strait_window window, int promises);
int strait_window_post(strait_window window, const uint32_t *origins, uint32_t count, int promises);
int strait_window_start(strait_window window, const uint32_t *targets, uint32_t count, int promises);
int strait_window_complete(strait_window window);
int strait_window_wait(strait_window window);
int strait_window_test(strait_window window, int *done);

/* Passive synchronisation. `type` is a strait_lock_type. The first operation to a target waits
 * for its lock. MPI-4.1 12.5.3. */
int strait_window_lock(strait_window window, int type, uint32_t target, int promises);
int strait_window_unlock(strait_window window, uint32_t target);
int strait_window_lock_all(strait_window window, int promises);
int strait_window_unlock_all(strait_window window);

/* Returns the strait_lock_design of the window: the requested design, or STRAIT_LOCK_TWO_SIDED
 * where the device lacks the atomics for it. */
int strait_window_lock_design(strait_window window, int *design);

/* Counters of this member for the window's locks. Set `size` before the call. */
typedef struct strait_lock_counters {
    size_t size;                /* sizeof(strait_lock_counters) */
    uint64_t mode;              /* the strait_lock_mode of the lock of this member's part */
    uint64_t to_network;        /* times that this member's lock manager moved that lock to
                                 * network mode */
    uint64_t to_cpu;            /* times that this member moved a lock to CPU mode */
    uint64_t accesses;          /* device accesses to words of locks */
    uint64_t requests;          /* requests to lock managers */
} strait_lock_counters;

int strait_window_lock_counters(strait_window window, strait_lock_counters *counters);

/* Complete this rank's operations. flush and flush_all complete them at one target and at all
 * targets. flush_local and flush_local_all complete them at this rank only. An operation with a
 * request is complete at this rank when its request is. strait_window_sync orders this rank's
 * own accesses to its part with them. MPI-4.1 12.5.4. */
int strait_window_flush(strait_window window, uint32_t target);
int strait_window_flush_all(strait_window window);
int strait_window_flush_local(strait_window window, uint32_t target);
int strait_window_flush_local_all(strait_window window);
int strait_window_sync(strait_window window);

/* ---- Groups and collective operations -------------------------------------------------------- */

/* The members of a group call its operations in the same order. A root is a place in the group,
 * from 0. When a member dies, the others' calls return STRAIT_ERR_PEER_FAILED, or complete if they
 * have all that they need. Buffers do not overlap. */

/* In place of a member's own vector: it lies where the operation puts the result (MPI-5.0 6.2.1). */
#define STRAIT_IN_PLACE ((void *)-1)

/* Makes a group of these ranks, in the order of their places, for messages in `context`. All
 * members pass the same list; it contains this rank. NULL: all ranks of the job. Sends nothing.
 * strait_finalize fails while a group is open. */
int strait_group_create(strait_world world, uint32_t context, const uint32_t *ranks, uint32_t count, strait_group *group);

/* Makes groups of the members with the same colour, ordered by key, then by place. A negative
 * colour: the member gets no group, but NULL. All members call it. MPI-5.0 7.4.2. */
int strait_group_split(strait_group group, int64_t colour, int64_t key, strait_group *part);

/* Makes a group of the same members with messages of its own. All members call it. MPI-5.0 7.4.2. */
int strait_group_duplicate(strait_group group, strait_group *copy);

/* Frees a group, at this rank only, and stores NULL. */
int strait_group_free(strait_group *group);

/* Return the number of members, this rank's place, and the rank in a place. */
int strait_group_size(strait_group group, uint32_t *members);
int strait_group_place(strait_group group, uint32_t *place);
int strait_group_rank(strait_group group, uint32_t place, uint32_t *rank);

/* Waits until all members have called it. MPI-5.0 6.3. */
int strait_group_barrier(strait_group group);

/* Broadcasts `bytes` bytes of the root. MPI-5.0 6.4. */
int strait_broadcast(strait_group group, void *data, size_t bytes, uint32_t root);

/* Gather `own` of each member in `all` at the root, in the order of the places, or in `blocks`: one
 * strait_run for each place, in bytes. The others' `all` and `blocks` are ignored. At the root,
 * `own` may be STRAIT_IN_PLACE. MPI-5.0 6.5. */
int strait_gather(strait_group group, const void *own, size_t bytes, void *all, uint32_t root);
int strait_gatherv(strait_group group, const void *own, size_t bytes, void *all, const strait_run *blocks, uint32_t root);

/* Scatter the root's `all`: each member receives its block of `bytes` bytes in `own`. The others'
 * `all` and `blocks` are ignored. At the root, `own` may be STRAIT_IN_PLACE. MPI-5.0 6.6. */
int strait_scatter(strait_group group, const void *all, void *own, size_t bytes, uint32_t root);
int strait_scatterv(strait_group group, const void *all, const strait_run *blocks, void *own, size_t bytes, uint32_t root);

/* Gather `own` of each member in `all` at every member. `own` may be STRAIT_IN_PLACE. MPI-5.0 6.7. */
int strait_allgather(strait_group group, const void *own, size_t bytes, void *all);
int strait_allgatherv(strait_group group, const void *own, size_t bytes, void *all, const strait_run *blocks);

/* Send a block of `out` to each member, and receive the members' blocks in `into`: blocks of `bytes`
 * bytes, or one strait_run for each place. With STRAIT_IN_PLACE for `out`, the blocks of `into` are
 * exchanged. MPI-5.0 6.8: MPI_ALLTOALL, MPI_ALLTOALLV, MPI_ALLTOALLW of packed data. */
int strait_alltoall(strait_group group, const void *out, void *into, size_t bytes);
int strait_alltoallv(strait_group group, const void *out, const strait_run *from, void *into, const strait_run *to);

/* A function on elements: right[i] = left[i] op right[i] (MPI_User_function). It is associative, and
 * need not be commutative: the left element is of the lower places. It makes no calls of the
 * library. */
typedef void (*strait_function)(const void *left, void *right, size_t count, void *context);

/* How vectors are combined: by an operation on numbers, or by a function. The operands of a
 * reduction are always grouped in the same way: neighbours first, then pairs of neighbours, and so
 * on. Elements of numbers are aligned to their size. */
typedef struct strait_reduction {
    size_t size;                /* sizeof(strait_reduction) */
    int type;                   /* a strait_type */
    int op;                     /* a strait_op except STRAIT_REPLACE and STRAIT_NO_OP */
    strait_function function;   /* in place of type and op; or NULL */
    void *context;              /* passed to the function */
    size_t element;             /* bytes of an element of the function */
} strait_reduction;

/* Combine vectors of `count` elements: at the root, whose `result` alone is used, or at all members.
 * `own` may be STRAIT_IN_PLACE where there is a result. MPI-5.0 6.9.1, 6.9.6. */
int strait_reduce(strait_group group, const void *own, void *result, size_t count, const strait_reduction *reduction,
                  uint32_t root);
int strait_allreduce(strait_group group, const void *own, void *result, size_t count, const strait_reduction *reduction);

/* Combine vectors, and give each member its block of the result: `count` elements, or counts[place].
 * `own` has the blocks of all. With STRAIT_IN_PLACE, `result` has them before. MPI-5.0 6.10. */
int strait_reduce_scatter_block(strait_group group, const void *own, void *result, size_t count,
                                const strait_reduction *reduction);
int strait_reduce_scatter(strait_group group, const void *own, void *result, const size_t *counts,
                          const strait_reduction *reduction);

/* Combine the vectors of the places up to this member's, or before it. strait_exscan leaves `result`
 * of place 0 as it is. `own` may be STRAIT_IN_PLACE. MPI-5.0 6.11. */
int strait_scan(strait_group group, const void *own, void *result, size_t count, const strait_reduction *reduction);
int strait_exscan(strait_group group, const void *own, void *result, size_t count, const strait_reduction *reduction);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Allocate and free memory in the node's segment, zeroed and aligned to a page. Large messages
 * and windows over it need no system call. It belongs to the caller until strait_memory_free or
 * strait_finalize. MPI-4.1 9.2. */
int strait_memory_allocate(strait_world world, size_t bytes, void **base);
int strait_memory_free(strait_world world, void *base);

/* Forgets the device's registrations of these bytes. Memory outside the segment is registered
 * with the device when it is used, and stays so if strait_options has watch_memory.
 *
 * The embedder must call it when memory that messages or windows used is unmapped or returned to
 * the system, before or after, unless watch_memory reports it. It does nothing on one node. */
int strait_invalidate(strait_world world, const void *base, size_t bytes);

/* ---- Knowledge ------------------------------------------------------------------------------- */

/* The limits in force. Set `size` before the call. */
typedef struct strait_info {
    size_t size;                /* sizeof(strait_info) */
    uint32_t rank;
    uint32_t ranks;
    uint32_t node;
    uint32_t nodes;
    uint64_t fastbox_max;       /* longest message in a fastbox, bytes */
    uint64_t eager_max;         /* longest eager message on a node, bytes; longer ones are
                                 * announced */
    uint64_t parcel_max;        /* longest message in parcels, while there are free ones, bytes */
    uint64_t unexpected_max;    /* private memory for one peer's unexpected messages, bytes */
    uint64_t stream_max;        /* longest eager message between nodes, bytes; longer ones are
                                 * announced */
} strait_info;

int strait_get_info(strait_world world, strait_info *info);

/* Counters of events so far. Set `size` before the call. */
typedef struct strait_counters {
    size_t size;                /* sizeof(strait_counters) */
    uint64_t unexpected_bytes;  /* held now for messages that have not been received */
    uint64_t unexpected_peak;   /* its maximum so far */
    uint64_t rtrs_sent;         /* requests to receive, of the speculative rendezvous */
    uint64_t rtrs_retracted;
    uint64_t rtrs_missed;
    uint64_t rtrs_heard;
    uint64_t rtrs_used;
    uint64_t rtrs_stopped;
    uint64_t registration_hits; /* buffers that were registered already */
    uint64_t registration_misses;
    uint64_t registration_evictions;
    uint64_t registration_invalidations;
} strait_counters;

int strait_get_counters(strait_world world, strait_counters *counters);

#ifdef __cplusplus
}
#endif

#endif

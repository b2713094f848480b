/* Large messages that the program moves itself, through pipes, in a job of two. With ENDS in the
 * environment, rank 1 dies in the middle. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

enum { LONGEST = 1 << 20, SHORTEST = 150 * 1000, ROUNDS = 200, SIDES = 16 };

static strait_world world;
static uint32_t me, peer;

/* Of a receive cookie: the end of a pipe. Once it is closed, another file may have its path. */
typedef struct name {
    ino_t number;
    char path[64];
} name;

/* One side of a message that is under way. */
typedef struct side {
    uint64_t id;
    int is_open;
    int ends[2];                /* of the pipe: the sender has only the second */
    size_t moved;
    size_t told;                /* by the receiver's cookies */
} side;

typedef struct method {
    side sides[SIDES];
    int prepared, complete, abandoned, refused, cookies;
    int refusals;               /* calls in a hundred that refuse */
    int calls_left;             /* until this process dies; negative: it lives */
    uint64_t random;
} method;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

static int refuses(method *this_method)
{
    int does = (int)draw(&this_method->random, 100) < this_method->refusals;
    this_method->refused += does;
    return does;
}

static side *find(method *this_method, uint64_t id)
{
    for (int place = 0; place < SIDES; place++) {
        if (this_method->sides[place].is_open && this_method->sides[place].id == id) {
            return &this_method->sides[place];
        }
    }
    return NULL;
}

static side *begin(method *this_method, uint64_t id)
{
    CHECK(find(this_method, id) == NULL);
    for (int place = 0; place < SIDES; place++) {
        side *found = &this_method->sides[place];
        if (!found->is_open) {
            found->id = id, found->is_open = 1, found->moved = 0, found->told = 0;
            found->ends[0] = found->ends[1] = -1;
            this_method->prepared++;
            return found;
        }
    }
    CHECK(!"a place for the message");
    return NULL;
}

static int serves(void *context, uint32_t rank, size_t bytes)
{
    (void)context;
    CHECK(rank == peer && bytes > 0);
    return bytes % 8 != 0;
}

static int pre_send(void *context, strait_transfer_side *message, void *cookie, size_t *cookie_bytes)
{
    method *this_method = (method *)context;
    if (refuses(this_method)) {
        return STRAIT_TRANSFER_REFUSED;
    }
    CHECK(message->is_send && message->peer == peer);
    FAILS(STRAIT_ERR_BUSY, strait_transfer_send_cookie(message, "early", 5));
    begin(this_method, message->id);
    memset(cookie, 's', STRAIT_TRANSFER_COOKIE_MAX);
    *cookie_bytes = message->bytes % STRAIT_TRANSFER_COOKIE_MAX;
    return STRAIT_TRANSFER_OK;
}

static int pre_recv(void *context, strait_transfer_side *message, const void *send_cookie, size_t send_cookie_bytes,
                    void *cookie, size_t *cookie_bytes)
{
    method *this_method = (method *)context;
    if (refuses(this_method)) {
        return STRAIT_TRANSFER_REFUSED;
    }
    CHECK(!message->is_send && message->peer == peer);
    for (size_t place = 0; place < send_cookie_bytes; place++) {
        CHECK(((const char *)send_cookie)[place] == 's');
    }
    side *found = begin(this_method, message->id);
    CHECK(pipe2(found->ends, O_NONBLOCK | O_CLOEXEC) == 0);
    struct stat file;
    name end;
    CHECK(fstat(found->ends[1], &file) == 0);
    memset(&end, 0, sizeof end);
    end.number = file.st_ino;
    snprintf(end.path, sizeof end.path, "/proc/%d/fd/%d", (int)getpid(), found->ends[1]);
    memcpy(cookie, &end, sizeof end);
    *cookie_bytes = sizeof end;
    return STRAIT_TRANSFER_OK;
}

static int start_recv(void *context, strait_transfer_side *message)
{
    CHECK(find((method *)context, message->id) != NULL);
    return STRAIT_TRANSFER_WAITING;
}

static int start_send(void *context, strait_transfer_side *message, const void *receive_cookie,
                      size_t receive_cookie_bytes)
{
    method *this_method = (method *)context;
    name end;
    struct stat file;
    CHECK(receive_cookie_bytes == sizeof end);
    memcpy(&end, receive_cookie, sizeof end);
    side *found = find(this_method, message->id);
    CHECK(found != NULL && message->is_send);
    if (refuses(this_method)) {
        return STRAIT_TRANSFER_REFUSED;
    }
    found->ends[1] = open(end.path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (found->ends[1] < 0 || fstat(found->ends[1], &file) != 0 || file.st_ino != end.number) {
        return STRAIT_TRANSFER_REFUSED;
    }
    return STRAIT_TRANSFER_WAITING;
}

static int handle_cookie(void *context, strait_transfer_side *message, const void *cookie, size_t cookie_bytes)
{
    method *this_method = (method *)context;
    side *found = find(this_method, message->id);
    uint64_t told;
    CHECK(found != NULL && message->is_send && cookie_bytes == sizeof told);
    memcpy(&told, cookie, sizeof told);
    CHECK(told > found->told && told <= found->moved);
    found->told = (size_t)told;
    this_method->cookies++;
    return STRAIT_TRANSFER_WAITING;
}

/* Moves bytes through the pipe until it is full or empty. Returns whether any moved. */
static int move(side *found, strait_transfer_side *message)
{
    size_t before = found->moved;
    struct iovec part;
    for (;;) {
        OK(strait_transfer_part(message, found->moved, &part));
        if (part.iov_len == 0) {
            break;
        }
        ssize_t bytes = message->is_send ? write(found->ends[1], part.iov_base, part.iov_len)
                                         : read(found->ends[0], part.iov_base, part.iov_len);
        if (bytes <= 0) {
            break;
        }
        found->moved += (size_t)bytes;
    }
    return found->moved > before;
}

static int progress(void *context, strait_transfer_side *message)
{
    method *this_method = (method *)context;
    side *found = find(this_method, message->id);
    CHECK(found != NULL);
    if (this_method->calls_left == 0) {
        _exit(0);
    }
    this_method->calls_left -= this_method->calls_left > 0;
    if (!move(found, message)) {
        return STRAIT_TRANSFER_WAITING;
    }
    if (refuses(this_method)) {
        return STRAIT_TRANSFER_REFUSED;
    }
    if (message->is_send) {
        return STRAIT_TRANSFER_MOVED;
    }
    if (found->moved == message->bytes) {
        return STRAIT_TRANSFER_DONE_FOR_BOTH;
    }
    uint64_t told = found->moved;
    /* If there is no room, the sender learns of it later. */
    (void)strait_transfer_send_cookie(message, &told, sizeof told);
    return STRAIT_TRANSFER_MOVED;
}

static void post(void *context, strait_transfer_side *message, int complete)
{
    method *this_method = (method *)context;
    side *found = find(this_method, message->id);
    CHECK(found != NULL);
    for (int end = 0; end < 2; end++) {
        CHECK(found->ends[end] < 0 || close(found->ends[end]) == 0);
    }
    found->is_open = 0;
    *(complete ? &this_method->complete : &this_method->abandoned) += 1;
}

static unsigned char byte_of(size_t place, uint32_t from, int number)
{
    return (unsigned char)(place * 7 + place / 4099 + from + (size_t)number);
}

/* Sends a message of drawn length each way. Which side is first is drawn by each rank alone. */
static void exchange(int number, uint64_t *common, uint64_t *own)
{
    size_t lengths[2], rooms[2];
    for (int rank = 0; rank < 2; rank++) {
        lengths[rank] = SHORTEST + (size_t)draw(common, LONGEST - SHORTEST);
        rooms[rank] = draw(common, 3) == 0 ? (size_t)draw(common, lengths[rank]) : lengths[rank];
    }
    size_t mine = lengths[me], theirs = lengths[peer], room = rooms[peer];
    unsigned char *out = (unsigned char *)malloc(mine), *in = (unsigned char *)malloc(room + 1);
    CHECK(out != NULL && in != NULL);
    for (size_t place = 0; place < mine; place++) {
        out[place] = byte_of(place, me, number);
    }
    memset(in, 0, room + 1);
    strait_request send, receive;
    strait_status status;
    if (draw(own, 2)) {
        OK(strait_irecv(world, 0, in, room, peer, 5, &receive));
        OK(strait_isend(world, 0, out, mine, peer, 5, &send));
    } else {
        OK(strait_isend(world, 0, out, mine, peer, 5, &send));
        for (uint64_t calls = draw(own, 20); calls > 0; calls--) {
            OK(strait_progress(world));
        }
        OK(strait_irecv(world, 0, in, room, peer, 5, &receive));
    }
    if (room < theirs) {
        FAILS(STRAIT_ERR_TRUNCATED, strait_wait(&receive, &status));
    } else {
        OK(strait_wait(&receive, &status));
        CHECK(status.bytes == theirs && status.source == peer);
    }
    OK(strait_wait(&send, NULL));
    for (size_t place = 0; place < room; place++) {
        CHECK(in[place] == byte_of(place, peer, number));
    }
    CHECK(in[room] == 0);
    free(out), free(in);
}

/* Exchanges messages until rank 1 has died in the middle of one. */
static void death(method *this_method)
{
    unsigned char *bytes = (unsigned char *)calloc(2, LONGEST);
    CHECK(bytes != NULL);
    int code = STRAIT_OK;
    while (code == STRAIT_OK) {
        strait_request requests[2];
        int codes[2];
        code = strait_irecv(world, 0, bytes, LONGEST, peer, 5, &requests[0]);
        if (code != STRAIT_OK) {
            break;
        }
        code = strait_isend(world, 0, bytes + LONGEST, LONGEST - 1, peer, 5, &requests[1]);
        if (code != STRAIT_OK) {
            CHECK(strait_wait(&requests[0], NULL) == STRAIT_ERR_PEER_FAILED);
            break;
        }
        code = strait_wait_all(2, requests, NULL, codes);
    }
    CHECK(code == STRAIT_ERR_PEER_FAILED);
    CHECK(this_method->prepared == this_method->complete + this_method->abandoned);
    free(bytes);
}

static void misuse(strait_transfer_method table)
{
    FAILS(STRAIT_ERR_BUSY, strait_set_transfer_method(world, &table));
    FAILS(STRAIT_ERR_ARGUMENT, strait_set_transfer_method(world, NULL));
    table.post_recv = NULL;
    FAILS(STRAIT_ERR_ARGUMENT, strait_set_transfer_method(world, &table));
    table.size = sizeof table + 8;
    FAILS(STRAIT_ERR_VERSION, strait_set_transfer_method(world, &table));
    struct iovec part;
    FAILS(STRAIT_ERR_ARGUMENT, strait_transfer_part(NULL, 0, &part));
    FAILS(STRAIT_ERR_ARGUMENT, strait_transfer_send_cookie(NULL, "", 0));
}

int main(void)
{
    static method mine;
    signal(SIGPIPE, SIG_IGN);
    OK(strait_init(STRAIT_ABI, NULL, &world));
    OK(strait_rank(world, &me));
    peer = 1 - me;
    int ends = getenv("ENDS") != NULL;
    mine.refusals = ends ? 0 : 2;
    mine.calls_left = ends && me == 1 ? 23 : -1;
    mine.random = me;
    strait_transfer_method table;
    memset(&table, 0, sizeof table);
    table.size = sizeof table, table.context = &mine;
    table.serves = serves, table.pre_send = pre_send, table.pre_recv = pre_recv;
    table.start_send = start_send, table.start_recv = start_recv, table.handle_cookie = handle_cookie;
    table.progress = progress, table.post_send = post, table.post_recv = post;
    OK(strait_set_transfer_method(world, &table));
    misuse(table);
    if (ends) {
        death(&mine);
    } else {
        uint64_t common = 11, own = 100 + me;
        for (int number = 0; number < ROUNDS; number++) {
            exchange(number, &common, &own);
        }
        OK(strait_barrier(world, 0));
        CHECK(mine.complete > 0 && mine.abandoned > 0 && mine.refused > 0 && mine.cookies > 0);
        CHECK(mine.prepared == mine.complete + mine.abandoned);
    }
    OK(strait_finalize(world));
    return 0;
}

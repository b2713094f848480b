/* Ranks that find each other by the embedder's own exchange: two children of this process, with
 * a board in shared memory. The embedder also gives a log and a yield function. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { RANKS = 2, NOTES = 64, LONGEST = 8192 };

struct note {
    char key[64];
    size_t bytes;
    unsigned char value[LONGEST];
};

/* Memory that all processes can read and write. */
struct board {
    pthread_mutex_t lock;
    pthread_barrier_t barrier;
    int has_yielded;
    int notes;
    struct note note[NOTES];
};

static int put(void *context, const char *key, const void *value, size_t bytes)
{
    struct board *board = (struct board *)context;
    int result = 5;
    pthread_mutex_lock(&board->lock);
    if (board->notes < NOTES && bytes <= LONGEST && strlen(key) < sizeof board->note[0].key) {
        struct note *note = &board->note[board->notes++];
        strcpy(note->key, key);
        memcpy(note->value, value, bytes);
        note->bytes = bytes;
        result = 0;
    }
    pthread_mutex_unlock(&board->lock);
    return result;
}

static int get(void *context, const char *key, void *value, size_t room, size_t *bytes)
{
    struct board *board = (struct board *)context;
    int result = STRAIT_NO_KEY;
    pthread_mutex_lock(&board->lock);
    for (int place = 0; place < board->notes; place++) {
        struct note *note = &board->note[place];
        if (strcmp(note->key, key) == 0) {
            *bytes = note->bytes;
            memcpy(value, note->value, note->bytes < room ? note->bytes : room);
            result = 0;
        }
    }
    pthread_mutex_unlock(&board->lock);
    return result;
}

static int fence(void *context)
{
    pthread_barrier_wait(&((struct board *)context)->barrier);
    return 0;
}

static int broken_put(void *context, const char *key, const void *value, size_t bytes)
{
    (void)context, (void)key, (void)value, (void)bytes;
    return 17;
}

/* The messages that the log received. */
struct heard {
    int failures;
    char last[256];
    struct board *board;
};

static void hear(void *context, const char *message)
{
    struct heard *heard = (struct heard *)context;
    heard->failures++;
    snprintf(heard->last, sizeof heard->last, "%s", message);
}

static void pass(void *context)
{
    __atomic_store_n(&((struct heard *)context)->board->has_yielded, 1, __ATOMIC_RELAXED);
    sched_yield();
}

static void rank_of(struct board *board, uint32_t rank, const uint32_t *nodes)
{
    struct heard heard = {0, "", board};
    strait_exchange exchange;
    strait_options options;
    strait_world world;
    uint32_t number, nodes_found;

    memset(&exchange, 0, sizeof exchange);
    memset(&options, 0, sizeof options);
    exchange.size = sizeof exchange, exchange.rank = rank, exchange.ranks = RANKS, exchange.nodes = nodes;
    exchange.context = board, exchange.put = put, exchange.get = get, exchange.fence = fence;
    options.size = sizeof options, options.log = hear, options.log_context = &heard;
    options.yield = pass, options.yield_context = &heard, options.exchange = &exchange;

    /* An invalid argument is reported to the log, and changes nothing. */
    exchange.rank = RANKS;
    FAILS(STRAIT_ERR_ARGUMENT, strait_init(STRAIT_ABI, &options, &world));
    exchange.rank = rank, exchange.put = NULL;
    FAILS(STRAIT_ERR_ARGUMENT, strait_init(STRAIT_ABI, &options, &world));
    exchange.put = broken_put;
    FAILS(STRAIT_ERR_BOOT, strait_init(STRAIT_ABI, &options, &world));
    CHECK(heard.failures == 3 && strstr(heard.last, "put with 17") != NULL);
    exchange.put = put;

    OK(strait_init(STRAIT_ABI, &options, &world));
    OK(strait_rank(world, &number));
    OK(strait_nodes(world, &nodes_found));
    CHECK(number == rank && nodes_found == (nodes == NULL ? 1u : 2u));
    if (rank == 0) {
        while (!__atomic_load_n(&board->has_yielded, __ATOMIC_RELAXED)) {
            usleep(1000);
        }
        OK(strait_send(world, 0, &rank, sizeof rank, 1, 0));
    } else {
        OK(strait_recv(world, 0, &number, sizeof number, 0, 0, NULL));
        CHECK(number == 0);
    }
    FAILS(STRAIT_ERR_RANK, strait_send(world, 0, &rank, sizeof rank, 9, 0));
    CHECK(heard.failures == 4 && strcmp(heard.last, strait_error_message()) == 0);
    OK(strait_finalize(world));
    _exit(0);
}

/* Runs a job with its ranks on these nodes, or on the detected nodes. */
static void job(const uint32_t *nodes)
{
    void *shared = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct board *board = (struct board *)shared;
    pthread_mutexattr_t mutex;
    pthread_barrierattr_t barrier;
    pid_t pids[RANKS];

    CHECK(shared != MAP_FAILED);
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&board->lock, &mutex);
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &barrier, RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            alarm(60);
            rank_of(board, rank, nodes);
        }
        CHECK(pids[rank] > 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status;
        CHECK(waitpid(pids[rank], &status, 0) == pids[rank]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    munmap(shared, sizeof(struct board));
}

int main(void)
{
    const uint32_t nodes[RANKS] = {40, 7};
    job(NULL);
    job(nodes);
    return 0;
}

/* The requirements on memory regions, tested through libfabric itself by two processes. An
 * access that does not fit the region of its key ends with FI_EACCES and touches nothing. Any
 * number of accesses or regions is possible.
 *
 * `regions near`: the two processes share memory. `regions far`: they are of different
 * universes, and a device connects them. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACCESSES = 3000, REGIONS = 1200, LENGTH = 4096, LONG = 1 << 20, SECONDS = 100 };

#define CHECK(what)                                                              \
    do {                                                                         \
        if (!(what)) {                                                           \
            fprintf(stderr, "%s, line %d: %s does not hold\n", side, __LINE__, #what); \
            exit(3);                                                             \
        }                                                                        \
    } while (0)

/* The owner's description of its memory: address and key of each region. */
struct card {
    uint64_t base, keys[4], many[REGIONS];
};

enum { OPEN, READ_ONLY, CLOSED, WIDE };

static const char *side;
static struct fid_domain *domain;
static struct fid_ep *endpoint;
static struct fid_cq *cq;
static fi_addr_t peer;
static unsigned char *memory;

static void tell(int to, const void *bytes, size_t length)
{
    CHECK(write(to, bytes, length) == (ssize_t)length);
}

static void hear(int from, void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t count = read(from, (char *)bytes + done, length - done);
        CHECK(count > 0);
        done += count;
    }
}

static void start(int from, int to)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_fabric *fabric;
    struct fid_av *av;
    char mine[64] = {0}, other[64];
    size_t length = sizeof mine;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("strait");
    CHECK(fi_getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info) == 0);
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
    CHECK(fi_av_open(domain, &av_attr, &av, NULL) == 0);
    CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL) == 0);
    CHECK(fi_endpoint(domain, info, &endpoint, NULL) == 0);
    CHECK(fi_ep_bind(endpoint, &av->fid, 0) == 0);
    CHECK(fi_ep_bind(endpoint, &cq->fid, FI_SEND | FI_RECV) == 0);
    CHECK(fi_enable(endpoint) == 0);
    CHECK(fi_getname(&endpoint->fid, mine, &length) == 0);
    tell(to, mine, sizeof mine);
    hear(from, other, sizeof other);
    CHECK(fi_av_insert(av, other, 1, &peer, 0, NULL) == 1);
}

static struct fid_mr *region(void *base, size_t length, uint64_t access)
{
    struct fid_mr *mr;
    CHECK(fi_mr_reg(domain, base, length, access, 0, 0, 0, &mr, NULL) == 0);
    return mr;
}

/* Makes progress. Returns the number of completions, or the error of a failed operation as a
 * negative number. */
static int progress(void)
{
    struct fi_cq_tagged_entry entries[16];
    struct fi_cq_err_entry error = {0};
    ssize_t count = fi_cq_read(cq, entries, 16);
    if (count != -FI_EAVAIL)
        return count == -FI_EAGAIN ? 0 : (int)count;
    CHECK(fi_cq_readerr(cq, &error, 0) == 1);
    return -error.err;
}

/* Returns the result of the only operation. */
static int outcome(void)
{
    for (;;) {
        int count = progress();
        if (count)
            return count == 1 ? 0 : count;
    }
}

static int get(void *to, size_t length, uint64_t address, uint64_t key)
{
    ssize_t begun;
    while ((begun = fi_read(endpoint, to, length, NULL, peer, address, key, NULL)) == -FI_EAGAIN)
        progress();
    CHECK(begun == 0);
    return outcome();
}

static int put(const void *from, size_t length, uint64_t address, uint64_t key)
{
    ssize_t begun;
    while ((begun = fi_write(endpoint, from, length, NULL, peer, address, key, NULL)) == -FI_EAGAIN)
        progress();
    CHECK(begun == 0);
    return outcome();
}

static int add(uint64_t address, uint64_t key)
{
    uint64_t one = 1, before;
    ssize_t begun;
    while ((begun = fi_fetch_atomic(endpoint, &one, 1, NULL, &before, NULL, peer, address, key, FI_UINT64,
                                    FI_SUM, NULL)) == -FI_EAGAIN)
        progress();
    CHECK(begun == 0);
    return outcome();
}

static void wrong_accesses(const struct card *card)
{
    static unsigned char bytes[2 * LENGTH];
    uint64_t base = card->base, open = card->keys[OPEN];
    const struct {
        uint64_t address, length;
    } wrong[] = {{base - 1, 1},      {base - 8, 16},        {base + LENGTH, 1}, {base + LENGTH - 7, 8},
                 {base, LENGTH + 1}, {base, 2 * LENGTH},    {0x111, 8},         {0, 8},
                 {UINT64_MAX, 2},    {UINT64_MAX - 7, 8}};
    const uint64_t unknown[] = {0, 1, UINT64_MAX, open + 1, open ^ 1ULL << 20, open ^ 1ULL << 40, card->keys[CLOSED]};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(get(bytes, wrong[i].length, wrong[i].address, open) == -FI_EACCES);
        CHECK(put(bytes, wrong[i].length, wrong[i].address, open) == -FI_EACCES);
        if (wrong[i].length == 8)
            CHECK(add(wrong[i].address, open) == -FI_EACCES);
    }
    for (unsigned i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CHECK(get(bytes, 8, base, unknown[i]) == -FI_EACCES);
        CHECK(put(bytes, 8, base, unknown[i]) == -FI_EACCES);
        CHECK(add(base, unknown[i]) == -FI_EACCES);
    }
    CHECK(put(bytes, 8, base, card->keys[READ_ONLY]) == -FI_EACCES);
    CHECK(add(base, card->keys[READ_ONLY]) == -FI_EACCES);
    CHECK(get(bytes, LENGTH, base, card->keys[READ_ONLY]) == 0);
    for (int i = 0; i < LENGTH; i++)
        CHECK(bytes[i] == (unsigned char)(i * 7));
}

/* More simultaneous accesses than a device has room for buffers, of all lengths. None is waited
 * for before the last has started. */
static void many_accesses(const struct card *card)
{
    static unsigned char in[ACCESSES][4];
    unsigned char *wide = malloc(LONG);
    uint64_t key = card->keys[OPEN];
    ssize_t begun;
    int left = 0;
    for (int i = 0; i < ACCESSES; i++) {
        uint64_t place = card->base + i % (LENGTH - 4);
        while ((begun = fi_read(endpoint, in[i], 4, NULL, peer, place, key, NULL)) == -FI_EAGAIN)
            left -= progress();
        CHECK(begun == 0);
        left++;
    }
    while (left > 0) {
        int count = progress();
        CHECK(count >= 0);
        left -= count;
    }
    for (int i = 0; i < ACCESSES; i++)
        for (int j = 0; j < 4; j++)
            CHECK(in[i][j] == (unsigned char)((i % (LENGTH - 4) + j) * 7));
    for (int i = 0; i < LONG; i++)
        wide[i] = (unsigned char)(i * 13 + 1);
    /* Hundreds of simultaneous long writes to overlapping parts, and then one read of all. */
    for (int i = 0; i < 256; i++) {
        uint64_t place = card->base + LENGTH * 2 + i * (LONG / 256);
        size_t length = i % 2 ? LONG / 256 : LONG - i * (LONG / 256);
        while ((begun = fi_write(endpoint, wide + i * (LONG / 256), length, NULL, peer, place, card->keys[WIDE], NULL)) ==
               -FI_EAGAIN)
            left -= progress();
        CHECK(begun == 0);
        left++;
    }
    while (left > 0) {
        int count = progress();
        CHECK(count >= 0);
        left -= count;
    }
    unsigned char *back = calloc(1, LONG);
    CHECK(get(back, LONG, card->base + LENGTH * 2, card->keys[WIDE]) == 0);
    CHECK(memcmp(wide, back, LONG) == 0);
    free(back);
    free(wide);
}

/* More regions than a device has room for. Each stays open. */
static void many_regions(const struct card *card)
{
    static uint32_t in[REGIONS];
    ssize_t begun;
    for (int round = 0; round < 3; round++) {
        int left = 0;
        memset(in, 0, sizeof in);
        for (int i = 0; i < REGIONS; i++) {
            int which = round == 1 ? REGIONS - 1 - i : i;
            while ((begun = fi_read(endpoint, &in[which], 4, NULL, peer, card->base + which, card->many[which], NULL)) ==
                   -FI_EAGAIN)
                left -= progress();
            CHECK(begun == 0);
            left++;
        }
        while (left > 0) {
            int count = progress();
            CHECK(count >= 0);
            left -= count;
        }
        for (int i = 0; i < REGIONS; i++)
            for (int j = 0; j < 4; j++)
                CHECK(((unsigned char *)&in[i])[j] == (unsigned char)((i + j) * 7));
    }
}

static void own(int from, int to)
{
    static struct card card;
    uint64_t all = FI_REMOTE_READ | FI_REMOTE_WRITE;
    char end;
    memory = malloc(64 + LENGTH * 2 + LONG);
    memset(memory, 0xee, LENGTH * 2);
    /* Bytes before the region are not part of it. */
    unsigned char *base = memory + 64;
    for (int i = 0; i < LENGTH; i++)
        base[i] = (unsigned char)(i * 7);
    card.base = (uintptr_t)base;
    card.keys[OPEN] = fi_mr_key(region(base, LENGTH, all));
    card.keys[READ_ONLY] = fi_mr_key(region(base, LENGTH, FI_REMOTE_READ));
    struct fid_mr *closed = region(base, LENGTH, all);
    card.keys[CLOSED] = fi_mr_key(closed);
    CHECK(fi_close(&closed->fid) == 0);
    card.keys[WIDE] = fi_mr_key(region(base + LENGTH * 2, LONG, all));
    for (int i = 0; i < REGIONS; i++)
        card.many[i] = fi_mr_key(region(base + i, 4, all));
    tell(to, &card, sizeof card);
    CHECK(fcntl(from, F_SETFL, O_NONBLOCK) == 0);
    while (read(from, &end, 1) != 1)
        CHECK(progress() == 0);
    for (int i = 0; i < 64; i++)
        CHECK(memory[i] == 0xee && base[LENGTH + i] == 0xee);
    for (int i = 0; i < LENGTH; i++)
        CHECK(base[i] == (unsigned char)(i * 7));
}

static void ask(int from, int to)
{
    static struct card card;
    hear(from, &card, sizeof card);
    wrong_accesses(&card);
    many_accesses(&card);
    many_regions(&card);
    tell(to, "x", 1);
}

int main(int count, char **arguments)
{
    int there[2], back[2], status;
    int is_far = count > 1 && strcmp(arguments[1], "far") == 0;
    char universe[64];
    alarm(SECONDS);
    if (pipe(there) || pipe(back))
        return 2;
    pid_t child = fork();
    side = child ? "asker" : "owner";
    snprintf(universe, sizeof universe, "regions-%d-%s", child ? getpid() : getppid(), is_far ? side : "both");
    setenv("STRAIT_UNIVERSE", universe, 1);
    if (child == 0) {
        alarm(SECONDS);
        start(there[0], back[1]);
        own(there[0], back[1]);
        _exit(0);
    }
    start(back[0], there[1]);
    ask(back[0], there[1]);
    if (waitpid(child, &status, 0) != child || status != 0)
        return 3;
    printf("all well\n");
    return 0;
}

/* A program for the count of instructions through libfabric's interface.
 * docs/instruction-count.md has the method. Two endpoints of one process send to each other in
 * turn and in one direction. */

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 2000 };

struct side {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t peer;
};

/* Makes a counted function of one line of code. */
#define COUNTED(name, call)                                                                                            \
    __attribute__((noinline)) ssize_t name(struct side *side, void *data, struct fi_cq_tagged_entry *entry);           \
    ssize_t name(struct side *side, void *data, struct fi_cq_tagged_entry *entry)                                      \
    {                                                                                                                  \
        (void)data, (void)entry;                                                                                       \
        return call;                                                                                                   \
    }

/* Makes the counted functions for messages of `bytes` bytes. */
#define COUNTED_FOR(bytes)                                                                                             \
    COUNTED(strait_icount_fi_tinject_##bytes, fi_tinject(side->ep, data, bytes, side->peer, 7))                        \
    COUNTED(strait_icount_fi_trecv_##bytes, fi_trecv(side->ep, data, bytes, NULL, FI_ADDR_UNSPEC, 7, 0, NULL))         \
    COUNTED(strait_icount_fi_cq_read_##bytes, fi_cq_read(side->cq, entry, 1))

COUNTED_FOR(4)
COUNTED_FOR(8)
COUNTED_FOR(16)
COUNTED_FOR(48)
COUNTED(strait_icount_fi_cq_read_empty, fi_cq_read(side->cq, entry, 1))

typedef ssize_t (*counted)(struct side *side, void *data, struct fi_cq_tagged_entry *entry);

/* The counted functions for messages of one length. */
struct length {
    size_t bytes;
    counted tinject, trecv, cq_read;
};

#define LENGTH(bytes)                                                                                                  \
    {bytes, strait_icount_fi_tinject_##bytes, strait_icount_fi_trecv_##bytes, strait_icount_fi_cq_read_##bytes}

static const struct length LENGTHS[] = {LENGTH(8), LENGTH(4), LENGTH(16), LENGTH(48)};

static void check(int is_good)
{
    if (!is_good)
        abort();
}

static struct side open_side(struct fid_domain *domain, struct fi_info *info)
{
    struct side side;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    check(fi_cq_open(domain, &cq, &side.cq, NULL) == 0);
    check(fi_av_open(domain, &av, &side.av, NULL) == 0);
    check(fi_endpoint(domain, info, &side.ep, NULL) == 0);
    check(fi_ep_bind(side.ep, &side.cq->fid, FI_SEND | FI_RECV) == 0);
    check(fi_ep_bind(side.ep, &side.av->fid, 0) == 0);
    check(fi_enable(side.ep) == 0);
    return side;
}

static void introduce(struct side *side, struct side *peer)
{
    char name[64];
    size_t length = sizeof name;
    check(fi_getname(&peer->ep->fid, name, &length) == 0);
    check(fi_av_insert(side->av, name, 1, &side->peer, 0, NULL) == 1);
}

/* Sends one message, and polls twice for it: one poll finds it, the other finds nothing. */
static void exchange(struct side *from, struct side *to, const struct length *length, int number)
{
    struct fi_cq_tagged_entry entry;
    /* The C library fills and copies memory in more or fewer steps, as it is aligned. The size of the
     * environment, which lies above the stack, must not decide that. */
    __attribute__((aligned(64))) unsigned char sent[48], received[48];
    memset(sent, number, sizeof sent);
    memset(received, ~number, sizeof received);
    check(length->trecv(to, received, &entry) == 0);
    while (length->tinject(from, sent, &entry) != 0)
        ;
    check(length->cq_read(to, received, &entry) == 1);
    check(memcmp(received, sent, length->bytes) == 0 && entry.len == length->bytes);
    check(strait_icount_fi_cq_read_empty(to, received, &entry) == -FI_EAGAIN);
}

int main(void)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    check(hints != NULL);
    hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup("strait");
    check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
    check(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    check(fi_domain(fabric, info, &domain, NULL) == 0);
    struct side one = open_side(domain, info), other = open_side(domain, info);
    introduce(&one, &other);
    introduce(&other, &one);
    for (size_t place = 0; place < sizeof LENGTHS / sizeof *LENGTHS; place++)
        for (int number = 0; number < CALLS; number++) {
            exchange(&one, &other, &LENGTHS[place], number);
            if (number % 2 == 0)
                exchange(&other, &one, &LENGTHS[place], number);
        }
    for (int number = 0; number < 2; number++) {
        struct side *side = number == 0 ? &one : &other;
        check(fi_close(&side->ep->fid) == 0 && fi_close(&side->cq->fid) == 0 && fi_close(&side->av->fid) == 0);
    }
    check(fi_close(&domain->fid) == 0 && fi_close(&fabric->fid) == 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return 0;
}

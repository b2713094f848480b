/* The program whose instructions are counted, through libfabric's interface: docs/instruction-count.md has the method. Two endpoints
 * of one process send to each other in turn and one way. */

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
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
    __attribute__((noinline)) ssize_t name(struct side *side, uint64_t *data, struct fi_cq_tagged_entry *entry);       \
    ssize_t name(struct side *side, uint64_t *data, struct fi_cq_tagged_entry *entry)                                  \
    {                                                                                                                  \
        (void)data, (void)entry;                                                                                       \
        return call;                                                                                                   \
    }

COUNTED(strait_icount_fi_tinject, fi_tinject(side->ep, data, 8, side->peer, 7))
COUNTED(strait_icount_fi_trecv, fi_trecv(side->ep, data, 8, NULL, FI_ADDR_UNSPEC, 7, 0, NULL))
COUNTED(strait_icount_fi_cq_read, fi_cq_read(side->cq, entry, 1))
COUNTED(strait_icount_fi_cq_read_empty, fi_cq_read(side->cq, entry, 1))

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

/* A message that arrives, and two looks for it: one finds it, the other nothing. */
static void exchange(struct side *from, struct side *to, uint64_t number)
{
    struct fi_cq_tagged_entry entry;
    uint64_t received = 0;
    check(strait_icount_fi_trecv(to, &received, &entry) == 0);
    while (strait_icount_fi_tinject(from, &number, &entry) != 0)
        ;
    check(strait_icount_fi_cq_read(to, &received, &entry) == 1);
    check(received == number && entry.len == 8);
    check(strait_icount_fi_cq_read_empty(to, &received, &entry) == -FI_EAGAIN);
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
    for (uint64_t number = 0; number < CALLS; number++) {
        exchange(&one, &other, number);
        if (number % 2 == 0)
            exchange(&other, &one, number);
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

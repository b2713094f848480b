/* Two endpoints of one process, tested through libfabric itself: messages that arrive before their
 * receives, in every length and kind; probes that claim and discard; buffers for many messages;
 * and the causes that error entries carry. `endpoints safe` lets the provider lock its calls. */

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "side.h"

enum { LENGTHS = 10, LONGEST = 300000, SOON = 200, MANY = 6, SHORT = 100 };

static const size_t lengths[LENGTHS] = {0, 1, 8, 48, 100, 1024, 5000, 12000, 20000, LONGEST};
static unsigned char out[LENGTHS][LONGEST], in[LONGEST];

static struct side open_side(struct fid_domain *domain, struct fi_info *info)
{
    struct side side;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cntr_attr cntr = {0};
    CHECK(fi_cq_open(domain, &cq, &side.cq, NULL) == 0);
    CHECK(fi_av_open(domain, &av, &side.av, NULL) == 0);
    CHECK(fi_cntr_open(domain, &cntr, &side.cntr, NULL) == 0);
    CHECK(fi_endpoint(domain, info, &side.ep, NULL) == 0);
    CHECK(fi_enable(side.ep) == -FI_ENOAV);
    CHECK(fi_ep_bind(side.ep, &side.cq->fid, FI_SEND | FI_RECV) == 0);
    CHECK(fi_ep_bind(side.ep, &side.av->fid, 0) == 0);
    CHECK(fi_ep_bind(side.ep, &side.cntr->fid, FI_SEND | FI_RECV | FI_READ | FI_WRITE) == 0);
    CHECK(fi_enable(side.ep) == 0);
    return side;
}

/* Makes progress at both sides for a while, and leaves all entries in their queues. */
static void progress(struct side *one, struct side *other)
{
    for (int poll = 0; poll < SOON; poll++) {
        fi_cntr_read(one->cntr);
        fi_cntr_read(other->cntr);
    }
}

/* Returns the entry of `context`, and drops the entries before it. */
static struct fi_cq_tagged_entry await(struct side *at, struct side *peer, void *context)
{
    struct fi_cq_tagged_entry entry;
    for (;;) {
        ssize_t read = fi_cq_read(at->cq, &entry, 1);
        CHECK(read == 1 || read == -FI_EAGAIN);
        if (read == 1 && entry.op_context == context)
            return entry;
        fi_cntr_read(peer->cntr);
    }
}

/* Waits for an error entry with this number, whose text contains `word`. */
static struct fi_cq_err_entry failure(struct side *at, int number, const char *word)
{
    struct fi_cq_tagged_entry entry;
    char text[100];
    struct fi_cq_err_entry error = {.err_data = text, .err_data_size = sizeof text};
    ssize_t read;
    while ((read = fi_cq_read(at->cq, &entry, 1)) != -FI_EAVAIL)
        CHECK(read == 1 || read == -FI_EAGAIN);
    CHECK(fi_cq_readerr(at->cq, &error, 0) == 1);
    CHECK(error.err == number && error.err_data == text && error.err_data_size <= sizeof text);
    CHECK(strstr(fi_cq_strerror(at->cq, error.prov_errno, error.err_data, NULL, 0), word) != NULL);
    CHECK(strstr(fi_cq_strerror(at->cq, error.prov_errno, NULL, NULL, 0), word) != NULL);
    return error;
}

/* Sends one message of each length. The tag is the place of the length. */
static void send_all(struct side *from, struct side *to, uint64_t flags)
{
    for (int place = 0; place < LENGTHS; place++) {
        struct iovec part = {out[place], lengths[place]};
        struct fi_msg_tagged message = {
            .msg_iov = &part, .iov_count = 1, .addr = from->peer, .tag = place, .context = out[place]};
        ssize_t sent;
        while ((sent = fi_tsendmsg(from->ep, &message, flags | FI_COMPLETION)) == -FI_EAGAIN)
            progress(from, to);
        CHECK(sent == 0);
    }
    progress(from, to);
}

/* Claims the message with this tag, and drops or receives it in two parts. */
static void claim(struct side *at, struct side *peer, int tag)
{
    size_t half = lengths[tag] / 2;
    struct iovec parts[2] = {{in, half}, {in + half, lengths[tag] - half}};
    struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = in};
    CHECK(fi_trecvmsg(at->ep, &message, FI_PEEK | FI_CLAIM) == 0);
    CHECK(await(at, peer, in).len == lengths[tag]);
    if (tag % 3 == 1) {
        CHECK(fi_trecvmsg(at->ep, &message, FI_CLAIM | FI_DISCARD) == 0);
        await(at, peer, in);
        memcpy(in, out[tag], lengths[tag]);
        return;
    }
    message.msg_iov = parts;
    message.iov_count = 2;
    CHECK(fi_trecvmsg(at->ep, &message, FI_CLAIM) == 0);
    CHECK(await(at, peer, in).len == lengths[tag]);
}

/* Receives messages in another order than that in which they were sent. */
static void unexpected(struct side *from, struct side *at, uint64_t flags, int claims)
{
    int left = LENGTHS;
    send_all(from, at, flags);
    for (int tag = LENGTHS - 1; tag >= 0; tag--) {
        memset(in, 0, sizeof in);
        if (claims) {
            claim(at, from, tag);
        } else {
            CHECK(fi_trecv(at->ep, in, lengths[tag], NULL, FI_ADDR_UNSPEC, tag, 0, in) == 0);
            struct fi_cq_tagged_entry entry = await(at, from, in);
            CHECK(entry.len == lengths[tag] && entry.tag == (uint64_t)tag);
        }
        CHECK(memcmp(in, out[tag], lengths[tag]) == 0);
    }
    while (left > 0) {
        struct fi_cq_tagged_entry entry;
        ssize_t read = fi_cq_read(from->cq, &entry, 1);
        CHECK(read == 1 || read == -FI_EAGAIN);
        left -= read == 1;
        fi_cntr_read(at->cntr);
    }
}

/* Messages of which some arrive before the buffer for many, and some behind it. */
static void many(struct side *from, struct side *at)
{
    struct iovec part = {in, MANY * SHORT + SHORT};
    struct fi_msg message = {.msg_iov = &part, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &part};
    for (int number = 0; number < MANY; number++) {
        if (number == 2) {
            progress(from, at);
            CHECK(fi_recvmsg(at->ep, &message, FI_MULTI_RECV) == 0);
        }
        CHECK(fi_inject(from->ep, out[number], SHORT, from->peer) == 0);
    }
    for (int number = 0; number < MANY; number++) {
        struct fi_cq_tagged_entry entry = await(at, from, &part);
        CHECK(entry.len == SHORT && entry.buf == in + SHORT * number);
        CHECK(memcmp(entry.buf, out[number], SHORT) == 0);
    }
    CHECK(fi_cancel(&at->ep->fid, &part) == 0);
    failure(at, FI_ECANCELED, "cancelled");
}

/* Each failure says why. */
static void causes(struct fid_domain *domain, struct side *from, struct side *at)
{
    static uint64_t memory[8];
    struct fid_mr *mr;
    uint64_t one = 1, old = 0;
    CHECK(fi_trecv(at->ep, in, 4, NULL, FI_ADDR_UNSPEC, 77, 0, in) == 0);
    CHECK(fi_tinject(from->ep, out[3], 8, from->peer, 77) == 0);
    CHECK(failure(at, FI_ETRUNC, "longer than its buffer").olen == 4);
    CHECK(fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL) == 0);
    uint64_t key = fi_mr_key(mr), first = (uintptr_t)memory;
    CHECK(fi_write(from->ep, &one, 8, NULL, from->peer, first, key, &one) == 0);
    await(from, at, &one);
    CHECK(fi_fetch_atomic(from->ep, &one, 1, NULL, &old, NULL, from->peer, first, key, FI_UINT64, FI_SUM, &old) == 0);
    await(from, at, &old);
    CHECK(old == 1 && memory[0] == 2);
    CHECK(fi_write(from->ep, &one, 8, NULL, from->peer, first + sizeof memory, key, &one) == 0);
    failure(from, FI_EACCES, "key");
    CHECK(fi_close(&mr->fid) == 0);
}

int main(int count, char **arguments)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    CHECK(hints != NULL);
    hints->caps = FI_TAGGED | FI_MSG | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = count > 1 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup("strait");
    (void)arguments;
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
    struct side one = open_side(domain, info), other = open_side(domain, info), *both[] = {&one, &other};
    introduce(&one, &other);
    introduce(&other, &one);
    for (int place = 0; place < LENGTHS; place++)
        memset(out[place], place + 1, LONGEST);
    static const uint64_t kinds[] = {0, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE};
    for (int kind = 0; kind < 3; kind++)
        for (int claims = 0; claims < 2; claims++)
            unexpected(&one, &other, kinds[kind], claims);
    many(&one, &other);
    causes(domain, &one, &other);
    /* A message that nothing receives, and a receive that its source never serves. */
    CHECK(fi_tinject(other.ep, out[0], 2000, other.peer, 5) == 0);
    progress(&one, &other);
    CHECK(fi_trecv(one.ep, in, 4, NULL, one.peer, 99, 0, in) == 0);
    CHECK(fi_close(&other.ep->fid) == 0);
    failure(&one, FI_ECONNRESET, "left the job");
    CHECK(fi_close(&one.ep->fid) == 0);
    for (int number = 0; number < 2; number++) {
        struct side *side = both[number];
        CHECK(fi_close(&side->cq->fid) == 0 && fi_close(&side->cntr->fid) == 0 && fi_close(&side->av->fid) == 0);
    }
    CHECK(fi_close(&domain->fid) == 0 && fi_close(&fabric->fid) == 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    puts("all well");
    return 0;
}

/* Receives that are posted before their large messages, between two endpoints of one process. A
 * message moves without its receiver, and random programs of sends, receives of all kinds and
 * cancellations match as libfabric says. `asks SEED` plays another program. */

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "side.h"

enum { SLOTS = 12, STEPS = 4000, TAGS = 3, LONGEST = 700000, MESSAGES = 10, PATIENCE = 1000000 };

/* A receive or a send, with its buffer. */
struct slot {
    unsigned char *bytes;
    int busy, cancelled;
    uint64_t post, tag;
};

static struct slot receives[SLOTS], sends[SLOTS];
static uint64_t state = 1;

static unsigned draw(unsigned limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % limit;
}

static void fill(unsigned char *bytes, size_t length, uint64_t number)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 251 + number * 7);
    memcpy(bytes, &number, sizeof number);
}

static int is_filled(const unsigned char *bytes, size_t length, uint64_t number)
{
    for (size_t i = sizeof number; i < length; i++)
        if (bytes[i] != (unsigned char)(i * 31 + i / 251 + number * 7))
            return 0;
    return memcmp(bytes, &number, sizeof number) == 0;
}

static struct side open_side(struct fid_domain *domain, struct fi_info *info)
{
    struct side side;
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    CHECK(fi_cq_open(domain, &cq, &side.cq, NULL) == 0);
    CHECK(fi_av_open(domain, &av, &side.av, NULL) == 0);
    CHECK(fi_endpoint(domain, info, &side.ep, NULL) == 0);
    CHECK(fi_ep_bind(side.ep, &side.cq->fid, FI_SEND | FI_RECV) == 0);
    CHECK(fi_ep_bind(side.ep, &side.av->fid, 0) == 0);
    CHECK(fi_enable(side.ep) == 0);
    return side;
}

/* Waits for the entry of `context` at one side. The other side makes no progress. */
static size_t await_alone(struct side *at, void *context)
{
    struct fi_cq_tagged_entry entry;
    for (int poll = 0; poll < PATIENCE; poll++) {
        ssize_t read = fi_cq_read(at->cq, &entry, 1);
        CHECK(read == 1 || read == -FI_EAGAIN);
        if (read == 1 && entry.op_context == context)
            return entry.len;
    }
    CHECK(!"the entry came");
    return 0;
}

/* Every message but the first moves while its receiver makes no calls. */
static void moves_alone(struct side *from, struct side *at)
{
    unsigned char *out = sends[0].bytes, *in = receives[0].bytes;
    for (uint64_t number = 0; number < MESSAGES; number++) {
        fill(out, LONGEST, number);
        memset(in, 0, LONGEST);
        CHECK(fi_trecv(at->ep, in, LONGEST, NULL, at->peer, 9, 0, in) == 0);
        CHECK(fi_tsend(from->ep, out, LONGEST, NULL, from->peer, 9, out) == 0);
        for (int poll = 0; number == 0 && poll < 1000; poll++) {
            CHECK(fi_cq_read(at->cq, NULL, 0) == -FI_EAGAIN || poll > 0);
            CHECK(fi_cq_read(from->cq, NULL, 0) == -FI_EAGAIN || poll > 0);
        }
        await_alone(from, out);
        CHECK(is_filled(in, LONGEST, number));
        CHECK(await_alone(at, in) == LONGEST);
        CHECK(is_filled(in, LONGEST, number));
    }
}

/* The messages that receives have got: in the order of their receives, the messages of each tag
 * come in the order in which they were sent. */
static struct { uint64_t post, tag, number; } got[STEPS * 2];
static int got_count;
static size_t length_of[STEPS * 2];
static uint64_t tag_of[STEPS * 2], posts, numbers;

static void received(struct slot *slot, size_t length)
{
    uint64_t number;
    memcpy(&number, slot->bytes, sizeof number);
    CHECK(number < numbers && length == length_of[number]);
    CHECK(slot->tag == TAGS || slot->tag == tag_of[number]);
    CHECK(is_filled(slot->bytes, length, number));
    got[got_count].post = slot->post;
    got[got_count].tag = tag_of[number];
    got[got_count++].number = number;
    /* The message came before the cancellation, if there was one. */
    slot->busy = slot->cancelled = 0;
}

static void poll_side(struct side *at)
{
    struct fi_cq_tagged_entry entry;
    ssize_t read = fi_cq_read(at->cq, &entry, 1);
    if (read == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        CHECK(fi_cq_readerr(at->cq, &error, 0) == 1 && error.err == FI_ECANCELED);
        struct slot *slot = error.op_context;
        CHECK(slot->cancelled && slot->busy);
        slot->busy = 0;
        memset(slot->bytes, 0xee, LONGEST);
    } else if (read == 1) {
        struct slot *slot = entry.op_context;
        if (slot >= receives && slot < receives + SLOTS)
            received(slot, entry.len);
        else
            slot->busy = 0;
    } else {
        CHECK(read == -FI_EAGAIN);
    }
}

static struct slot *idle(struct slot *slots)
{
    struct slot *slot = &slots[draw(SLOTS)];
    return slot->busy ? NULL : slot;
}

static void receive_one(struct side *at, struct slot *slot, uint64_t tag)
{
    /* No late message was written into the buffer of a cancelled receive. */
    for (size_t i = 0; slot->cancelled && i < LONGEST; i++)
        CHECK(slot->bytes[i] == 0xee);
    *slot = (struct slot){.bytes = slot->bytes, .busy = 1, .post = posts++, .tag = tag};
    uint64_t ignore = tag == TAGS ? 3 : 0, asked = tag == TAGS ? 0 : tag;
    fi_addr_t source = draw(4) == 0 ? FI_ADDR_UNSPEC : at->peer;
    CHECK(fi_trecv(at->ep, slot->bytes, LONGEST, NULL, source, asked, ignore, slot) == 0);
}

static void send_one(struct side *from, struct slot *slot, uint64_t tag, int shorts)
{
    static const size_t lengths[] = {8, 40, 3000, 20000, 270000, 400000, LONGEST};
    size_t length = lengths[shorts && draw(3) == 0 ? draw(4) : 4 + draw(3)];
    fill(slot->bytes, length, numbers);
    struct iovec part = {slot->bytes, length};
    struct fi_msg_tagged message = {
        .msg_iov = &part, .iov_count = 1, .addr = from->peer, .tag = tag, .context = slot};
    uint64_t flags = draw(8) == 0 ? FI_DELIVERY_COMPLETE : 0;
    if (fi_tsendmsg(from->ep, &message, flags | FI_COMPLETION) != 0)
        return;
    slot->busy = 1;
    length_of[numbers] = length;
    tag_of[numbers++] = tag;
}

/* Plays a random program. `shorts`: messages of other lengths come between. */
static void play(struct side *from, struct side *at, int shorts, int cancels)
{
    struct slot *slot;
    got_count = 0, posts = 0, numbers = 0;
    for (int step = 0; step < STEPS; step++) {
        unsigned what = draw(8), wild = draw(shorts ? 12 : 40) == 0;
        if (what < 2 && (slot = idle(receives)) != NULL)
            receive_one(at, slot, wild ? TAGS : draw(TAGS));
        else if (what < 4 && (slot = idle(sends)) != NULL)
            send_one(from, slot, draw(TAGS), shorts);
        else if (what == 4 && cancels && (slot = &receives[draw(SLOTS)])->busy && !slot->cancelled)
            slot->cancelled = 1, fi_cancel(&at->ep->fid, slot);
        else
            for (unsigned polls = draw(30); polls > 0; polls--)
                poll_side(draw(2) ? from : at);
    }
    /* Messages and receives of every tag, until none is left over. A short message may be on its way
     * although its send is over. */
    for (int busy = 1, polls = 0; busy; polls++) {
        int is_missing = (uint64_t)got_count < numbers;
        busy = is_missing;
        CHECK(polls < PATIENCE);
        poll_side(polls % 2 ? from : at);
        for (slot = receives; slot < receives + SLOTS; slot++) {
            busy |= slot->busy;
            if (slot->busy && polls % 997 == 0 && !slot->cancelled)
                slot->cancelled = 1, fi_cancel(&at->ep->fid, slot);
        }
        for (slot = sends; slot < sends + SLOTS; slot++)
            busy |= slot->busy;
        if (is_missing && polls % 500 == 499 && (slot = idle(receives)) != NULL)
            receive_one(at, slot, TAGS);
    }
    for (int i = 0; i < got_count; i++)
        for (int j = 0; j < i; j++)
            if (got[i].tag == got[j].tag)
                CHECK((got[i].post < got[j].post) == (got[i].number < got[j].number));
}

int main(int count, char **arguments)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    CHECK(hints != NULL);
    hints->caps = FI_TAGGED | FI_MSG | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup("strait");
    if (count > 1)
        state = strtoull(arguments[1], NULL, 0);
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
    struct side one = open_side(domain, info), other = open_side(domain, info);
    introduce(&one, &other);
    introduce(&other, &one);
    for (int place = 0; place < SLOTS; place++) {
        receives[place].bytes = malloc(LONGEST);
        sends[place].bytes = malloc(LONGEST);
        CHECK(receives[place].bytes != NULL && sends[place].bytes != NULL);
    }
    const char *setting = getenv("STRAIT_RENDEZVOUS");
    if (setting == NULL || strcmp(setting, "plain") != 0)
        moves_alone(&one, &other);
    for (int kind = 0; kind < 4; kind++)
        play(&one, &other, kind % 2, kind / 2);
    /* A process leaves while a receive has asked. */
    CHECK(fi_trecv(other.ep, receives[0].bytes, LONGEST, NULL, other.peer, 9, 0, &one) == 0);
    CHECK(fi_close(&other.ep->fid) == 0 && fi_close(&one.ep->fid) == 0);
    puts("all well");
    return 0;
}

/* What the tests of the provider without an MPI share: checks, and the two sides of one process. */

#ifndef SIDE_H
#define SIDE_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                           \
    do {                                                                      \
        if (!(what)) {                                                        \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #what);  \
            exit(3);                                                          \
        }                                                                     \
    } while (0)

/* An endpoint with what it is bound to. A test without counters leaves `cntr` alone. */
struct side {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_cntr *cntr;
    fi_addr_t peer;
};

/* Gives `side` the address of `peer`. */
static void introduce(struct side *side, struct side *peer)
{
    char name[64];
    size_t length = sizeof name;
    CHECK(fi_getname(&peer->ep->fid, name, &length) == 0);
    CHECK(fi_av_insert(side->av, name, 1, &side->peer, 0, NULL) == 1);
}

#endif

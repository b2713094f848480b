/* NetPIPE's module for Strait: the functions that NetPIPE 3 requires of a protocol (Snell et al.
 * 1996).
 *
 * Put it into NetPIPE's src/ beside netpipe.c and build
 * `cc -O2 netpipe.c strait.c $(pkg-config --cflags --libs strait) -o NPstrait`. Then run
 * `strait run -n 2 ./NPstrait`.
 *
 * The netpipe.h beside this file declares what the module uses, so that it builds without
 * NetPIPE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netpipe.h"
#include "strait.h"

enum { DATA = 1, TIME = 2, REPEAT = 3 };

static strait_world world;
static strait_request receive; /* the receive that PrepareToReceive posted */
static uint32_t peer;

static void must(int code)
{
    if (code != STRAIT_OK) {
        fprintf(stderr, "NetPIPE: %s\n", strait_error_message());
        exit(1);
    }
}

/* Joins the job, before NetPIPE reads its options. */
void Init(ArgStruct *p, int *count, char ***arguments)
{
    (void)p, (void)count, (void)arguments;
    must(strait_init(STRAIT_ABI, NULL, &world));
}

/* Sets up the roles, after NetPIPE has read its options: rank 0 transmits. */
void Setup(ArgStruct *p)
{
    uint32_t rank, ranks;
    must(strait_rank(world, &rank));
    must(strait_size(world, &ranks));
    if (ranks != 2) {
        fprintf(stderr, "NetPIPE: start two ranks: strait run -n 2\n");
        exit(1);
    }
    peer = 1 - rank;
    p->tr = rank == 0;
    p->rcv = !p->tr;
}

void Sync(ArgStruct *p)
{
    (void)p;
    must(strait_barrier(world, 0));
}

/* Posts the receive of the next message, if NetPIPE's options ask for that. */
void PrepareToReceive(ArgStruct *p)
{
    must(strait_irecv(world, 0, p->r_ptr, (size_t)p->bufflen, peer, DATA, &receive));
}

void SendData(ArgStruct *p)
{
    must(strait_send(world, 0, p->s_ptr, (size_t)p->bufflen, peer, DATA));
}

void RecvData(ArgStruct *p)
{
    if (receive != NULL) {
        must(strait_wait(&receive, NULL));
    } else {
        must(strait_recv(world, 0, p->r_ptr, (size_t)p->bufflen, peer, DATA, NULL));
    }
}

void SendTime(ArgStruct *p, double *seconds)
{
    (void)p;
    must(strait_send(world, 0, seconds, sizeof *seconds, peer, TIME));
}

void RecvTime(ArgStruct *p, double *seconds)
{
    (void)p;
    must(strait_recv(world, 0, seconds, sizeof *seconds, peer, TIME, NULL));
}

void SendRepeat(ArgStruct *p, int repeat)
{
    (void)p;
    must(strait_send(world, 0, &repeat, sizeof repeat, peer, REPEAT));
}

void RecvRepeat(ArgStruct *p, int *repeat)
{
    (void)p;
    must(strait_recv(world, 0, repeat, sizeof *repeat, peer, REPEAT, NULL));
}

void CleanUp(ArgStruct *p)
{
    (void)p;
    must(strait_finalize(world));
}

/* These functions do nothing: there is no connection to make again, and buffers need no
 * preparation. */
void Reset(ArgStruct *p)
{
    (void)p;
}

void AfterAlignmentInit(ArgStruct *p)
{
    (void)p;
}

void MyMalloc(ArgStruct *p, int bytes, int send_offset, int receive_offset)
{
    int offset = send_offset > receive_offset ? send_offset : receive_offset;
    p->r_buff = (char *)malloc((size_t)bytes + (size_t)offset);
    p->s_buff = (char *)malloc((size_t)bytes + (size_t)offset);
    if (p->r_buff == NULL || p->s_buff == NULL) {
        fprintf(stderr, "NetPIPE: no memory for two buffers of %d bytes\n", bytes);
        exit(1);
    }
}

void FreeBuff(char *first, char *second)
{
    free(first);
    if (second != first) {
        free(second);
    }
}

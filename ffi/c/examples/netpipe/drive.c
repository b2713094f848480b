/* Drives NetPIPE's module as NetPIPE does, for a few sizes: strait run -n 2 ./drive. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netpipe.h"

enum { LONGEST = 1 << 20 };

static void check(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "drive.c: %s\n", what);
        exit(1);
    }
}

/* Measures one size. The transmitter announces the number of repetitions. Then messages go there
 * and back, and return unchanged. */
static void measure(ArgStruct *p, int bytes, int repeat, int is_prepared)
{
    int told = repeat;
    p->bufflen = bytes;
    Sync(p);
    if (p->tr) {
        SendRepeat(p, repeat);
    } else {
        RecvRepeat(p, &told);
    }
    check(told == repeat, "the repeat count");
    for (int round = 0; round < repeat; round++) {
        if (is_prepared) {
            PrepareToReceive(p);
        }
        if (p->tr) {
            memset(p->s_ptr, round + 1, (size_t)bytes);
            SendData(p);
            RecvData(p);
            check(memcmp(p->s_ptr, p->r_ptr, (size_t)bytes) == 0, "what came back");
        } else {
            RecvData(p);
            memcpy(p->s_ptr, p->r_ptr, (size_t)bytes);
            SendData(p);
        }
    }
}

int main(int count, char **arguments)
{
    ArgStruct arguments_of_netpipe = {0, 0, 0, NULL, NULL, NULL, NULL};
    ArgStruct *p = &arguments_of_netpipe;
    double seconds = 1.5;

    Init(p, &count, &arguments);
    Setup(p);
    check(p->tr != p->rcv, "one transmits, one receives");
    MyMalloc(p, LONGEST, 0, 0);
    p->r_ptr = p->r_buff, p->s_ptr = p->s_buff;
    AfterAlignmentInit(p);
    for (int bytes = 1; bytes <= LONGEST; bytes *= 4) {
        measure(p, bytes, 10, 0);
        measure(p, bytes, 10, 1);
        Reset(p);
    }
    if (p->tr) {
        SendTime(p, &seconds);
    } else {
        seconds = 0;
        RecvTime(p, &seconds);
    }
    check(seconds == 1.5, "the time");
    FreeBuff(p->r_buff, p->s_buff);
    CleanUp(p);
    return 0;
}

/* The declarations of NetPIPE's own netpipe.h that a module uses. This file replaces it only
 * without NetPIPE. */
#ifndef NETPIPE_H
#define NETPIPE_H

typedef struct {
    int tr;       /* this side transmits first */
    int rcv;      /* this side receives first */
    int bufflen;  /* size of a message in bytes */
    char *r_buff; /* buffers */
    char *s_buff;
    char *r_ptr; /* start of the message in them */
    char *s_ptr;
} ArgStruct;

void Init(ArgStruct *p, int *count, char ***arguments);
void Setup(ArgStruct *p);
void Sync(ArgStruct *p);
void PrepareToReceive(ArgStruct *p);
void SendData(ArgStruct *p);
void RecvData(ArgStruct *p);
void SendTime(ArgStruct *p, double *seconds);
void RecvTime(ArgStruct *p, double *seconds);
void SendRepeat(ArgStruct *p, int repeat);
void RecvRepeat(ArgStruct *p, int *repeat);
void CleanUp(ArgStruct *p);
void Reset(ArgStruct *p);
void AfterAlignmentInit(ArgStruct *p);
void MyMalloc(ArgStruct *p, int bytes, int send_offset, int receive_offset);
void FreeBuff(char *first, char *second);

#endif
